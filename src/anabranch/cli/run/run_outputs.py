"""The files that a run writes: its outputs, and late and rejected events beside them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from anabranch.errors import InputError
from anabranch.microbatch.exchange.csv_files import check_flat, write_csv
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.exchange.result_rows import describe_output
from anabranch.model.program import Program
from anabranch.paths import strip_scheme
from anabranch.reference.rows import (
    STANDARD,
    check_output_name,
    find_format,
    import_arrow,
    write_rows,
)
from anabranch.speculation.output_changes import OutputChange

if TYPE_CHECKING:
    import pyarrow as pa

FileKind = Literal["jsonl", "parquet", "csv"]
PartFormat = Literal["json", "parquet", "csv"]

PART_FORMATS: Mapping[FileKind, PartFormat] = {
    "jsonl": "json", "parquet": "parquet", "csv": "csv",
}  # fmt: skip
"""The formats of published batches, by the names that flags have for them."""


class Stops(NamedTuple):
    """The savepoints of a run: the one it starts from, and the one it writes."""

    start: str | None = None
    end: str | None = None


def check_output(output: str, kind: FileKind | None) -> None:
    """Raise `InputError` for a file that outputs can't be written to, before the run."""
    if output == STANDARD:
        return
    path = strip_scheme(output, "output")
    if kind is None:
        check_output_name(path)
    if not Path(path).absolute().parent.is_dir():
        raise InputError(
            f"there is no folder for {output!r}",
            expected="--output FILE in a folder that exists",
            got=f"no folder {Path(path).parent}",
            cure=f"mkdir -p {shlex.quote(str(Path(path).parent))}",
        )


def check_csv(program: Program, output: str | None, kind: FileKind | None) -> None:
    """Raise `InputError` if outputs are to be written to a CSV file and have nested fields."""
    if output is not None and is_csv(output, kind):
        import_arrow()
        check_flat(list_output_columns(program), cure="--format jsonl or parquet")


def is_csv(file: str, kind: FileKind | None) -> bool:
    """Return whether a file of outputs is CSV, by its name or the given format."""
    return (kind or find_format(file)) == "csv"


def write_outputs(
    document: dict[str, Any], file: str, kind: FileKind | None, table: pa.Table | None = None
) -> list[str]:
    """Write the outputs of a run into a file, and late and rejected events beside it; return the files.

    A CSV file gets the `table` of outputs, in the columns of results.
    """
    if table is not None:
        _write_csv(table, file)
    else:
        write_rows(file, document["outputs"], kind)
    if file == STANDARD:
        return []
    written = [file]
    for name in ("late", "rejected"):
        if document[name]:
            write_rows(f"{file}.{name}.jsonl", document[name], "jsonl")
            written.append(f"{file}.{name}.jsonl")
    return written


def list_output_columns(program: Program) -> OutputColumns:
    """Return the columns of a program's outputs."""
    return OutputColumns(program.output_types, timestamped=program.timestamped)


def make_output_table(changes: Iterable[OutputChange], program: Program) -> pa.Table:
    """Return outputs in the columns of results: id, time, op and their fields."""
    import pyarrow as pa

    rows = []
    for change in changes:
        key, index = change.id
        row = describe_output(change.value, change.event, index, key, program.output_types)
        rows.append(row._replace(op=change.op)._asdict())
    kinds = {
        "id": pa.string(), "time": pa.int64(), "op": pa.int32(),
        "value": pa.string(), "form": pa.int32(),
    }  # fmt: skip
    return list_output_columns(program).convert(pa.Table.from_pylist(rows, pa.schema(kinds)))


def _write_csv(table: pa.Table, file: str) -> None:
    if file == STANDARD:
        write_csv(table, sys.stdout.buffer)
        return
    path = strip_scheme(file, "output")
    try:
        with Path(path).open("wb") as stream:
            write_csv(table, stream)
    except OSError as error:
        raise InputError(f"{file!r} can't be written", got=str(error)) from error
