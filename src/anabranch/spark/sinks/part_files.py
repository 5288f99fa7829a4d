"""Publishing: each task writes its part of a batch by itself, and tells the driver only the counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import InputError
from anabranch.microbatch.exchange.packed_rows import read_schema, unpack
from anabranch.spark.sinks.packed_frames import is_packed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Format = Literal["json", "parquet"]


def write_rows(frame: DataFrame, draft: Path, format: Format) -> list[dict[str, Any]]:  # noqa: A002
    """Write the rows of a batch into `draft/kind=…`; return what the ledger rows say.

    The batch is computed once, and to its end: that is what Spark's state needs.
    """
    draft.mkdir(parents=True)
    writer = _make_writer(str(draft), format, packed=is_packed(frame))
    counts = frame.mapInArrow(writer, "value string").collect()
    return [json.loads(row.value) for row in counts]


def check_format(folder: Path, format: Format) -> None:  # noqa: A002 - Spark's own word
    """Refuse to publish in another format into a folder that holds batches."""
    for batch in sorted(folder.glob("batch=*")):
        found = next(batch.glob("kind=*/part-*"), None)
        if found is not None:
            there = found.suffix.lstrip(".")
            if there != format:
                names = {"json": "jsonl"}
                raise InputError(
                    f"{folder} holds batches of another format",
                    expected=f"format {there}, as they are",
                    got=format,
                    cure=f"--format {names.get(there, there)}, or a new folder",
                )
            return


def write_nothing(draft: Path, format: Format) -> None:  # noqa: A002 - Spark's own word
    """Write a file without rows: a reader of the folder learns the columns from it."""
    import pyarrow as pa

    schema = pa.schema([field for field in read_schema() if field.name != "kind"])
    _write_file(schema.empty_table(), draft / "kind=output" / f"part-none.{format}", format)


def _make_writer(
    draft: str,
    format: Format,  # noqa: A002 - Spark's own word
    *,
    packed: bool,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        kinds: dict[str, list[pa.RecordBatch]] = {}
        for batch in chain.from_iterable(map(unpack, batches)) if packed else batches:
            for kind in batch.column("kind").unique().to_pylist():
                rows = batch.filter(pc.equal(batch.column("kind"), kind))
                kinds.setdefault(kind, []).append(rows)
        ledgers = kinds.pop("ledger", [])
        for kind, parts in kinds.items():
            table = pa.Table.from_batches(parts).drop_columns(["kind"])
            folder = Path(draft) / f"kind={kind}"
            # A task that is tried again writes the same file again.
            _write_file(table, folder / f"part-{context.partitionId():05}.{format}", format)
        values = [value for rows in ledgers for value in rows.column("value").to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(values, pa.string())], ["value"])

    return write


def _write_file(table: pa.Table, file: Path, format: Format) -> None:  # noqa: A002
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}")
    if format == "parquet":
        # What repeats is worth a dictionary; ids and values hardly ever do.
        pq.write_table(table, hidden, use_dictionary=["tag", "source", "reason"])
    else:
        with hidden.open("w", encoding="utf-8") as out:
            for row in table.to_pylist():
                present = {name: value for name, value in row.items() if value is not None}
                out.write(json.dumps(present, ensure_ascii=False) + "\n")
    os.replace(hidden, file)
