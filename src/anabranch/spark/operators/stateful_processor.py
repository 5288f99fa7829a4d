"""The stateful processors that Spark runs; `microbatch.operators` has the operators themselves.

Before its first batch a query starts a process for each operator, only to ask for its state variables. So a
processor carries its job pickled, and imports the modules of the operator when the first rows arrive.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from anabranch.microbatch.store.handle_store import SparkStore

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from anabranch.microbatch.job.job import Job
    from anabranch.microbatch.operators.group_operators import GroupOperator

MAIL_SCHEMA = "to int, kind string, payload binary"
"""The messages between operators."""

_Frames = Iterator["pd.DataFrame"]


class GroupProcessor(StatefulProcessor):
    """Opens the state of a partition, and processes the rows of each of its groups in `_handle`."""

    def init(self, handle: Any) -> None:
        """Open the state of the partition."""
        self._store = SparkStore(handle)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: _Frames,
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> _Frames:
        """Return the output rows of one group of a batch."""
        yield self._handle(int(key[0]), rows)

    @abstractmethod
    def _handle(self, key: int, rows: _Frames) -> pd.DataFrame:
        """Return the rows that a group emits in a batch."""


class ShardProcessor(GroupProcessor):
    """Runs an operator on the messages of each group; returns messages, or packs of result rows."""

    def __init__(self, kind: type[GroupOperator], job: Job) -> None:
        packed = cloudpickle.dumps((kind, job))  # type: ignore[no-untyped-call]
        self._packed: bytes = packed
        self._loaded: tuple[GroupOperator, Job] | None = None

    def _load(self) -> tuple[GroupOperator, Job]:
        if self._loaded is None:
            kind, job = cloudpickle.loads(self._packed)
            self._loaded = kind(self._store, job), job
        return self._loaded

    def _handle(self, key: int, rows: _Frames) -> pd.DataFrame:
        import pandas as pd

        from anabranch.microbatch.exchange.envelopes import CLOCK
        from anabranch.microbatch.exchange.partition_keys import find_numbers

        operator, job = self._load()
        number = find_numbers(job.layout.shards)[key] if operator.role == "shard" else key
        self._store.owner = f"{operator.role} {number}"
        first = next(rows, None)
        clock_ms = None if first is None or CLOCK not in first else int(first[CLOCK].iloc[0])
        messages = (
            (kind, bytes(payload))
            for frame in chain(() if first is None else (first,), rows)
            for kind, payload in zip(frame["kind"], frame["payload"], strict=True)
        )
        emitted = operator.work(number, messages, clock_ms)
        if emitted.rows is not None:
            return pack_table(emitted.rows)
        columns = ["to", "kind", "payload"]
        return pd.DataFrame(emitted.messages, columns=columns).astype({"to": "int32"})


class BarrierProcessor(GroupProcessor):
    """Holds back the rows of a speculative query until they are settled."""

    def _handle(self, key: int, rows: _Frames) -> pd.DataFrame:
        """Process a batch's rows, in which `time`, `seq` and `distance` are texts."""
        from anabranch.microbatch.exchange.packed_rows import make_table
        from anabranch.microbatch.exchange.result_rows import ResultRow
        from anabranch.microbatch.speculative.row_barrier import RowBarrier

        self._store.owner = f"barrier {key}"
        taken = [ResultRow(*row) for frame in rows for row in _read_result_rows(frame)]
        return pack_table(make_table(RowBarrier(self._store).process(taken)))


def pack_table(table: pa.Table) -> pd.DataFrame:
    """Return a table of result rows in packs."""
    import pandas as pd

    from anabranch.microbatch.exchange.packed_rows import pack, summarize

    packs = list(pack(table))
    summaries = [summarize(table), *([None] * (len(packs) - 1))] if packs else []
    return pd.DataFrame({"pack": packs, "ledger": pd.Series(summaries, dtype=object)})


def _read_result_rows(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    from anabranch.microbatch.exchange.result_rows import ResultRow

    plain = frame[list(ResultRow._fields)].astype(object)
    for row in plain.where(plain.notna(), None).itertuples(index=False, name=None):
        kind, name, time, event_type, channel, seq, *rest, distance, form = row
        numbers = (None if text is None else int(text) for text in (time, seq, distance))
        time, seq, distance = numbers
        yield (kind, name, time, event_type, channel, seq, *rest, distance, form)
