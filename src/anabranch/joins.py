"""Time-based joins of event types, and lookups in tables that change over time."""

from anabranch.query.asof_joins import asof_join
from anabranch.query.band_joins import band_join
from anabranch.query.interval_joins import interval_join
from anabranch.query.join_pairs import Matched
from anabranch.query.lookups import Table, lookup
from anabranch.query.window_joins import window_join

__all__ = [
    "Matched",
    "Table",
    "asof_join",
    "band_join",
    "interval_join",
    "lookup",
    "window_join",
]
