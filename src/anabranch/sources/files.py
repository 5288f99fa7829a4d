"""Files as a source: folders that are read with Arrow inside the task, without Spark's rows.

Files are taken in the order of their names, never of their ages, and each once. What has been taken is
part of the query's offsets: how many files, the last name, and a digest of all names and sizes. So a file
that shows up behind the last one, or changes after it was read, is noticed and named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from anabranch.errors import AnabranchError, InputError
from anabranch.paths import check_folder, resolve_path
from anabranch.sources.csv_rows import read_cells
from anabranch.sources.raw_rows import LINE

if TYPE_CHECKING:
    import pyarrow as pa

FileFormat = Literal["parquet", "arrow", "json", "csv"]
FORMATS: tuple[FileFormat, ...] = ("parquet", "arrow", "json", "csv")

ROW_BITS = 32
"""A row's sequence is the number of its file, then so many bits for its place in it."""

BLOCK_ROWS = 1 << 17
"""So many rows are read at once: what is done with them stays within a core's own cache."""

ROW = "anabranch row"
"""The column that says where a row stands."""


class ChangedFilesError(AnabranchError, ValueError):
    """Files that a query has read are not what they were."""


@dataclass(frozen=True)
class Files:
    """A folder whose files are a source's events, for `Feed(Files("in/north"), "north", …)`.

    Write a file under a name that begins with a dot, then rename it: whatever is there is complete.
    Without a sequence column, events have that of the files' names and their places in them.

    Files are taken in the order of their names. If that is not theirs, name a `manifest`: a text in the
    folder, to which you append the name of each file when it is complete, one to a line. A name may be an
    absolute path.

    Files that have `ended` are the whole input: they are read as one batch, after which everything settles.
    """

    folder: str | Path
    format: FileFormat = "parquet"
    files_per_batch: int = 16
    manifest: str | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(
                f"{self.format!r} is no format of files",
                expected=f"one of {', '.join(FORMATS)}",
                got=repr(self.format),
            )
        if self.files_per_batch < 1:
            raise InputError("a batch takes no files", expected="files_per_batch=1 or more")
        # A worker may have another current folder.
        object.__setattr__(self, "folder", str(resolve_path(self.folder, "input")))


class Taken(NamedTuple):
    """How far a folder has been read."""

    files: int = 0
    last: str = ""
    digest: str = ""

    def after(self, found: list[Found]) -> Taken:
        """Return how far it has been read with some more files."""
        digest = self.digest
        for file in found:
            digest = hashlib.sha256(f"{digest}/{file.name}/{file.size}".encode()).hexdigest()[:32]
        last = found[-1].name if found else self.last
        return Taken(self.files + len(found), last, digest)


class Found(NamedTuple):
    """A file in a folder, and its number in the order of all files ever read."""

    name: str
    size: int
    number: int


def list_files(files: Files, taken: Taken, last: str | None = None) -> list[Found]:
    """Return the files after those taken, up to the one named `last`, in the order of names."""
    folder = check_folder(files.folder)
    if files.manifest is None:
        names = sorted(p.name for p in folder.iterdir() if p.name[0] not in "._" and p.is_file())
        fresh = [name for name in names if name > taken.last and (last is None or name <= last)]
    else:
        names = _read_manifest(folder, files.manifest)
        fresh = names[taken.files : None if last is None else _find(names, last) + 1]
    return [
        Found(name, (folder / name).stat().st_size, taken.files + place)
        for place, name in enumerate(fresh)
    ]


def _find(names: list[str], last: str) -> int:
    return names.index(last) if last in names else -1


