"""The Spark session of a call: the one given, that of its frames, or the active one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find_session(frames: Iterable[DataFrame], spark: SparkSession | None = None) -> SparkSession:
    """Return the given session, that of the frames or the active one; raise `InputError` if there is none."""
    from pyspark.sql import SparkSession

    if spark is not None:
        return spark
    for frame in frames:
        return frame.sparkSession
    found = SparkSession.getActiveSession()
    if found is None:
        raise InputError(
            "there is no Spark session yet",
            expected="an active session, or spark= with yours",
            cure="spark = anabranch.spark.start_session()",
        )
    return found
