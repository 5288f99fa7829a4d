"""The default number of shards of a run."""

from __future__ import annotations

from anabranch.microbatch.job.column_plan import ColumnPlan
from anabranch.plan.layouts import Layout

SHARDS = 16
"""Default number of shards if shards do most of the work."""


FEW_SHARDS = 4
"""Default number of shards for windows with an early fold, which leaves little work to shards."""


def choose_shards(layout: Layout, columns: ColumnPlan | None, most: int = SHARDS) -> int:
    """Return the default number of shards for a layout and a column plan, at most `most`.

    An early fold leaves so little work that a few shards are fastest.
    """
    if columns is not None and columns.early:
        if layout.way == "forked":
            return 1
        if columns.windows is not None:
            return min(FEW_SHARDS, most)
    return most
