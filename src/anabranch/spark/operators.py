"""The stateful operators: shards and the root as Spark runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from anabranch.spark.roots import Root
from anabranch.spark.said import Said, describe_ledger
from anabranch.spark.shards import Delta, Job, Shard
from anabranch.spark.stores import SparkStore

DELTA_SCHEMA = "root int, kind string, payload binary"
"""What leaves hand to the root: `said` rows that only pass through, and `delta`s."""


class _Operator(StatefulProcessor):
    """What both operators need: the job, and a store."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: Any) -> None:
        """Find the state."""
        self._store = SparkStore(handle)

    def close(self) -> None:
        """Have nothing to close."""


class LeafOperator(_Operator):
    """Run one shard per group."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Take in a batch's envelopes."""
        shard = Shard(self._job, int(key[0]), self._store)
        shard.process(
            (kind, bytes(payload))
            for frame in rows
            for kind, payload in zip(frame["kind"], frame["payload"], strict=True)
        )
        more = {"frontier": shard.frontier, "sources": shard.frontiers}
        said = [*shard.said, describe_ledger("shard", shard.number, shard.ledger, more)]
        if self._job.wiring.way != "forked":
            yield _frame(said)
            return
        encode = self._job.codec.encode
        payloads = [("said", encode(tuple(row))) for row in said]
        payloads += [("delta", encode(_lower(delta))) for delta in shard.deltas]
        kinds, data = zip(*payloads, strict=True)
        yield pd.DataFrame({"root": [0] * len(kinds), "kind": kinds, "payload": data})


class RootOperator(_Operator):
    """Run the root."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Join a batch's deltas and run its markers."""
        decode = self._job.codec.decode
        said: list[Said] = []
        deltas: list[Delta] = []
        for frame in rows:
            for kind, payload in zip(frame["kind"], frame["payload"], strict=True):
                data = decode(bytes(payload))
                if kind == "said":
                    said.append(Said(*data))
                else:
                    deltas.append(_lift(data))
        root = Root(self._job, self._store)
        root.process(deltas)
        yield _frame([*said, *root.said, describe_ledger("root", 0, root.ledger, {})])


def _frame(said: list[Said]) -> pd.DataFrame:
    frame = pd.DataFrame(said, columns=list(Said._fields))
    return frame.astype({"time": "Int64", "seq": "Int64", "index": "int32"})


def _lower(delta: Delta) -> tuple[Any, ...]:
    marker = delta.marker
    return (delta.key, delta.shard, delta.state, None if marker is None else tuple(marker))


def _lift(data: tuple[Any, ...]) -> Delta:
    from anabranch.model.events import Event

    key, shard, state, marker = data
    return Delta(key, shard, state, None if marker is None else Event(*marker))
