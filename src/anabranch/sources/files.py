"""The `Files` source: folders of files that are read with Arrow inside the task, without Spark's rows.

Files are read in the order of their names, never of their ages, and each once. The query's offsets record
which files have been read: their number, the last name, and a digest of all names, sizes and samples of
contents. A file whose name sorts before the last one read stops the query in the batch in which it appears.
A file that has changed since it was read stops the query at its next start, or when its batch is repeated.
Modification times are ignored: a copy of a folder is the same folder.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from anabranch.errors import AnabranchError, InputError
from anabranch.model.program import Program
from anabranch.paths import check_folder, resolve_path
from anabranch.sources.arrow_tables import read_arrow_blocks, read_parquet_blocks
from anabranch.sources.source_options import Source, name_columns
from anabranch.sources.text_blocks import ROW, read_csv_blocks, read_json_blocks

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ROW",
    "ChangedFilesError",
    "Files",
    "Found",
    "Taken",
    "check_taken",
    "list_batch",
    "list_files",
    "read_file",
]

FileFormat = Literal["parquet", "arrow", "json", "csv"]
FORMATS: tuple[FileFormat, ...] = ("parquet", "arrow", "json", "csv")

ROW_BITS = 32
"""Bits for the row's place in its file; the upper bits of a row's sequence are the number of the file."""

_SAMPLES, _SAMPLE_BYTES = 16, 1 << 14
"""The number of samples of a file's contents in its digest, and the size of each."""

BLOCK_ROWS = 1 << 17
"""Rows per block: small enough that a block stays in a core's own cache."""


class ChangedFilesError(AnabranchError, ValueError):
    """Files that a query has read have changed or are missing."""


@dataclass(frozen=True)
class Files(Source):
    """A folder of files as a source: `Files("in/north", format="json", event=Txn, lateness=5)`.

    Write a file under a name that begins with a dot, then rename it: a visible file must be complete.
    Without a sequence column, the sequence of an event is the number of its file and its row. The options
    that all sources share are those of `Source`; the default of `channel` is the folder's name.

    Files are read in the order of their names. If that is the wrong order, name a `manifest`: a text file in
    the folder, to which you append the name of each file when it is complete, one per line. A name may be an
    absolute path. A batch of a stream reads at most `files_per_batch` files (default 16).

    With `ended`, the files are the whole input: they are read as one batch, after which all events settle.
    """

    folder: str | Path
    _: KW_ONLY
    format: FileFormat = "parquet"
    files_per_batch: int = 16
    manifest: str | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(
                f"{self.format!r} is not a file format",
                expected=f"one of {', '.join(FORMATS)}",
                got=repr(self.format),
            )
        if self.files_per_batch < 1:
            raise InputError("a batch reads no files", expected="files_per_batch=1 or more")
        # An executor may have another current directory.
        object.__setattr__(self, "folder", str(resolve_path(self.folder, "input")))
        super().__post_init__()

    @classmethod
    def of(cls, program: Program, folder: str | Path, **options: Any) -> Files:
        """Return the source of a folder whose rows name their type and channel, as the command line reads it.

        Each row has the columns `type`, `channel`, `seq` and `heartbeat` beside its fields, with an `@` before
        the name if a field of the program has the same name. The channels are declared by `channels=[…]`.
        """
        names = name_columns(program)
        beside = {
            "type_column": names["type"],
            "channel_column": names["channel"],
            "seq": names["seq"],
            "heartbeat": names["heartbeat"],
        }
        return cls(folder, **{**beside, **options})

    @property
    def is_stream(self) -> bool:
        """Return whether more files may arrive."""
        return not self.ended

    @property
    def is_numbered(self) -> bool:
        """Return True: the sequence of rows without one is their place."""
        return True

    @property
    def default_channel(self) -> str:
        """Return the folder's name."""
        return Path(self.folder).name

    def check_schema(self, program: Program) -> None:
        """Raise `InputError` if the columns of Parquet or Arrow files show that no row can become an event."""
        from anabranch.sources.schema_check import check_files, name_columns_beside

        if self.format in ("parquet", "arrow"):
            paths = [str(Path(self.folder) / name) for name in list_names(self)]
            check_files(paths, self.list_event_types(program), name_columns_beside(self))


class Taken(NamedTuple):
    """The files of a folder that have been read: their number, the last name and a digest."""

    files: int = 0
    last: str = ""
    digest: str = ""

    def after(self, found: list[Found]) -> Taken:
        """Return the record after some more files have been read."""
        digest = self.digest
        for file in found:
            link = f"{digest}/{file.name}/{file.size}/{file.mark}"
            digest = hashlib.sha256(link.encode()).hexdigest()[:32]
        last = found[-1].name if found else self.last
        return Taken(self.files + len(found), last, digest)


class Found(NamedTuple):
    """A file in a folder, its number in the order of all files ever read, and a digest of its contents."""

    name: str
    size: int
    number: int
    mark: str = ""


def list_files(
    files: Files,
    taken: Taken,
    last: str | None = None,
    most: int | None = None,
    *,
    names: list[str] | None = None,
) -> list[Found]:
    """Return the files after those already read, up to the one named `last`, in the order of names.

    With `most`, return at most so many. Raise if the files before them are not those that were read.
    `names` is the result of `list_names`, if it is available.
    """
    folder = Path(files.folder)
    names = list_names(files) if names is None else names
    if files.manifest is None:
        fresh = [name for name in names if name > taken.last and (last is None or name <= last)]
        _check_before(files, taken, names)
    else:
        fresh = names[taken.files : None if last is None else _find(names, last) + 1]
    return [_look_at(folder, name, taken.files + place) for place, name in enumerate(fresh[:most])]


