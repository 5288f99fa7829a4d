"""The state of a query as data frames, at a committed batch, while it runs or after.

The frames have one batch across all shards. Tasks decode the values where Spark has read them; the driver
only gets the types of the columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.microbatch.inspect.state_tables import (
    describe_state,
    describe_store,
    make_schema,
    tabulate_store,
    unify_kinds,
)
from anabranch.microbatch.inspect.stored_state import (
    Address,
    Overview,
    read_overview,
    read_pending,
    sort_stores,
)
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.state_store import KeptStore
from anabranch.spark.checkpoint.state_values import (
    find_batch,
    find_checkpoint,
    find_running_session,
    read_values,
)
from anabranch.state.durable.kinds import UNKNOWN
from anabranch.state.evolution.schemas import EntryKinds, Schema, read_schema, write_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Batches = Iterator[pa.RecordBatch]

Value = tuple[int, int, str, bytes]

SMALL = "name rlike '^((shard|root|deferred_outputs):)?(head|description|ledger)$'"
PENDING = "name rlike '^(shard:)?(pending/.*|head|description)$'"
STATE = "not name rlike '^(shard:)?(pending/.*|deltas)$'"


@dataclass(frozen=True)
class StateView:
    """A checkpoint at a committed batch."""

    spark: SparkSession
    checkpoint: str
    batch: int

    @classmethod
    def open(
        cls,
        query: str | Path | StreamingQuery,
        batch: int | None = None,
        spark: SparkSession | None = None,
    ) -> StateView:
        """Return a view at `batch`, or at the last committed batch; all of its frames are of that batch."""
        checkpoint = find_checkpoint(query)
        return cls(spark or find_session(), checkpoint, find_batch(checkpoint, batch))

    @cached_property
    def overview(self) -> Overview:
        """Return the overview of the checkpoint, which does not need the state itself."""
        return read_overview(self.collect_stores(SMALL))

    @property
    def has_state(self) -> bool:
        """Return whether any shard has state yet."""
        return bool(self.read().take(1))

    @property
    def watermark(self) -> int:
        """Return the watermark: the least of all channels."""
        return min(standing.watermark for standing in self.overview.standings.values())

    def state(self) -> DataFrame:
        """Return the state's rows."""
        description = self.overview.description
        # Without values, the types that the program declares.
        kinds = description.emitted.state if self.kinds.entry == UNKNOWN else self.kinds

        def list_tables(tables: Iterable[tuple[Address, pa.Table]]) -> Iterator[pa.Table]:
            return (table for _, table in tables)

        return self.map_state(kinds, make_schema(kinds), list_tables)

    @cached_property
    def kinds(self) -> EntryKinds:
        """Return the kinds of the state's rows, found in tasks for objects; UNKNOWN if there are no rows."""
        description = self.overview.description
        known = describe_state(description)
        return self._look_through(description) if known is None else known

    def map_state(
        self,
        kinds: EntryKinds,
        schema: pa.Schema,
        make: Callable[[Iterable[tuple[Address, pa.Table]]], Iterator[pa.Table]],
    ) -> DataFrame:
        """Return a frame of the tables that `make` returns in tasks for the state's rows, store by store."""
        written = self.overview.description.write()

        def tabulate(rows: Iterable[Value]) -> Iterator[pa.Table]:
            description = Description.read(written)
            return make(
                (address, tabulate_store(kinds, description, address, store))
                for address, store in sort_stores(rows).items()
            )

        return map_stores(self.read().where(STATE), schema, tabulate)

    def channels(self) -> DataFrame:
        """Return the position of each channel: watermark, largest time, last sequence number."""
        schema = "name string, watermark long, largest long, last long, silence_ms long, waived long, joined long"
        rows = [
            (name, s.watermark, s.largest, s.last, s.silence_ms, s.waived, s.joined)
            for name, s in sorted(self.overview.standings.items())
        ]
        return self.spark.createDataFrame(rows, schema)

    def ledger(self) -> DataFrame:
        """Return the ledger: the counts of all events so far."""
        ledger = self.overview.ledger
        schema = ", ".join(f"{name} long" for name in ledger._fields)
        return self.spark.createDataFrame([tuple(ledger)], schema)

    def pending(self) -> DataFrame:
        """Return the pending events, which wait for the watermark; `event` is JSON."""
        import pyarrow as pa

        columns = {
            "time": pa.int64(),
            "type": pa.string(),
            "channel": pa.string(),
            "seq": pa.int64(),
        }
        schema = pa.schema(list((columns | {"event": pa.string()}).items()))
        written = self.overview.description.write()

        def list_pending(rows: Iterable[Value]) -> Iterator[pa.Table]:
            description = Description.read(written)
            for address, store in sort_stores(rows).items():
                if address.role == "shard":
                    events = read_pending(description, address.number, store)
                    found = [
                        (e.time, type(e.data).__name__, e.channel, e.seq, encode_json(e.data))
                        for e in events
                    ]
                    yield pa.Table.from_pylist(
                        [dict(zip(schema.names, row, strict=True)) for row in found], schema
                    )

        return map_stores(self.read().where(PENDING), schema, list_pending)

    def read(self) -> DataFrame:
        """Return all values: operator, key, name, data."""
        return read_values(self.spark, self.checkpoint, self.batch)

    def collect_stores(self, condition: str) -> dict[Address, KeptStore]:
        """Return the stores, with the values that meet a condition, on the driver."""
        return sort_stores(collect_values(self.read().where(condition)))

    def _look_through(self, known: Description) -> EntryKinds:
        written = known.write()

        def describe(batches: Batches) -> Batches:
            import pyarrow as pa

            description = Description.read(written)
            stores = sort_stores(list_rows(batches))
            found = (describe_store(description, a, store) for a, store in stores.items())
            texts = [json.dumps(write_schema(Schema(kinds))) for kinds in found]
            yield pa.RecordBatch.from_pydict({"kinds": pa.array(texts, pa.string())})

        rows = self.read().where(STATE).mapInArrow(describe, "kinds string").collect()
        return unify_kinds(read_schema(json.loads(row.kinds)).state for row in rows)


def map_stores(
    values: DataFrame, schema: pa.Schema, make: Callable[[Iterable[Value]], Iterator[pa.Table]]
) -> DataFrame:
    """Return a frame of tables that `make` returns in tasks; all values of a store are in one partition."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    fitting = widen_schema(schema)
    changes = from_arrow_schema(fitting)
    expected = to_arrow_schema(changes, timezone="UTC")

    def map_batches(batches: Batches) -> Batches:
        for table in make(list_rows(batches)):
            yield from table.cast(fitting).cast(expected).to_batches()

    return values.mapInArrow(map_batches, changes)


def list_rows(batches: Batches) -> Iterator[Value]:
    """Yield the values in batches of operator, key, name and data."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def collect_values(frame: DataFrame) -> list[Any]:
    """Return the rows of a frame of values."""
    columns = [column.to_pylist() for column in frame.toArrow().columns]
    return list(zip(*columns, strict=True))


def widen_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types of Spark, which has no unsigned integers."""
    import pyarrow as pa

    return pa.schema([field.with_type(_widen(field.type)) for field in schema])


def _widen(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    signed = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    if kind == pa.uint64():
        return pa.decimal128(20, 0)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_widen(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_widen(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_widen(kind.key_type), _widen(kind.item_type))
    return signed.get(kind, kind)


def find_session() -> SparkSession:
    """Return the session of this process, or start one."""
    from anabranch.spark.session.startup import start_session

    return find_running_session() or start_session(ui=False)
