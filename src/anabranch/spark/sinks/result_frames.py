"""The sides of a result: its outputs, its late events, its rejected events, each as a frame.

They are filters, on a result, on a batch of it, or on what a sink has written of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.model.events import FOREVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVENT = ("id", "time", "tag", "source", "seq")


def select_outputs(frame: DataFrame, kind: str | None = None) -> DataFrame:
    """Return what the program said: one row for each output, with the event on which it was said.

    `value` is JSON. With a type in Spark's words, such as `"bigint"` or `"array<bigint>"`, it is read as
    one, and a value that is none stops the query. `op` is 1, or -1 where a speculative run takes back.
    """
    from pyspark.sql import functions as f

    value = f.col("value")
    if kind is not None:
        # Spark reads no single number or text from JSON, only what is inside of something.
        wrapped = f.concat(f.lit('{"value":'), value, f.lit("}"))
        value = f.from_json(wrapped, f"value {kind}", {"mode": "FAILFAST"}).getField("value")
        value = value.alias("value")
    return frame.where("kind = 'output'").select(*_EVENT, "index", value, "event", "op")


def select_late(frame: DataFrame) -> DataFrame:
    """Return the events that came too late, each with its distance behind its source's frontier.

    Two times may lie further apart than 63 bits can tell; such a distance is the largest that they can.
    """
    from pyspark.sql import functions as f

    # Two times of 64 bits are less than 20 digits apart.
    whole = f.regexp_extract("reason", r"^(\d+)", 1).cast("decimal(20,0)")
    distance = f.least(whole, f.lit(FOREVER).cast("decimal(20,0)")).cast("bigint")
    return frame.where("kind = 'late'").select(*_EVENT, "event", distance.alias("distance"))


def select_rejected(frame: DataFrame) -> DataFrame:
    """Return what could not be used, with the reason, and as it came; a long `raw` is cut short."""
    from pyspark.sql import functions as f

    raw = f.col("event").alias("raw")
    return frame.where("kind = 'rejected'").select(*_EVENT, "reason", raw)
