"""The slices that a shard keeps, in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.eventtime.channels import NEVER
from anabranch.microbatch.columns.window_slices import (
    Closed,
    WindowSlices,
    close_windows,
    join_slices,
    read_slices,
    write_slices,
)
from anabranch.microbatch.job.window_plan import WindowPlan
from anabranch.microbatch.store.state_store import Store, read_known_page
from anabranch.model.events import FOREVER


class SliceBook:
    """The slices that a shard keeps, in pages: a batch adds one, and windows that close read them."""

    def __init__(self, plan: WindowPlan, store: Store, codec: Any) -> None:
        self._plan = plan
        self._store = store
        self._codec = codec
        data = store.read("windows")
        # How far windows have been closed, the first number that is free, and of each page there is
        # its first and last place and its rows.
        self._closed, self._next, self._pages = NEVER, 0, dict[int, tuple[int, int, int]]()
        if data is not None:
            self._closed, self._next, pages = codec.decode(data)
            self._pages = {number: tuple(reach) for number, reach in pages.items()}

    def close(self, new: Sequence[WindowSlices], frontier: int) -> Closed | None:
        """Add slices, and return the windows that a frontier completes."""
        fresh = join_slices(new, self._plan) if new else None
        places = [low for low, _, _ in self._pages.values()]
        if fresh is not None and len(fresh.keys):
            places.append(self._find_reach(fresh)[0])
        closed = None
        if places and self._find_first_end(min(places)) <= frontier:
            kept = [self._read(number) for number in sorted(self._pages)]
            held = kept if fresh is None else [*kept, fresh]
            whole = join_slices(held, self._plan)
            closed = close_windows(self._plan, whole, self._closed, frontier)
            fresh = self._forget(whole, fresh, frontier)
        if fresh is not None and len(fresh.keys):
            self._add(fresh)
        self._closed = max(self._closed, frontier)
        self._keep()
        return closed

    def restore(self, slices: Sequence[WindowSlices], closed: int) -> None:
        """Begin with slices of windows that were closed so far elsewhere."""
        whole = join_slices(slices, self._plan)
        if len(whole.keys):
            self._add(whole)
        self._closed = closed
        self._keep()

    def _keep(self) -> None:
        self._store.write(
            "windows", self._codec.encode((self._closed, self._next, dict(self._pages)))
        )

    def _find_first_end(self, place: int) -> int:
        """Return the last time of the first open window of a page."""
        plan = self._plan
        if plan.gap is not None:
            return place + plan.gap - 1
        return plan.find_first(max(place, self._closed + 1)) + plan.size - 1

    def _forget(
        self, whole: WindowSlices, fresh: WindowSlices | None, frontier: int
    ) -> WindowSlices | None:
        """Drop the pages that no open window needs; return what is to be written anew."""
        plan = self._plan
        if frontier >= FOREVER or plan.gap is not None:
            self._remove(list(self._pages))
            if frontier >= FOREVER or plan.gap is None:
                return None
            return whole.take(np.flatnonzero(whole.parts[-1] + plan.gap > frontier + 1))
        # The earliest window that is still open begins here; earlier slices are of no use to it.
        open_from = plan.find_first(frontier + 1)
        self._remove([n for n, (_, high, _) in self._pages.items() if high < open_from])
        return None if fresh is None else fresh.take(np.flatnonzero(fresh.starts >= open_from))

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._store.write_page("slices", str(number), None)
            del self._pages[number]

    def _add(self, fresh: WindowSlices) -> None:
        """Write a page; the last ones become one with it unless they are larger by far."""
        last = max(self._pages, default=None)
        while last is not None and self._pages[last][2] <= 2 * len(fresh.keys):
            fresh = join_slices([self._read(last), fresh], self._plan)
            self._remove([last])
            last = max(self._pages, default=None)
        self._store.write_page("slices", str(self._next), write_slices(fresh, {}))
        self._pages[self._next] = self._find_reach(fresh)
        self._next += 1

    def _find_reach(self, fresh: WindowSlices) -> tuple[int, int, int]:
        """Return the first and last place of a page, starts of slices or ends of sessions, and its rows."""
        places = fresh.starts if self._plan.gap is None else fresh.parts[-1]
        return int(places.min()), int(places.max()), len(places)

    def _read(self, number: int) -> WindowSlices:
        return read_slices(self._plan, read_known_page(self._store, "slices", str(number)))[0]
