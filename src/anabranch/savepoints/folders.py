"""Savepoints as folders, and their checks when they are opened."""

from __future__ import annotations

import hashlib
import io
import os
import pickletools
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from anabranch.errors import MissingExtraError
from anabranch.paths import strip_scheme
from anabranch.savepoints.file_names import MANIFEST, MANIFEST_SUM, SOURCE_LOGS, find_fault
from anabranch.savepoints.manifest import (
    MOST_BYTES,
    FileRecord,
    Manifest,
    SavepointError,
    read_manifest,
)

if TYPE_CHECKING:
    import pyarrow as pa

_PARQUET = b"PAR1"
_MOST_LOOKED_AT = 1 << 20


class NoSavepointError(SavepointError, LookupError):
    """There is no savepoint at a path."""


class DamagedSavepointError(SavepointError):
    """A savepoint was changed after it was made; the error names all changed, missing and extra files."""

    def __init__(
        self,
        where: str,
        changed: Iterable[str] = (),
        missing: Iterable[str] = (),
        extra: Iterable[str] = (),
    ) -> None:
        self.changed, self.missing, self.extra = tuple(changed), tuple(missing), tuple(extra)
        found = {"changed": self.changed, "missing": self.missing, "extra": self.extra}
        super().__init__(
            "this savepoint was changed after it was made",
            where=where,
            expected="the files of its manifest, each with its checksum, and no others",
            got="; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names),
            cure="use another copy of it; do not repair it by hand",
        )


class ForbiddenFileError(SavepointError):
    """A file is not allowed in a savepoint: it is a link, not a table, or a pickle."""


@dataclass(frozen=True)
class Savepoint:
    """An open savepoint."""

    path: Path
    manifest: Manifest

    def list_tables(self, folder: str) -> list[str]:
        """Return the tables in a folder of the savepoint, in order."""
        return [
            path
            for path in self.manifest.files
            if path.startswith(f"{folder}/") and "/" not in path[len(folder) + 1 :]
        ]

    def read_table(self, relative: str) -> pa.Table:
        """Return one of the tables."""
        parquet = import_parquet()
        # A handle, not a name: a name such as key=1 would be read as a partition column.
        with (self.path / relative).open("rb") as file:
            try:
                return parquet.read_table(file)
            except (OSError, ValueError) as error:
                raise _refuse_table(self.path, relative, error) from error


def open_savepoint(path: Path | str, *, verify: bool = True) -> Savepoint:
    """Return a savepoint; with `verify`, read all files and raise if one was changed."""
    folder = Path(strip_scheme(path, "savepoint"))
    manifest = read_manifest(read_manifest_bytes(folder))
    if verify:
        check_files(folder, manifest)
    return Savepoint(folder, manifest)


def read_manifest_bytes(folder: Path) -> bytes:
    """Return the bytes of a manifest; raise if its checksum does not match."""
    present = [name for name in (MANIFEST, MANIFEST_SUM) if _is_plain(folder / name)]
    if not present:
        raise NoSavepointError(
            f"{folder} is not a savepoint",
            expected=f"a folder with {MANIFEST} and {MANIFEST_SUM}",
            got="a folder without them" if folder.is_dir() else "no folder",
            cure="give the savepoint's own folder, not its parent",
        )
    absent = {MANIFEST, MANIFEST_SUM} - set(present)
    if absent:
        raise DamagedSavepointError(str(folder), missing=absent)
    with (folder / MANIFEST).open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    with (folder / MANIFEST_SUM).open("rb") as file:
        recorded = file.read(1000)
    if recorded != sum_manifest(data):
        if not re.fullmatch(rb"[0-9a-f]{64}  manifest\.json\n", recorded):
            raise DamagedSavepointError(str(folder), changed=[MANIFEST_SUM])
        raise DamagedSavepointError(str(folder), changed=[f"{MANIFEST} (or {MANIFEST_SUM})"])
    return data


