"""Windows without an engine: in plain Python, and as a Numba loop.

Both add a bid to its pane, and keep for each auction what the panes of the open window hold: a pane is
added when it is over, and taken away when its last window has been emitted.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import njit
from protocol import Task, keep_answer


class Hopping:
    """The windows of all auctions: sums and counts of the current pane, and of the panes before it."""

    def __init__(self, size: int, every: int) -> None:
        self.width, self.every = size // every, every
        self.pane = -1
        self.current: dict[int, tuple[int, int]] = {}
        self.past: deque[dict[int, tuple[int, int]]] = deque()
        self.held: dict[int, tuple[int, int]] = {}
        self.emitted: list[tuple[int, int, int, int]] = []

    def take(self, events: Iterable[Any]) -> None:
        """Take in bids by time."""
        for time, _, auction, price in events:
            pane = time // self.every
            if pane != self.pane:
                self.turn(pane)
            total, seen = self.current.get(auction, (0, 0))
            self.current[auction] = (total + price, seen + 1)

    def turn(self, pane: int) -> None:
        """Close the windows that end before a pane."""
        while self.pane < pane and (self.current or self.held):
            self.close()
            self.pane += 1
        if not self.held:
            self.past.clear()
        self.pane = pane

    def close(self) -> None:
        """Close the window that ends with the current pane."""
        held = self.held
        for auction, (total, seen) in self.current.items():
            so_far = held.get(auction, (0, 0))
            held[auction] = (so_far[0] + total, so_far[1] + seen)
        self.past.append(self.current)
        self.current = {}
        end = (self.pane + 1) * self.every
        self.emitted += [(auction, end, total, seen) for auction, (total, seen) in held.items()]
        if len(self.past) == self.width:
            for auction, (total, seen) in self.past.popleft().items():
                so_far = held[auction]
                if so_far[1] == seen:
                    del held[auction]
                else:
                    held[auction] = (so_far[0] - total, so_far[1] - seen)


def hop_plain(state: dict[Any, Any], events: Iterable[Any]) -> None:
    """Take bids into the windows."""
    state["windows"].take(events)


def keep_hops(task: Task, state: dict[Any, Any]) -> None:
    """Write the results of the windows."""
    columns = zip(*state["windows"].emitted, strict=True)
    keep_answer(task, **dict(zip(("auction", "end", "total", "seen"), columns, strict=True)))


@njit
def hop_limit(a: Any, b: Any, every: int, pane: int, rings: Any, held: Any, emitted: Any) -> Any:
    """Take two channels into panes, merged by time; return the pane that is open, and the rows emitted.

    `rings` has sums and counts by pane and auction, as many panes as a window; `held` is what they hold.
    """
    (a_time, a_key, a_price), (b_time, b_key, b_price) = a, b
    (total, seen), (held_total, held_seen) = rings, held
    auction, end, said_total, said_seen = emitted
    i = j = rows = 0
    last = max(a_time[-1], b_time[-1]) // every
    while True:
        row, until = pane % len(total), (pane + 1) * every
        while i < len(a_time) and a_time[i] < until:
            total[row, a_key[i]] += a_price[i]
            seen[row, a_key[i]] += 1
            i += 1
        while j < len(b_time) and b_time[j] < until:
            total[row, b_key[j]] += b_price[j]
            seen[row, b_key[j]] += 1
            j += 1
        if pane == last:
            return pane, rows
        leaving = (pane + 1) % len(total)
        for key in range(len(held_seen)):
            held_total[key] += total[row, key]
            held_seen[key] += seen[row, key]
            if held_seen[key]:
                auction[rows], end[rows] = key, until
                said_total[rows], said_seen[rows] = held_total[key], held_seen[key]
                rows += 1
            held_total[key] -= total[leaving, key]
            held_seen[key] -= seen[leaving, key]
            total[leaving, key] = seen[leaving, key] = 0
        pane += 1


def begin_hops(task: Task) -> dict[str, Any]:
    """Return empty panes: auctions are small integers, so they are places."""
    keys, every = task.manifest["keys"] + 1, task.manifest["every"]
    shape = (task.manifest["size"] // every, keys)
    return {
        "every": every,
        "pane": None,
        "rings": (np.zeros(shape, np.int64), np.zeros(shape, np.int64)),
        "held": (np.zeros(keys, np.int64), np.zeros(keys, np.int64)),
        "emitted": [],
    }


def step_hops(state: dict[str, Any], parts: list[list[Any]]) -> None:
    """Take in one slice."""
    a, b = (tuple(part) for part in parts)
    every, held = state["every"], state["held"]
    pane = min(a[0][0], b[0][0]) // every if state["pane"] is None else state["pane"]
    most = (max(a[0][-1], b[0][-1]) // every - pane) * len(held[0])
    emitted = tuple(np.empty(most, np.int64) for _ in range(4))
    state["pane"], rows = hop_limit(a, b, every, pane, state["rings"], held, emitted)
    state["emitted"].append([column[:rows] for column in emitted])


def keep_emitted(task: Task, state: dict[str, Any]) -> None:
    """Write the results of the windows."""
    columns = [np.concatenate(parts) for parts in zip(*state["emitted"], strict=True)]
    keep_answer(task, **dict(zip(("auction", "end", "total", "seen"), columns, strict=True)))
