"""Ordered pages: values by their places in the total order, in pages, of which a batch reads those it needs.

Values are added at any place and removed from the beginning, as the watermark advances.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import Any

from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.state_store import Store, read_known_page
from anabranch.model.order import OrderKey
from anabranch.state.durable.codec import Codec


@dataclass(slots=True)
class OrderedPage:
    """Values between the start of a page and that of the next one; `size` is that of the last write."""

    number: int
    start: OrderKey
    size: int = 0
    keys: list[OrderKey] = field(default_factory=list)
    values: dict[OrderKey, Any] = field(default_factory=dict)
    loaded: bool = False


class OrderedPages:
    """A sorted map on top of a store; its cover, the list of pages, is read first.

    `changed` are the numbers of the pages with unwritten changes.
    """

    def __init__(self, store: Store, codec: Codec, name: str) -> None:
        self._store = store
        self._codec = codec
        self._name = name
        data = store.read(name)
        self.is_new = data is None
        self._next, covered = (0, []) if data is None else codec.decode(data)
        self.pages = [OrderedPage(*about) for about in covered]
        self.changed: set[int] = set()

    def get(self, key: OrderKey, default: Any = None) -> Any:
        """Return the value at a place."""
        return self._load(self._find(key)).values.get(key, default) if self.pages else default

    def put(self, key: OrderKey, value: Any) -> None:
        """Set the value at a place."""
        if not self.pages:
            self.pages = [self._open(key)]
        page = self._load(self._find(key))
        if key not in page.values:
            insort(page.keys, key)
            page.start = min(page.start, key)
        page.values[key] = value
        self.changed.add(page.number)

    def find_after(self, key: OrderKey) -> OrderKey | None:
        """Return the first place with a value after another."""
        for place in range(self._find(key), len(self.pages)):
            keys = self._load(place).keys
            if keys and keys[-1] > key:
                return keys[bisect_right(keys, key)]
        return None

    def find_before(self, key: OrderKey) -> OrderKey | None:
        """Return the last place with a value before another."""
        for place in range(self._find(key), -1, -1):
            keys = self._load(place).keys if self.pages else []
            if keys and keys[0] < key:
                return keys[bisect_left(keys, key) - 1]
        return None

    def take_before(self, bound: OrderKey) -> list[tuple[OrderKey, Any]]:
        """Return the values before a bound, in order, and remove them."""
        taken: list[tuple[OrderKey, Any]] = []
        for place, page in enumerate(self.pages):
            if page.start >= bound:
                break
            self._load(place)
            count = bisect_left(page.keys, bound)
            taken += [(key, page.values.pop(key)) for key in page.keys[:count]]
            del page.keys[:count]
            if count:
                self.changed.add(page.number)
                page.start = page.keys[0] if page.keys else page.start
        return taken

    def read(self, page: OrderedPage) -> list[tuple[OrderKey, Any]]:
        """Return the values of a page, in order."""
        self._load(self.pages.index(page))
        return [(key, page.values[key]) for key in page.keys]

    def arrange(self) -> list[int]:
        """Divide pages that are too long, and remove empty ones; return the numbers of those."""
        arranged: list[OrderedPage] = []
        gone: list[int] = []
        for page in self.pages:
            if page.loaded and not page.keys:
                self._store.write_page(self._name, str(page.number), None)
                self.changed.discard(page.number)
                gone.append(page.number)
                continue
            arranged.append(page)
            most, bound = page_sizes.ORDERED_VALUES, page_sizes.ORDERED_BYTES
            if page.size > bound:
                most = min(most, max(1, len(page.keys) * bound // page.size))
            while len(arranged[-1].keys) > 2 * most:
                arranged.append(self._divide(arranged[-1], most))
        self.pages = arranged
        return gone

    def flush(self) -> None:
        """Write the changes."""
        self.arrange()
        for page in self.pages:
            if page.number in self.changed:
                data = self._codec.encode([(key, page.values[key]) for key in page.keys])
                self._store.write_page(self._name, str(page.number), data)
                page.size = len(data)
        self.changed.clear()
        cover = (self._next, [(page.number, page.start, page.size) for page in self.pages])
        self._store.write(self._name, self._codec.encode(cover))

    def _find(self, key: OrderKey) -> int:
        """Return the page of a place; places before all pages belong to the first."""
        return max(bisect_right(self.pages, key, key=_start) - 1, 0)

    def _load(self, place: int) -> OrderedPage:
        page = self.pages[place]
        if not page.loaded:
            found = self._codec.decode(read_known_page(self._store, self._name, str(page.number)))
            page.keys, page.values = [key for key, _ in found], dict(found)
            page.loaded = True
        return page

    def _open(self, start: OrderKey) -> OrderedPage:
        self._next += 1
        return OrderedPage(self._next - 1, start, loaded=True)

    def _divide(self, page: OrderedPage, most: int) -> OrderedPage:
        other = self._open(page.keys[most])
        other.keys = page.keys[most:]
        del page.keys[most:]
        other.values = {key: page.values.pop(key) for key in other.keys}
        self.changed |= {page.number, other.number}
        return other


def _start(page: OrderedPage) -> OrderKey:
    return page.start
