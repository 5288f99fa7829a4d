"""Counts of rejected events: by the kind of the reason, and by event type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from anabranch.eventtime.tolerance import VALUES, Sample
from anabranch.microbatch.ingest.file_rows import list_columns, number_rows
from anabranch.microbatch.ingest.row_reader import read_row
from anabranch.microbatch.job.job import Job
from anabranch.model.events import Event
from anabranch.model.failures import RAISED
from anabranch.sources.arrow_tables import read_batch
from anabranch.sources.files import Taken, list_files, read_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_KINDS = 1000
"""The number of kinds of reasons that are counted; further kinds are rare."""


def sample_reasons(rejected: DataFrame) -> list[Sample]:
    """Return a sample of each kind of reason of rejected events with its count, the most frequent first."""
    from pyspark.sql import functions as f

    kind = f.regexp_replace("reason", f.lit(VALUES), f.lit("…"))
    first = f.min(f.struct("channel", "seq", "time", "id", "reason", "raw")).alias("first")
    counts = (
        rejected.groupBy(kind.alias("kind"), "type")
        .agg(f.count(f.lit(1)).alias("count"), first)
        .orderBy(f.desc("count"), "kind")
        .limit(MOST_KINDS)
    )
    return [
        Sample(row["first"]["reason"], row["first"]["raw"], row["count"], row["type"])
        for row in counts.collect()
    ]


def count_raised(
    late: DataFrame, rejected: DataFrame, job: Job
) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by event type, on how many events a function raised, and how many did not reach the function.

    The latter are late, or rejected for another reason.
    """
    from pyspark.sql import functions as f

    begins = f.concat(f.lit(RAISED), f.col("type"), f.lit(": "))
    raised = f.startswith(f.col("reason"), begins)
    names = [event_type.__name__ for event_type in job.program.inputs]
    refused = rejected.select("type", raised.alias("raised"))
    lost = refused.unionByName(late.select("type", f.lit(False).alias("raised")))
    counted = lost.where(f.col("type").isin(names)).groupBy("type", "raised").count()
    found = counted.collect()
    return (
        {row["type"]: row["count"] for row in found if row["raised"]},
        {row["type"]: row["count"] for row in found if not row["raised"]},
    )


def count_processed(job: Job, raised: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    """Return how many events of each type in `raised` were processed, counted until each type has one.

    Shards count events, not their types. So this reads the files again, up to the first processed event of
    each type, and is called only if a function raised and its event type is not the only one.
    """
    left = Counter(
        {event_type: count + others.get(event_type, 0) for event_type, count in raised.items()}
    )
    for event in _read_events(job):
        name = type(event.data).__name__
        if name in left:
            left[name] -= 1
            if all(count < 0 for count in left.values()):
                break
    return {event_type: -count for event_type, count in left.items()}


def _read_events(job: Job) -> Iterator[Event]:
    for folder in job.folders:
        wanted = list_columns(job, folder.reading)
        for found in list_files(folder.files, Taken()):
            for batch in read_file(folder.files, found, wanted, typed=False):
                reading = number_rows(folder.reading, batch.schema)
                items = (read_row(job, reading, row) for row in read_batch(batch))
                yield from (item for item in items if isinstance(item, Event))
