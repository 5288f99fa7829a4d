"""Columnar sessions: pieces of activity, which are merged if less than a gap is between them.

A piece is a row as a slice is: a key, the time of its first event, and the parts of its state; the last
part is the time of its last event. Pieces may be merged in any order, so they can also be folded in the
tasks that read the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


def find_pieces(keys: Array, firsts: Array, lasts: Array, gap: int) -> tuple[Array, Array]:
    """Return an order of pieces, by key and time, and the places in it where a session begins."""
    order = np.lexsort((firsts, keys))
    keys, firsts, lasts = keys[order], firsts[order], lasts[order]
    low = int(firsts.min())
    # Each key has its own range of times, so that one running maximum works for all keys.
    stretch = int(lasts.max()) - low + gap + 1
    ranks = np.cumsum(np.concatenate([[0], keys[1:] != keys[:-1]]))
    if (int(ranks[-1]) + 1) * stretch >= 1 << 62:
        begins = _begin_one_by_one(keys, firsts, lasts, gap)
    else:
        base = ranks * stretch - low
        reached = np.maximum.accumulate(base + lasts)
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = base[1:] + firsts[1:] >= reached[:-1] + gap
    return order, np.flatnonzero(begins)


def _begin_one_by_one(keys: Array, firsts: Array, lasts: Array, gap: int) -> Array:
    """Return the same as `find_pieces`, without arithmetic that would exceed 64 bits."""
    begins = np.ones(len(keys), np.bool_)
    reached = int(lasts[0])
    rows = zip(keys.tolist(), firsts.tolist(), lasts.tolist(), strict=True)
    held = None
    for place, (key, first, last) in enumerate(rows):
        begins[place] = key != held or first >= reached + gap
        reached = last if begins[place] else max(reached, last)
        held = key
    return begins
