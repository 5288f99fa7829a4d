"""Histories of single keys, batch by batch, as long as Spark keeps the batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.microbatch.exchange.partition_keys import find_keys
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.microbatch.inspect.replica import Replica
from anabranch.microbatch.inspect.state_tables import keeps_pages
from anabranch.microbatch.job.description import Description
from anabranch.model.shapes import MISSING
from anabranch.model.values.hashing import hash_stably
from anabranch.spark.checkpoint.state_values import (
    find_batch,
    find_batches,
    find_checkpoint,
    read_changes,
    read_values,
)
from anabranch.spark.inspect.state_frames import STATE, StateView, collect_values, find_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Change(NamedTuple):
    """The entry of a key after a batch that changed it; MISSING if it was removed."""

    batch: int
    watermark: int
    value: Any


def find_history(
    query: str | Path | StreamingQuery, key: Any, *, spark: SparkSession | None = None
) -> list[Change]:
    """Return the entry of a key in the first batch that is kept, and in each batch that changed it.

    For a state without entries, `key` is None and the value is the whole state.
    """
    checkpoint, session = find_checkpoint(query), spark or find_session()
    first, last = find_first(session, checkpoint), find_batch(checkpoint)
    condition = _narrow(StateView(session, checkpoint, first).overview.description, key)
    frame = read_values(session, checkpoint, first).where(STATE).where(condition)
    replica = Replica(first, collect_values(frame))
    changes: list[Any] = []
    if last > first:
        frame = read_changes(session, checkpoint, first + 1, last).where(STATE).where(condition)
        changes = sorted(collect_values(frame), key=_find_number)
    return list(_list_changes(replica, key, changes))


def find_first(spark: SparkSession, checkpoint: str) -> int:
    """Return the first batch that is kept and has any state."""
    known = find_batches(checkpoint)
    for batch in known[:-1]:
        if read_values(spark, checkpoint, batch).limit(1).count():
            return batch
    return find_batch(checkpoint)


def _narrow(description: Description, key: Any) -> str:
    """Return a condition on the groups that may have the entry of a key."""
    plan = description.plan
    if key is None or not keeps_pages(description):
        return "true"
    home = hash_stably(key) % plan.shards
    return f"key in ({find_keys(plan.shards)[home]}, {home})"


def _list_changes(replica: Replica, key: Any, changes: list[Any]) -> Iterator[Change]:
    before = None
    value = replica.current.find(key)
    if value is not MISSING:
        before = encode_json(value)
        yield Change(replica.current.batch, replica.current.watermark, value)
    for batch, rows in groupby(changes, key=_find_number):
        replica.apply(batch, (row[1:] for row in rows))
        value = replica.current.find(key)
        text = None if value is MISSING else encode_json(value)
        if text != before:
            before = text
            yield Change(batch, replica.current.watermark, value)


def _find_number(row: tuple[Any, ...]) -> int:
    return int(row[0])
