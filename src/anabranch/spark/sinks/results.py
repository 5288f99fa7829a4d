"""Results of a query as data frames: outputs, late events, rejected events and the ledger.

Inside a query, rows travel in packs: many result rows in one row of Spark. Tasks convert them to frames,
column by column. The sinks of Anabranch read the packs directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.microbatch.exchange.event_columns import convert_events, describe_kind
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
    """The result of a program on its sources: the data frames `outputs`, `late`, `rejected` and `ledger`.

    Write `outputs` with `writeStream`, or collect it if the sources are bounded. Each frame that you start is
    a query of its own; `write_directory` and `for_each_batch` write all frames in one query.
    `docs/result-columns.md` lists the columns of each frame.
    """

    packs: DataFrame = field(repr=False)
    types: OutputTypes = UNKNOWN
    shards: int | None = None
    made_by: Provenance | None = field(default=None, repr=False)
    name: str | None = None
    timestamped: bool = False

    @property
    def columns(self) -> OutputColumns:
        """Return the columns of the outputs."""
        return OutputColumns(self.types, timestamped=self.timestamped)

    @property
    def outputs(self) -> DataFrame:
        """Return the outputs: id, time, op, and their fields in typed columns.

        An output that is not a record is in the column `value`. If a program has several output types, each
        has a column of its own. If the type of outputs is unknown, `value` is JSON.
        """
        return self._show_outputs(self.columns)

    @property
    def late(self) -> DataFrame:
        """Return the events that arrived too late, with their `distance` behind their channel's watermark."""
        return self._show_events("late")

    @property
    def rejected(self) -> DataFrame:
        """Return the events that could not be used, with the `reason` and the `raw` input."""
        return self._show_events("rejected")

    @property
    def ledger(self) -> DataFrame:
        """Return the counts of each operator as JSON, with each batch, since the query's first start."""
        return self._show_events("ledger")

    @property
    def rows(self) -> DataFrame:
        """Return the result rows of every kind, with the columns of `result_rows.COLUMNS`."""
        return self.packs.mapInArrow(_unpack_rows, COLUMNS)

    @property
    def is_streaming(self) -> bool:
        """Return whether the frames are streams."""
        return self.packs.isStreaming

    @property
    def session(self) -> SparkSession:
        """Return the Spark session of the frames."""
        return self.packs.sparkSession

    def select(self, output_type: Any) -> DataFrame:
        """Return the outputs of one of the program's output types, with their fields as columns."""
        names = [type_.name for type_ in self.types.types]
        wanted = getattr(output_type, "__name__", None)
        for number, type_ in enumerate(self.types.types):
            if type_.cls is output_type or type_ == read_type(output_type):
                return self._show_outputs(replace(self.columns, only=number))
        raise InputError(
            f"{wanted or output_type} is no type of the program's outputs",
            expected=f"one of {', '.join(names)}" if names else "a program with known output types",
            got=str(wanted or output_type),
            cure="Program(..., outputs=...) declares them",
        )

    def with_packs(self, packs: DataFrame) -> Result:
        """Return a result of the same program with other packs, such as those of one batch."""
        return replace(self, packs=packs)

    def describe_kind(self, kind: str) -> str:
        """Return the columns of the outputs, or of late or rejected events, as Spark DDL."""
        if kind == "output":
            return self.columns.ddl
        return describe_kind(kind, timestamped=self.timestamped)

    def _show_events(self, kind: str) -> DataFrame:
        timestamped = self.timestamped
        return self._show(
            kind,
            self.describe_kind(kind),
            lambda rows: convert_events(kind, rows, timestamped=timestamped),
        )

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
    """Return a frame of result rows as packs."""

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