def sum_manifest(data: bytes) -> bytes:
    """Return the content of `manifest.sha256`: a line for `sha256sum -c`."""
    return f"{hashlib.sha256(data).hexdigest()}  {MANIFEST}\n".encode()


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise if the files of a folder are not exactly those of its manifest."""
    found, strange = list_files(folder)
    found -= {MANIFEST, MANIFEST_SUM}
    expected = set(manifest.files)
    missing = sorted(expected - found - strange)
    # A folder that is empty because its files are missing is not an extra one.
    emptied = {f"{above}/" for path in missing for above in PurePosixPath(path).parents}
    extra = sorted((found | strange) - expected - emptied)
    changed = sorted(strange & expected)
    for relative in sorted(expected & found):
        record = manifest.files[relative]
        file = folder / relative
        if file.stat().st_size != record.bytes or sum_file(file) != record.sha256:
            changed.append(relative)
    if changed or missing or extra:
        raise DamagedSavepointError(str(folder), changed, missing, extra)
    for relative in manifest.files:
        check_content(folder, relative)


def list_files(folder: Path) -> tuple[set[str], set[str]]:
    """Return the regular files below a folder, and all others: links, pipes, empty folders."""
    plain: set[str] = set()
    strange: set[str] = set()
    for place, folders, files in os.walk(folder):
        here = Path(place)
        relative = here.relative_to(folder).as_posix()
        if not folders and not files and here != folder:
            strange.add(f"{relative}/")
        for name in [*folders, *files]:
            path = (here / name).relative_to(folder).as_posix()
            if name in files and _is_plain(here / name):
                plain.add(path)
            elif name in files or (here / name).is_symlink():
                strange.add(path)
    return plain, strange


def check_content(folder: Path, relative: str) -> None:
    """Raise if a file is neither a table nor a source's log, or is a pickle."""
    file = folder / relative
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(4)
        stream.seek(max(0, size - 4))
        tail = stream.read(4)
        if relative.startswith(f"{SOURCE_LOGS}/"):
            if tail.endswith(b".") and size <= _MOST_LOOKED_AT:
                stream.seek(0)
                _refuse_pickle(folder, relative, stream.read())
            elif head[:1] == b"\x80":
                _refuse_pickle(folder, relative, head)
            return
    if (head, tail) != (_PARQUET, _PARQUET) or size < 12:
        raise ForbiddenFileError(
            f"{relative} is not allowed in a savepoint",
            where=str(folder),
            expected=f"a Parquet file, or a channel's own log below {SOURCE_LOGS}/",
            got="a pickle" if _is_pickle(head) else f"a file that begins with {head!r}",
        )


def _refuse_pickle(folder: Path, relative: str, data: bytes) -> None:
    if _is_pickle(data):
        raise ForbiddenFileError(
            f"{relative} is not allowed in a savepoint",
            where=str(folder),
            expected="a source's log, as text",
            got="a pickle, which can run code when it is read",
        )


def _is_pickle(data: bytes) -> bool:
    if re.match(rb"\x80[\x02-\x05]", data):
        return True
    try:
        *_, last = pickletools.genops(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - the parser may raise anything on other bytes
        return False
    return int(last[2] or 0) == len(data) - 1


def sum_file(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def record_files(folder: Path) -> Iterator[tuple[str, FileRecord]]:
    """Yield the record of each file below a folder; raise if a file is not allowed in a savepoint."""
    plain, strange = list_files(folder)
    for relative in sorted(strange | plain):
        fault = "it is a link, a pipe or an empty folder" if relative in strange else None
        fault = fault or find_fault(relative)
        if fault is not None:
            raise ForbiddenFileError(
                f"{relative} is not allowed in a savepoint", where=str(folder), got=fault
            )
        check_content(folder, relative)
        file = folder / relative
        rows = None if relative.startswith(f"{SOURCE_LOGS}/") else _count_rows(folder, relative)
        yield relative, FileRecord(sum_file(file), file.stat().st_size, rows)


def _count_rows(folder: Path, relative: str) -> int:
    try:
        with import_parquet().ParquetFile(folder / relative) as opened:
            return int(opened.metadata.num_rows)
    except (OSError, ValueError) as error:
        raise _refuse_table(folder, relative, error) from error


def _refuse_table(folder: Path, relative: str, error: Exception) -> ForbiddenFileError:
    return ForbiddenFileError(
        f"{relative} can't be read as Parquet",
        where=str(folder),
        got=str(error).splitlines()[0] if str(error) else type(error).__name__,
    )


def import_parquet() -> Any:
    """Return pyarrow's Parquet module; raise if it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "savepoints need pyarrow, which is not installed",
            expected="the extra `parquet`",
            cure="pip install 'anabranch[parquet]'",
        ) from error
    return parquet


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
