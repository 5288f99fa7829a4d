"""Publication: files and folders that are whole or not there, whatever interrupts their writer."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial-"
"""How the name of a file begins that is not whole yet."""


@contextmanager
def publish_file(file: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden path to write to; put what was written in the place of `file` by one rename.

    With `durable` the bytes are on the disk before the name is. An exception leaves nothing behind; a
    process that dies leaves a file whose name begins with `PARTIAL`.

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
    """Yield a new hidden folder to fill; give it the name of `folder` by one rename.

    The hidden name is `.NAME`, always the same: what an earlier attempt left there is removed first. A
    caller that fails leaves its draft hidden, to be looked at or to be removed by the next attempt.

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
    """Wait until the disk holds a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
