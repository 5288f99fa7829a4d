"""Followers: replicas of a checkpoint that are updated while its query runs, here or in another process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.microbatch.inspect.replica import Copy, Replica
from anabranch.spark.checkpoint.state_values import (
    find_batch,
    find_batches,
    find_checkpoint,
    find_commits,
    read_changes,
    read_values,
)
from anabranch.spark.inspect.state_frames import STATE, collect_values, find_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.05
"""The time between two checks for a new batch; a check is one listing of a folder."""


class Follower:
    """A replica that applies each committed batch: all of its shards, or none."""

    def __init__(
        self, query: str | Path | StreamingQuery, *, spark: SparkSession | None = None
    ) -> None:
        self.checkpoint = find_checkpoint(query)
        self._spark = spark or find_session()
        self._replica = self._load(find_batch(self.checkpoint))

    @property
    def current(self) -> Copy:
        """Return the copy of the last batch that was applied."""
        return self._replica.current

    def catch_up(self) -> bool:
        """Apply the batches that were committed since; return whether there were any."""
        behind = self.current.batch
        if max(find_commits(self.checkpoint), default=-1) <= behind:
            return False
        known = find_batches(self.checkpoint)
        if known[0] > behind + 1:
            # Spark no longer keeps the changes in between.
            self._replica = self._load(known[-1])
            return True
        frame = read_changes(self._spark, self.checkpoint, behind + 1, known[-1])
        changes = sorted(collect_values(frame.where(STATE)), key=_find_number)
        self._replica.apply(known[-1], (row[1:] for row in changes))
        return True

    def follow(
        self, stop: threading.Event, show: Callable[[Copy], Any], poll_s: float = POLL_S
    ) -> None:
        """Apply batch after batch, and call `show` with each new copy, until `stop` is set."""
        while not stop.wait(poll_s):
            if self.catch_up():
                show(self.current)

    def _load(self, batch: int) -> Replica:
        frame = read_values(self._spark, self.checkpoint, batch).where(STATE)
        return Replica(batch, collect_values(frame))


def _find_number(row: tuple[Any, ...]) -> int:
    return int(row[0])
