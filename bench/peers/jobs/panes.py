"""Sum up in panes, as a user of an engine without windows, or with slow ones, has to.

A pane is what lies between two starts of windows, so a bid is added once, not to each of the hundred
windows that hold it. The result of a window is the difference of two running sums. For one key or many.
"""

from typing import Any, NamedTuple

import numpy as np


class Hop(NamedTuple):
    """Windows of one size, one of which starts at every multiple of `every`."""

    size: int
    every: int

    @property
    def width(self) -> int:
        """Return how many panes a window holds."""
        return self.size // self.every


class Panes(NamedTuple):
    """What is not yet emitted: rows are panes from `start` on, where the next window starts; columns are keys."""

    start: int
    total: Any
    seen: Any


class Closed(NamedTuple):
    """What the windows say that were closed, as arrays."""

    key: Any
    end: Any
    total: Any
    seen: Any


def begin(keys: int) -> Panes:
    """Return the panes of keys that are new."""
    return Panes(0, np.zeros((0, keys), np.int64), np.zeros((0, keys), np.int64))


def add(panes: Panes, hop: Hop, time: Any, key: Any, price: Any) -> Panes:
    """Take in bids, in any order; none may lie in a window that was closed."""
    pane = time // hop.every
    kept, keys = panes.seen.shape
    start = int(pane.min()) - hop.width + 1
    before = panes.start if kept else start
    start = min(start, before)
    stop = max(before + kept, int(pane.max()) + 1)
    margins = ((before - start, stop - before - kept), (0, 0))
    total, seen = np.pad(panes.total, margins), np.pad(panes.seen, margins)
    place = (pane - start) * keys + key
    np.add.at(total.reshape(-1), place, price)
    np.add.at(seen.reshape(-1), place, 1)
    return Panes(start, total, seen)


def close(panes: Panes, hop: Hop, watermark: int) -> tuple[Panes, Closed]:
    """Close the windows that end at or before the watermark; return what they say."""
    kept = len(panes.seen)
    closing = min(max(0, watermark // hop.every - hop.width - panes.start + 1), kept)
    if not closing:
        return panes, Closed(*[np.zeros(0, np.int64)] * 4)
    total, seen = (_slide(rows, closing, hop.width) for rows in (panes.total, panes.seen))
    place, key = np.nonzero(seen)
    end = (panes.start + place + hop.width) * hop.every
    rest = Panes(panes.start + closing, panes.total[closing:], panes.seen[closing:])
    return rest, Closed(key, end, total[place, key], seen[place, key])


def find_last(panes: Panes, hop: Hop) -> int | None:
    """Return the end of the last window that holds anything, or None if there is none."""
    kept = len(panes.seen)
    return (panes.start + kept - 1 + hop.width) * hop.every if kept else None


def _slide(rows: Any, windows: int, width: int) -> Any:
    """Sum `width` rows from each of the first `windows` on; after the last row there is nothing."""
    running = np.pad(rows.cumsum(axis=0), ((1, 0), (0, 0)))
    lower = np.arange(windows)
    return running[np.minimum(lower + width, len(rows))] - running[lower]
