"""Drafts: savepoints that are being written, hidden beside their target until they are complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.paths import strip_scheme
from anabranch.publication import PARTIAL, publish_file, sync
from anabranch.savepoints.file_names import MANIFEST, MANIFEST_SUM, find_fault
from anabranch.savepoints.folders import (
    ForbiddenFileError,
    import_parquet,
    list_files,
    record_files,
    sum_manifest,
)
from anabranch.savepoints.manifest import Manifest, SavepointError, write_manifest

if TYPE_CHECKING:
    import pyarrow as pa


class SavepointExistsError(SavepointError, FileExistsError):
    """The target of a savepoint exists already."""


class Draft:
    """A savepoint that is being written. It can be pickled, so that tasks write their own parts.

    Each file is published atomically, and a file that is written again replaces the first: a task may be
    repeated.
    """

    def __init__(self, target: Path, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self._lock: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"target": self.target, "folder": self.folder, "_lock": None}

    def write_table(self, relative: str, table: pa.Table) -> None:
        """Write a Parquet file."""
        parquet = import_parquet()
        with self._replace(relative) as partial:
            parquet.write_table(table, partial, compression="zstd")

    def add_file(self, relative: str, source: Path) -> None:
        """Copy a file unchanged."""
        with self._replace(relative) as partial:
            shutil.copyfile(source, partial)

    @contextmanager
    def _replace(self, relative: str) -> Iterator[Path]:
        fault = find_fault(relative)
        if fault is not None:
            raise ForbiddenFileError(f"{relative!r} is not allowed in a savepoint", got=fault)
        file = self.folder / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        with publish_file(file, durable=True) as partial:
            yield partial

    def seal(self, manifest: Manifest) -> Path:
        """Compute the checksums, write the manifest, and rename the draft to its target."""
        for path in self.folder.rglob(f"{PARTIAL}*"):
            path.unlink()  # Left by a task that failed, or by a slower attempt.
        sealed = manifest.seal(dict(record_files(self.folder)))
        data = write_manifest(sealed)
        for name, content in ((MANIFEST, data), (MANIFEST_SUM, sum_manifest(data))):
            (self.folder / name).write_bytes(content)
            sync(self.folder / name)
        return self.publish()

    def publish(self) -> Path:
        """Rename a complete draft to its target; return the target."""
        for relative in list_files(self.folder)[0]:
            sync(self.folder / relative)
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir():
                sync(path)
        sync(self.folder)
        check_is_free(self.target)
        try:
            self.folder.rename(self.target)
        except OSError as error:
            check_is_free(self.target)
            raise SavepointError(f"{self.target} can't be written", got=str(error)) from error
        sync(self.target.parent)
        self._unlock()
        return self.target

    def discard(self) -> None:
        """Remove the draft."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._unlock()

    def _lock_folder(self) -> bool:
        """Lock the draft, so that it is not taken as abandoned; return whether it still exists."""
        self._lock = os.open(self.folder, os.O_RDONLY)
        _try_lock(self._lock, wait=True)
        return self.folder.is_dir()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def begin_draft(target: Path | str) -> Iterator[Draft]:
    """Yield a new draft; it is removed if it is not sealed at the end."""
    target = Path(target)
    check_is_free(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target)
        draft = _make(target)
    except OSError as error:
        raise SavepointError(f"{target} can't be written", got=str(error)) from error
    try:
        yield draft
    finally:
        if draft.folder.exists():
            draft.discard()


def _make(target: Path) -> Draft:
    while True:
        folder = target.with_name(f".{target.name}.draft-{secrets.token_hex(4)}")
        folder.mkdir()
        draft = Draft(target, folder)
        if draft._lock_folder():
            return draft
        draft._unlock()  # A clean-up by another process has removed it.


def remove_abandoned(target: Path) -> None:
    """Remove drafts of a savepoint that no process has locked."""
    for folder in target.parent.glob(f".{escape(target.name)}.draft-*"):
        try:
            handle = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            continue  # It was removed meanwhile, or is not a folder.
        try:
            if _try_lock(handle, wait=False):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def check_is_free(target: Path) -> None:
    """Raise if the target of a savepoint exists."""
    target = Path(strip_scheme(target, "savepoint"))
    if target.exists() or target.is_symlink():
        raise SavepointExistsError(
            f"{target} already exists",
            expected="a new name: a savepoint is never overwritten",
            got="a folder" if target.is_dir() else "a file",
            cure=f"choose another name, or run: anabranch savepoint delete {target}",
        )


def _try_lock(handle: int, *, wait: bool) -> bool:
    try:
        import fcntl
    except ImportError:  # Not available on this system: abandoned drafts are kept.
        return wait
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
