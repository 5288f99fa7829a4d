"""Results: what a query gives, as frames of their own: outputs, late events, rejected events, the ledger.

Inside, a query's rows travel in packs, many in one row of Spark's. Frames are made of them in tasks, column by
column; a sink of ours takes the packs as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.microbatch.exchange.event_columns import KINDS, convert_events
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.exchange.packed_rows import PACK_SCHEMA, pack, unpack
from anabranch.microbatch.exchange.result_rows import COLUMNS
from anabranch.model.values.output_types import UNKNOWN, OutputTypes
from anabranch.model.values.value_types import read_type
from anabranch.spark.checkpoint.provenance import Provenance

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_Batches = Iterator["pa.RecordBatch"]


@dataclass(frozen=True)
class Result:
    """What a program gives of its sources. `outputs` is what you write with `writeStream`, or collect.

    `docs/result-columns.md` has the columns of each frame. Each frame that is started by itself is a query
    of its own; `write_directory` and `for_each_batch` write all of them in one.
    """

    packs: DataFrame = field(repr=False)
    types: OutputTypes = UNKNOWN
    shards: int | None = None
    made_by: Provenance | None = field(default=None, repr=False)
    name: str | None = None

    @property
    def columns(self) -> OutputColumns:
        """Return the columns of the outputs."""
        return OutputColumns(self.types)

    @property
    def outputs(self) -> DataFrame:
        """Return the outputs: id, time, op, and their fields in columns of their own types.

        An output that is no record is in the column `value`. Of several types each has a column of its
        own, and of outputs whose type is not known `value` is JSON.
        """
        return self._show_outputs(self.columns)

    @property
    def late(self) -> DataFrame:
        """Return the events that came too late, each with its `distance` behind its channel's watermark."""
        return self._show("late", KINDS["late"], lambda rows: convert_events("late", rows))

    @property
    def rejected(self) -> DataFrame:
        """Return what could not be used, with the reason, and as it came."""
        return self._show(
            "rejected", KINDS["rejected"], lambda rows: convert_events("rejected", rows)
        )

    @property
    def ledger(self) -> DataFrame:
        """Return what each operator has counted, as JSON; batch after batch, counts of everything so far."""
        return self._show("ledger", KINDS["ledger"], lambda rows: convert_events("ledger", rows))

    @property
    def rows(self) -> DataFrame:
        """Return the rows inside of a query, of every kind, as `result_rows.COLUMNS` has them."""
        return self.packs.mapInArrow(_unpack_rows, COLUMNS)

    @property
    def is_streaming(self) -> bool:
        """Say whether the frames are streams."""
        return self.packs.isStreaming

    @property
    def session(self) -> SparkSession:
        """Return the session that the frames belong to."""
        return self.packs.sparkSession

    def select(self, output_type: Any) -> DataFrame:
        """Return the outputs of one of several types, with their fields as columns."""
        names = [type_.name for type_ in self.types.types]
        wanted = getattr(output_type, "__name__", None)
        for number, type_ in enumerate(self.types.types):
            if type_.cls is output_type or type_ == read_type(output_type):
                return self._show_outputs(OutputColumns(self.types, number))
        raise InputError(
            f"{wanted or output_type} is no type of the program's outputs",
            expected=f"one of {', '.join(names)}" if names else "a program with known output types",
            got=str(wanted or output_type),
            cure="Program(..., outputs=...) declares them",
        )

    def with_packs(self, packs: DataFrame) -> Result:
        """Return a result of the same program with other packs, such as those of one batch."""
        return replace(self, packs=packs)

    def _show_outputs(self, columns: OutputColumns) -> DataFrame:
        return self._show("output", columns.ddl, columns.convert)

    def _show(
        self, kind: str, ddl: str, convert: Callable[[pa.RecordBatch], pa.Table]
    ) -> DataFrame:
        def show(batches: _Batches) -> _Batches:
            import pyarrow.compute as pc

            for batch in batches:
                for rows in unpack(batch):
                    mine = rows.filter(pc.equal(rows.column("kind"), kind))
                    if len(mine):
                        yield from convert(mine).combine_chunks().to_batches()

        return self.packs.mapInArrow(show, ddl)


def pack_rows(rows: DataFrame) -> DataFrame:
    """Return result rows in packs."""

    def pack_all(batches: _Batches) -> _Batches:
        import pyarrow as pa

        for batch in batches:
            packs = list(pack(pa.Table.from_batches([batch])))
            ledgers = pa.nulls(len(packs), pa.string())
            yield pa.record_batch({"pack": pa.array(packs, pa.binary()), "ledger": ledgers})

    return rows.mapInArrow(pack_all, PACK_SCHEMA)


def _unpack_rows(batches: _Batches) -> _Batches:
    for batch in batches:
        yield from unpack(batch)
