"""The number of shards of a run, where none is asked for."""

from __future__ import annotations

from anabranch.microbatch.job.column_plan import ColumnPlan
from anabranch.plan.layouts import Layout

SHARDS = 16
"""How many shards a run has, if none are asked for and most of the work is left to them."""


FEW_SHARDS = 4
"""How many do the rest of the work of windows that are folded where they are read."""


def choose_shards(layout: Layout, columns: ColumnPlan | None) -> int:
    """Return how many shards a run takes by itself where events are folded as they are read.

    An early fold leaves so little to do that few shards do it best.
    """
    if columns is not None and columns.early:
        if layout.way == "forked":
            return 1
        if columns.windows is not None:
            return FEW_SHARDS
    return SHARDS