def _look_at(folder: Path, name: str, number: int) -> Found:
    path = folder / name
    try:
        return Found(name, path.stat().st_size, number, mark_contents(path))
    except OSError as error:
        raise InputError(
            f"{path} can't be read", expected="a file that stays in its folder", got=str(error)
        ) from error


def list_names(files: Files) -> list[str]:
    """Return the names of a folder's files, in the order of reading."""
    folder = check_folder(files.folder)
    if files.manifest is not None:
        return _read_manifest(folder, files.manifest)
    names = sorted(p.name for p in folder.iterdir() if p.name[0] not in "._" and p.is_file())
    for name in names:
        if not _is_text(name):
            raise InputError(
                f"a file in {files.folder} has a name that is not UTF-8",
                expected="names in UTF-8, whose order is the order of the files",
                got=os.fsencode(name).decode("utf-8", "backslashreplace"),
                cure="rename the file",
            )
    return names


def mark_contents(path: Path) -> str:
    """Return a digest of a file's contents; of a large file, of samples from its start to its end."""
    size = path.stat().st_size
    step = max(1, (size - _SAMPLE_BYTES) // (_SAMPLES - 1))
    whole = size <= _SAMPLES * _SAMPLE_BYTES
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for place in (0,) if whole else range(_SAMPLES):
            file.seek(place * step if place < _SAMPLES - 1 else size - _SAMPLE_BYTES)
            digest.update(file.read(_SAMPLES * _SAMPLE_BYTES if whole else _SAMPLE_BYTES))
    return digest.hexdigest()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_before(files: Files, taken: Taken, names: list[str]) -> None:
    """Raise if the number of names up to the last one read differs from the number of files read."""
    before = bisect_right(names, taken.last) if taken.files else 0
    if before != taken.files:
        raise _describe_change(files, taken.last, before, taken.files)


def _find(names: list[str], last: str) -> int:
    return names.index(last) if last in names else -1


def _read_manifest(folder: Path, manifest: str) -> list[str]:
    """Return the names in a manifest; the last line counts only if it ends with a line feed."""
    path = folder / manifest
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    names = [line.strip() for line in text[: text.rfind("\n") + 1].splitlines() if line.strip()]
    twice = {name for name in names if names.count(name) > 1} if len({*names}) < len(names) else {}
    missing = [name for name in names if not (folder / name).is_file()]
    for wrong, why in ((sorted(twice), "twice in it"), (missing, "not in the folder")):
        if wrong:
            raise ChangedFilesError(
                f"the manifest {path} is invalid",
                expected="names of files in the folder, each once",
                got=f"{wrong[0]}, which is {why}",
                cure="append a name when its file is complete, and remove none",
            )
    return names


def check_taken(files: Files, taken: Taken) -> None:
    """Raise if the files that were read have changed."""
    if taken.files:
        _check(files, Taken(), taken)


def list_batch(files: Files, start: Taken, end: Taken) -> list[Found]:
    """Return the files of a batch; raise if they are not those found when the batch was planned."""
    return _check(files, start, end)


def _check(files: Files, start: Taken, end: Taken) -> list[Found]:
    if start == end:
        return []
    found = list_files(files, start, end.last)
    if start.after(found) == end:
        return found
    raise _describe_change(files, end.last, len(found), end.files - start.files)


def _describe_change(files: Files, last: str, found: int, read: int) -> ChangedFilesError:
    cause = "the same names, but other contents"
    if found != read:
        cause = f"{found} files up to {last}, where {read} were read"
    return ChangedFilesError(
        f"files in {files.folder} have changed since they were read",
        expected="files that do not change, and new ones whose names sort last",
        got=cause,
        cure="restore the files; give a late file a name that sorts after the last one",
    )


def read_file(
    files: Files, found: Found, wanted: Mapping[str, str], *, typed: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows in blocks, with their places.

    `wanted` maps columns to the types that texts are read as. Blocks of JSON lines and CSV contain the text of
    each row, and beside it the wanted columns of plain rows; without `typed`, the text only.
    """
    import numpy as np
    import pyarrow as pa

    path = str(Path(files.folder) / found.name)
    place = found.number << ROW_BITS
    for batch in _read_blocks(files.format, path, wanted, typed=typed):
        if not batch.num_rows:
            continue
        places = pa.array(np.arange(place, place + batch.num_rows))
        place += batch.num_rows
        yield batch.append_column(ROW, places)


def _read_blocks(
    format: FileFormat,  # noqa: A002 - Spark's own word
    path: str,
    wanted: Mapping[str, str],
    *,
    typed: bool,
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    known = {name: kind for name, kind in wanted.items() if kind} if typed else {}
    try:
        if format == "json":
            yield from read_json_blocks(Path(path).read_bytes(), known, BLOCK_ROWS)
        elif format == "csv":
            # A cell is a text, whatever it is read as.
            cells = {name: kind or "string" for name, kind in wanted.items()} if typed else {}
            yield from read_csv_blocks(Path(path).read_bytes(), cells, BLOCK_ROWS, path)
        elif format == "arrow":
            yield from read_arrow_blocks(path, BLOCK_ROWS, wanted)
        else:
            yield from read_parquet_blocks(path, BLOCK_ROWS, wanted)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path} can't be read as {format}", got=str(error).splitlines()[0]
        ) from error
