"""Publication: files and folders that are written atomically, complete or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial-"
"""The name prefix of files that are not complete yet."""


@contextmanager
def publish_file(file: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden path to write to, and rename it to `file` at the end.

    With `durable` the bytes are synced to disk before the rename. On an exception the hidden file is
    removed; a process that is killed leaves a file whose name begins with `PARTIAL`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with publish_file(folder / "answer.txt") as partial:
    ...     _ = partial.write_text("42")
    >>> [path.name for path in folder.iterdir()]
    ['answer.txt']
    """
    partial = file.with_name(f"{PARTIAL}{secrets.token_hex(4)}")
    try:
        yield partial
        if durable:
            sync(partial)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def publish_folder(folder: Path) -> Iterator[Path]:
    """Yield a new hidden folder to fill, and rename it to `folder` at the end.

    The hidden name is always `.NAME`; the files of an earlier attempt are removed first. On an exception
    the hidden folder stays, for inspection, until the next attempt removes it.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> with publish_folder(root / "batch=0") as draft:
    ...     _ = (draft / "rows.jsonl").write_text("{}")
    >>> [path.name for path in root.iterdir()]
    ['batch=0']
    """
    draft = folder.with_name(f".{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    yield draft
    draft.rename(folder)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are written to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
