"""Sinks that take each batch once, whatever is replayed.

Spark replays a batch after a crash with the same id and, because a program's answer is a function of
its input, with the same rows. So a batch is published by one rename, and a replay of a published
batch is read to its end, as Spark's state needs it to be, and dropped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.sources import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Format = Literal["json", "parquet"]
LEDGER = "_ledger.json"
"""Beside the rows of a batch; Spark does not take a name with an underscore for data."""
FRONTIERS = "_frontiers.json"
"""How far the program and each of its sources had come with the batch."""


class Frontiers(NamedTuple):
    """The program's frontier, and that of each source that has brought anything yet."""

    program: int
    sources: dict[str, int]


def write_directory(
    result: DataFrame,
    folder: str | Path,
    checkpoint: str | Path,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery:
    """Start a query that publishes each batch as `folder/batch=N/kind=…`, exactly once.

    `spark.read.parquet(folder)` reads it all; each batch also has a `_ledger.json` and a
    `_frontiers.json`. `trigger` is Spark's, and defaults to `availableNow`: take what there is, then stop.
    """
    if format not in ("json", "parquet"):
        raise InputError(f"{format!r} is no format", expected="json or parquet", got=repr(format))
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return _start(
        result, checkpoint, lambda frame, batch: publish(frame, batch, target, format), trigger
    )


def for_each_batch(
    result: DataFrame,
    function: Callable[[DataFrame, int], None],
    checkpoint: str | Path,
    *,
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery:
    """Start a query that hands each batch of rows to a function; it must consume the frame.

    After a crash a batch may come again, with the same number and the same `id`s.
    """
    return _start(result, checkpoint, function, trigger)


def publish(frame: DataFrame, batch: int, folder: Path, format: Format) -> bool:  # noqa: A002
    """Write a batch and make it visible by one rename; say whether it was not there before."""
    final = folder / f"batch={batch}"
    if final.exists():
        frame.write.format("noop").mode("overwrite").save()
        return False
    draft = folder / f".batch={batch}"
    shutil.rmtree(draft, ignore_errors=True)
    # The rows are read twice: once to be counted, once to be written.
    kept = frame.persist()
    try:
        counts = _count(kept)
        rows = kept.where("kind <> 'ledger'")
        rows.write.partitionBy("kind").format(format).mode("overwrite").save(str(draft))
    finally:
        kept.unpersist()
    balance = _sum_up(counts)
    (draft / LEDGER).write_text(json.dumps(balance._asdict()) + "\n", encoding="utf-8")
    frontiers = json.dumps(_find_frontiers(counts)._asdict(), sort_keys=True)
    (draft / FRONTIERS).write_text(frontiers + "\n", encoding="utf-8")
    balance.check(f"batch {batch}")
    draft.rename(final)
    return True


def read_ledger(batch: Path) -> Ledger:
    """Return the ledger that was published with a batch."""
    return Ledger(**json.loads((batch / LEDGER).read_text(encoding="utf-8")))


def read_frontiers(batch: Path) -> Frontiers:
    """Return the frontiers that were published with a batch."""
    return Frontiers(**json.loads((batch / FRONTIERS).read_text(encoding="utf-8")))


def find_last_batch(folder: str | Path) -> Path | None:
    """Return the last batch that was published into a folder."""
    batches = Path(folder).glob("batch=*")
    return max(batches, key=lambda path: int(path.name.partition("=")[2]), default=None)


def _count(frame: DataFrame) -> list[dict[str, Any]]:
    rows = frame.where("kind = 'ledger'").select("value").collect()
    return [json.loads(row.value) for row in rows]


def _sum_up(counts: list[dict[str, Any]]) -> Ledger:
    return Ledger(*(sum(count[name] for count in counts) for name in Ledger._fields))


def _find_frontiers(counts: list[dict[str, Any]]) -> Frontiers:
    # All shards that were heard know the same; those with nothing to say are not heard.
    least = min((count["frontier"] for count in counts if "frontier" in count), default=NEVER)
    found: dict[str, int] = {}
    for count in counts:
        for name, time in count.get("sources", {}).items():
            found[name] = min(time, found.get(name, time))
    return Frontiers(least, found)


def _start(
    result: DataFrame,
    checkpoint: str | Path,
    function: Callable[[DataFrame, int], Any],
    trigger: dict[str, Any] | None,
) -> StreamingQuery:
    return (
        result.writeStream.outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"availableNow": True}))
        .foreachBatch(function)
        .start()
    )
