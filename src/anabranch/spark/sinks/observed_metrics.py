"""Observed metrics: the counts of the ledger in the progress that Spark reports of a query.

`DataFrame.observe` aggregates rows that a batch computes anyway, so it needs no job of its own. It reads the
ledger rows of the shards, which are in a column beside the packs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRICS = "anabranch"
"""The name of the metrics: `progress.observedMetrics["anabranch"]`."""


def observe_packs(packs: DataFrame) -> DataFrame:
    """Return the packs of a result whose batches report their metrics to Spark.

    `input_events` and `output_rows` count a batch. `input`, `processed`, `late`, `rejected`, `shed` and
    `pending` are the ledger since the query's first start. `watermark` is null until every channel has
    a watermark; `held_back_by` is null if no channel is ahead of another.
    """
    from pyspark.sql import functions as f

    ledger = f.col("ledger")
    sums = {name: _read(ledger, name) for name in ("input_events", *Ledger._fields)}
    sums["output_rows"] = f.coalesce(_read(ledger, "output_rows"), f.lit(0))
    time = f.min(_read(ledger, "watermark"))
    return packs.observe(
        METRICS,
        *(f.sum(column).alias(name) for name, column in sums.items()),
        f.when(time > f.lit(NEVER), time).alias("watermark"),
        f.max(f.get_json_object(ledger, "$.held_back_by")).alias("held_back_by"),
    )


def _read(ledger: Column, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.get_json_object(ledger, f"$.{name}").cast("long")


def read_metrics(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a batch from Spark's progress of it; empty if it has none."""
    found = (progress.get("observedMetrics") or {}).get(METRICS)
    if found is None:
        return {}
    values = found.asDict() if hasattr(found, "asDict") else dict(found)
    # A batch without rows has only nulls, because no shard has run.
    return values if values.get("input_events") is not None else {}
