"""Queries: windowed aggregates and time-based joins, each built as a program."""

from anabranch.query.asof_joins import asof_join
from anabranch.query.band_joins import band_join
from anabranch.query.interval_joins import interval_join
from anabranch.query.join_pairs import Matched
from anabranch.query.lookups import Table, lookup
from anabranch.query.window_aggregates import aggregate
from anabranch.query.window_joins import window_join
from anabranch.query.window_outputs import Missed, Result

__all__ = [
    "Matched",
    "Missed",
    "Result",
    "Table",
    "aggregate",
    "asof_join",
    "band_join",
    "interval_join",
    "lookup",
    "window_join",
]
