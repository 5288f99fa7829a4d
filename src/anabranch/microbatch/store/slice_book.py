"""The slices of a shard's windows, in a paged book."""

from __future__ import annotations

from collections.abc import Sequence

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
from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.paged_book import BookPage, PagedBook, read_cover, read_parts
from anabranch.microbatch.store.state_store import Reader, Store
from anabranch.model.events import FOREVER

BOOK = "slices"


class SliceBook(PagedBook[WindowSlices]):
    """The slices of a shard for one batch: it adds a page, and closing windows read all pages.

    Beside the pages, the cover contains the time up to which windows have been closed.
    """

    def __init__(self, plan: WindowPlan, store: Store) -> None:
        super().__init__(store, BOOK, NEVER, page_sizes.SLICE_ROWS)
        self._plan = plan
        self._closed: int = self._about

    def close(self, new: Sequence[WindowSlices], watermark: int) -> Closed | None:
        """Add slices, and return the windows that end up to a watermark."""
        fresh = join_slices(new, self._plan) if new else None
        places = [page.first for page in self._pages]
        if fresh is not None and len(fresh.keys):
            places.append(self._measure(fresh)[1])
        closed = None
        if places and self._find_first_end(min(places)) <= watermark:
            kept = [part for page in self._pages for part in self._read(page)]
            whole = join_slices(kept if fresh is None else [*kept, fresh], self._plan)
            closed = close_windows(self._plan, whole, self._closed, watermark)
            fresh = self._forget(whole, fresh, watermark)
        self._keep(fresh, max(self._closed, watermark))
        return closed

    def restore(self, slices: Sequence[WindowSlices], closed: int) -> None:
        """Start with slices from a savepoint, and the time up to which their windows were closed."""
        self._keep(join_slices(slices, self._plan), closed)

    def _keep(self, fresh: WindowSlices | None, closed: int) -> None:
        if fresh is not None and len(fresh.keys):
            self._append(fresh)
        self._closed = closed
        self._write_cover(closed)

    def _find_first_end(self, place: int) -> int:
        """Return the last time of the first open window of a page."""
        plan = self._plan
        if plan.gap is not None:
            return place + plan.gap - 1
        return plan.find_first(max(place, self._closed + 1)) + plan.size - 1

    def _forget(
        self, whole: WindowSlices, fresh: WindowSlices | None, watermark: int
    ) -> WindowSlices | None:
        """Remove the pages that no open window needs; return the slices to write again."""
        if self._plan.gap is not None or watermark >= FOREVER:
            self._remove(list(self._pages))
            return find_open(self._plan, whole, watermark)
        # The start of the earliest open window; it needs no earlier slices.
        start = self._plan.find_first(watermark + 1)
        self._remove([page for page in self._pages if page.last < start])
        return None if fresh is None else find_open(self._plan, fresh, watermark)

    def _read(self, page: BookPage) -> list[WindowSlices]:
        return [read_slices(self._plan, data)[0] for data in self._read_parts(page)]

    def _join(self, page: BookPage, newer: WindowSlices) -> WindowSlices:
        return join_slices([*self._read(page), newer], self._plan)

    def _measure(self, content: WindowSlices) -> tuple[int, int, int]:
        """Return the number of slices, and their first and last start; for sessions, the ends."""
        places = content.starts if self._plan.gap is None else content.parts[-1]
        return len(places), int(places.min()), int(places.max())

    def _pack(self, content: WindowSlices, rows: slice) -> bytes:
        return write_slices(content.take(rows), {})


def read_closed(store: Reader) -> int:
    """Return the time up to which windows have been closed."""
    cover = read_cover(store)
    return NEVER if cover is None else int(cover.about)


def read_open_slices(plan: WindowPlan, store: Reader) -> WindowSlices:
    """Return the slices of windows that have not been closed."""
    none = np.empty(0, np.int64)
    found = [WindowSlices(none, none, none, tuple(none for _ in plan.parts))]
    found += (read_slices(plan, data)[0] for _, data in read_parts(store, BOOK))
    return find_open(plan, join_slices(found, plan), read_closed(store))


def find_open(plan: WindowPlan, slices: WindowSlices, closed: int) -> WindowSlices:
    """Return the slices of windows that end after a time."""
    if closed >= FOREVER or closed == NEVER:
        return slices.take(slice(0)) if closed >= FOREVER else slices
    if plan.gap is not None:
        return slices.take(np.flatnonzero(slices.parts[-1] + plan.gap > closed + 1))
    return slices.take(np.flatnonzero(slices.starts >= plan.find_first(closed + 1)))
