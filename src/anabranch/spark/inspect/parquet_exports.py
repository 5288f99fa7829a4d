"""Exports of a query: the state of each committed batch as Parquet, for dashboards and notebooks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.microbatch.inspect.state_exports import KEEP, publish_state
from anabranch.spark.checkpoint.state_values import find_batches, find_checkpoint
from anabranch.spark.inspect.follower import POLL_S
from anabranch.spark.inspect.state_frames import StateView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Export:
    """Exports of the state of a query, in a thread of their own."""

    def __init__(
        self, query: str | Path | StreamingQuery, folder: Path, keep: int, spark: SparkSession
    ) -> None:
        self._query = None if isinstance(query, str | Path) else query
        self._checkpoint = find_checkpoint(query)
        self._folder, self._keep, self._spark = folder, keep, spark
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._follow, name="anabranch-export", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether exports continue."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Publish the last committed batch, then end."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Wait until the query has ended and its last batch is published; raise if an export failed."""
        self._thread.join()
        for failure in self._failures:
            raise failure

    def _follow(self) -> None:
        try:
            over = False
            while not over:
                # Checked before the export, so that the last export has all committed batches.
                over = self._stop.wait(POLL_S) or (
                    self._query is not None and not self._query.isActive
                )
                publish_view(self._spark, self._checkpoint, self._folder, keep=self._keep)
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._failures.append(error)


def publish_view(
    spark: SparkSession, checkpoint: str, folder: Path, *, keep: int = KEEP
) -> int | None:
    """Publish the state of the last committed batch, unless it is published already; return its number."""
    known = find_batches(checkpoint)
    if not known:
        return None
    batch = known[-1]
    view = StateView(spark, checkpoint, batch)
    if not (folder / f"batch={batch}").is_dir() and not view.has_state:
        return None

    def write(draft: Path) -> int:
        view.state().write.mode("append").parquet(str(draft.absolute()))
        return view.watermark

    publish_state(folder, batch, write, keep=keep)
    return batch
