"""Published results as Arrow tables: what a run, embedded or on Spark, has written into an output folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.microbatch.runs.part_files import FOLDERS
from anabranch.microbatch.runs.part_reading import read_part
from anabranch.microbatch.runs.published_batches import list_batches, read_schema

if TYPE_CHECKING:
    import pyarrow as pa


def read_outputs(folder: str | Path) -> pa.Table:
    """Return the outputs that were published into a folder, with the number of their `batch`.

    The column `batch` is left out if outputs have a field of that name.
    """
    return _read(folder, "output")


def read_late(folder: str | Path) -> pa.Table:
    """Return the late events that were published into a folder, with the number of their `batch`."""
    return _read(folder, "late")


def read_rejected(folder: str | Path) -> pa.Table:
    """Return the rejected events that were published into a folder, with the number of their `batch`."""
    return _read(folder, "rejected")


def _read(folder: str | Path, kind: str) -> pa.Table:
    import pyarrow as pa

    batches = sorted(list_batches(folder).items())
    if not batches:
        raise InputError(
            f"nothing is published in {str(folder)!r}",
            expected="a folder that a run has written: anabranch run --output, or output=",
            got="no folder batch=0, batch=1, …",
        )
    schema = read_schema(batches[-1][1], FOLDERS[kind])
    tables = [
        _add_batch(read_part(file, schema), number)
        for number, batch in batches
        for file in sorted((batch / FOLDERS[kind]).glob("part-*"))
    ]
    return pa.concat_tables(
        tables or [_add_batch(schema.empty_table(), 0)], promote_options="default"
    )


def _add_batch(table: pa.Table, number: int) -> pa.Table:
    import pyarrow as pa

    if "batch" in table.column_names:
        return table
    return table.append_column("batch", pa.array([number] * len(table), pa.int32()))
