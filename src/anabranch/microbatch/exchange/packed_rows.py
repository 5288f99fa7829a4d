"""Packs: many result rows in one Spark row, for sinks that write files.

A result is an ordinary frame of rows, for any sink. For a sink that writes files itself, the JVM need not
unpack the rows and pack them again: the sink gets packs, and writes the columns unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.result_rows import COLUMNS, ResultRow

if TYPE_CHECKING:
    import pyarrow as pa

PACK_SCHEMA = "pack binary, ledger string"
"""A pack of rows; beside the first pack of an operator, a summary of its ledger rows as JSON, for metrics."""

_PACK_ROWS = 1 << 15
"""Rows of a pack; more rows would make an object that is too large for the JVM."""


def read_schema() -> pa.Schema:
    """Return the columns of a result."""
    import pyarrow as pa

    types = {"string": pa.string(), "long": pa.int64(), "int": pa.int32()}
    columns = [column.split() for column in COLUMNS.split(", ")]
    return pa.schema([(name, types[kind]) for name, kind in columns])


def make_table(rows: Sequence[ResultRow], tables: Sequence[pa.Table] = ()) -> pa.Table:
    """Return rows, and tables of rows, as one table."""
    import pyarrow as pa

    schema = read_schema()
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.concat_tables([pa.Table.from_arrays(arrays, schema=schema), *tables])


def pack(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as bytes, in parts."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for batch in table.combine_chunks().to_batches(max_chunksize=_PACK_ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def summarize(table: pa.Table) -> str:
    """Return the sum of a table's ledger rows, and its number of outputs, as JSON.

    Counts are added, the watermark is the minimum; other data of channels is omitted.
    """
    import pyarrow.compute as pc

    kinds = table.column("kind")
    counts = [
        json.loads(v) for v in table.column("value").filter(pc.equal(kinds, "ledger")).to_pylist()
    ]
    names = ("input_events", *Ledger._fields)
    found: dict[str, Any] = {name: sum(count.get(name, 0) for count in counts) for name in names}
    found["output_rows"] = pc.sum(pc.equal(kinds, "output")).as_py() or 0
    for name in ("watermark", "held_back_by"):
        known = [count[name] for count in counts if name in count]
        found |= {name: min(known)} if known else {}
    return json.dumps(found)


def unpack(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch of packs."""
    import pyarrow as pa

    for data in batch.column("pack"):
        with pa.ipc.open_stream(data.as_buffer()) as reader:
            yield from reader
