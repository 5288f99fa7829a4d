"""Queries: windows and joins on time, each built as a program."""

from anabranch.query.asof import asof_join
from anabranch.query.bands import band_join
from anabranch.query.cohorts import window_join
from anabranch.query.intervals import interval_join
from anabranch.query.lookups import Table, lookup
from anabranch.query.pairs import Matched
from anabranch.query.windows import Missed, Result, aggregate

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