def _read_manifest(folder: Path, manifest: str) -> list[str]:
    """Return the names in a manifest; its last line counts when it is complete."""
    path = folder / manifest
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    names = [line.strip() for line in text[: text.rfind("\n") + 1].splitlines() if line.strip()]
    twice = {name for name in names if names.count(name) > 1} if len({*names}) < len(names) else {}
    missing = [name for name in names if not (folder / name).is_file()]
    for wrong, why in ((sorted(twice), "twice in it"), (missing, "not in the folder")):
        if wrong:
            raise ChangedFilesError(
                f"the manifest {path} can't be followed",
                expected="names of files in the folder, each once",
                got=f"{wrong[0]}, which is {why}",
                cure="append a name when its file is complete, and take none away",
            )
    return names


def check_taken(files: Files, taken: Taken) -> None:
    """Refuse to go on if the files that were read are not what they were."""
    if taken.files:
        _check(files, Taken(), taken)


def list_batch(files: Files, start: Taken, end: Taken) -> list[Found]:
    """Return the files of a batch; they must be those that were there when it was planned."""
    return _check(files, start, end)


def _check(files: Files, start: Taken, end: Taken) -> list[Found]:
    found = list_files(files, start, end.last)
    if start.after(found) == end or start == end:
        return [] if start == end else found
    if len(found) != end.files - start.files:
        cause = f"{len(found)} files up to {end.last}, where {end.files - start.files} were read"
    else:
        cause = "the same names, but other sizes"
    raise ChangedFilesError(
        f"files in {files.folder} have changed since they were read",
        expected="files that stay as they are, and new ones whose names come last",
        got=cause,
        cure="put back what was there; a late file gets a name behind the last one",
    )


def read_file(files: Files, found: Found, wanted: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows in batches, with the wanted columns that it has, and their places.

    `wanted` names columns and the types that texts are to be read as. Where something does not fit these,
    the file comes line by line.
    """
    import numpy as np
    import pyarrow as pa

    path = str(Path(files.folder) / found.name)
    place = found.number << ROW_BITS
    for batch in _read_blocks(files.format, path, wanted):
        places = pa.array(np.arange(place, place + batch.num_rows))
        place += batch.num_rows
        yield batch.append_column(ROW, places)


def _read_blocks(
    format: FileFormat,  # noqa: A002 - Spark's own word
    path: str,
    wanted: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        yield from _READERS[format](path, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        if format != "json":
            raise InputError(
                f"{path} can't be read as {format}", got=str(error).splitlines()[0]
            ) from error
        yield from _read_lines(path)


def _read_parquet(path: str, wanted: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, memory_map=True) as file:
        schema = file.schema_arrow
        known = [name for name in wanted if name in schema.names]
        yield from file.iter_batches(BLOCK_ROWS, columns=known, use_threads=False)


def _read_arrow(path: str, wanted: Mapping[str, str]) -> list[pa.RecordBatch]:
    import pyarrow as pa

    with pa.memory_map(path) as source:
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
    known = table.select([name for name in wanted if name in table.column_names])
    return list(known.to_batches(BLOCK_ROWS))


def _read_json(path: str, wanted: Mapping[str, str]) -> list[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.json as pj

    if not all(wanted.values()):
        return _read_lines(path)
    # Left to itself, the reader would take a text like 2026-01-01 for a time.
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in wanted.items()])
    table = pj.read_json(
        path,
        read_options=pj.ReadOptions(use_threads=False),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return list(table.to_batches(BLOCK_ROWS))


def _read_lines(path: str) -> list[pa.RecordBatch]:
    """Return the lines of a file, some of which are no JSON."""
    import pyarrow as pa

    lines = Path(path).read_bytes().splitlines()
    return list(pa.table({LINE: pa.array(lines, pa.binary())}).to_batches(BLOCK_ROWS))


def _read_csv(path: str, wanted: Mapping[str, str]) -> list[pa.RecordBatch]:
    return list(read_cells(path, wanted).to_batches(BLOCK_ROWS))


_READERS: dict[str, Any] = {
    "parquet": _read_parquet,
    "arrow": _read_arrow,
    "json": _read_json,
    "csv": _read_csv,
}
