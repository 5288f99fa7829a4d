"""The head of a shard: the small part of its state, with the list of its pages of pending events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from anabranch.microbatch.store.state_store import Reader, Store, read_known_page

Pages = dict[int, tuple[int, int]]
"""The pages of pending events: the earliest time of each, and the number of its events counted here."""

_BOOK = "pending"


class Head(NamedTuple):
    """The small part of a shard's state: read and written with every batch.

    `clock_ms` is the recorded time of the last batch, if it is needed. `held` lists the other values that must
    be in the store. `announced` are channels that join with the next batch.
    """

    standings: dict[str, tuple[Any, ...]]
    ledger: tuple[int, ...]
    pages: Pages
    made_by: dict[str, str]
    clock_ms: int | None = None
    held: dict[str, int] | None = None
    announced: tuple[str, ...] = ()


def add_pending(store: Store, pages: Pages, data: bytes, first: int, counted: int) -> int:
    """Write a page of pending events, the earliest of which is `first`; return its number."""
    number = max(pages, default=-1) + 1
    store.write_page(_BOOK, str(number), data)
    pages[number] = (first, counted)
    return number


def take_pending(store: Store, pages: Pages, watermark: int) -> list[bytes]:
    """Return the pages with an event up to a watermark, and remove them."""
    ripe = [number for number, (first, _) in pages.items() if first <= watermark]
    found = list(read_pending_pages(store, ripe))
    for number in ripe:
        store.write_page(_BOOK, str(number), None)
        del pages[number]
    return found


def rewrite_pending(store: Store, pages: Pages, change: Callable[[bytes], bytes]) -> None:
    """Rewrite each page of pending events; the set of its events must not change."""
    for number in pages:
        store.write_page(_BOOK, str(number), change(read_known_page(store, _BOOK, str(number))))


def read_pending_pages(store: Reader, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield pages of pending events."""
    for number in numbers:
        yield read_known_page(store, _BOOK, str(number))
