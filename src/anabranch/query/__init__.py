"""Queries: joins on time, each built as a program."""

from anabranch.query.asof import asof_join
from anabranch.query.bands import band_join
from anabranch.query.cohorts import window_join
from anabranch.query.intervals import interval_join
from anabranch.query.pairs import Matched

__all__ = ["Matched", "asof_join", "band_join", "interval_join", "window_join"]
