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
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Format = Literal["json", "parquet"]
LEDGER = "_ledger.json"
"""Beside the rows of a batch; Spark does not take a name with an underscore for data."""


def write_directory(
    result: DataFrame,
    folder: str | Path,
    checkpoint: str | Path,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery:
    """Start a query that publishes each batch as `folder/batch=N/kind=…`, exactly once.

    `spark.read.parquet(folder)` reads it all; each batch also has a `_ledger.json`. `trigger` is
    Spark's, and defaults to `availableNow`: take what there is, then stop.
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
        balance = add_up(kept)
        rows = kept.where("kind <> 'ledger'")
        rows.write.partitionBy("kind").format(format).mode("overwrite").save(str(draft))
    finally:
        kept.unpersist()
    (draft / LEDGER).write_text(json.dumps(balance._asdict()) + "\n", encoding="utf-8")
    balance.check(f"batch {batch}")
    draft.rename(final)
    return True


def add_up(frame: DataFrame) -> Ledger:
    """Return the ledger of a batch: everything so far, over all shards and the root."""
    rows = frame.where("kind = 'ledger'").select("value").collect()
    counts = [json.loads(row.value) for row in rows]
    return Ledger(*(sum(count[name] for count in counts) for name in Ledger._fields))


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
