"""Look-ups of single keys in a store.

A look-up never changes. The look-up after a batch reuses the parts of pages in columns that its
predecessor has read, unless they have changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.channels import NEVER
from anabranch.microbatch.columns.window_slices import join_slices, read_slices
from anabranch.microbatch.inspect.state_tables import (
    describe_state,
    is_keyed,
    keeps_pages,
    show_slices,
)
from anabranch.microbatch.inspect.stored_state import Address
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store import column_entries, slice_book
from anabranch.microbatch.store.hashed_book import name_page
from anabranch.microbatch.store.paged_book import read_parts
from anabranch.microbatch.store.state_store import KeptStore
from anabranch.model.shapes import MISSING
from anabranch.model.values.keys import plain_key, plain_keys

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Decode = Callable[[bytes], Any]


class _Part(NamedTuple):
    """A part of a page in columns, entries or slices, in the order of its keys; texts among keys have codes."""

    data: bytes
    keys: Array
    codes: dict[str, int] | None
    held: Any

    def find(self, key: Any) -> slice | None:
        code = key if self.codes is None else self.codes.get(key)
        if code is None:
            return None
        first, last = bisect_left(self.keys, code), bisect_right(self.keys, code)
        return slice(first, last) if first < last else None


@dataclass(frozen=True)
class KeyLookup:
    """The values of a store: objects, which are decoded on demand, or parts in columns, the newest first."""

    description: Description
    address: Address
    store: KeptStore = field(repr=False)
    decode: Decode = field(repr=False)
    parts: dict[str, _Part] | None = field(repr=False)
    closed: int = NEVER

    @classmethod
    def open(
        cls,
        description: Description,
        address: Address,
        store: KeptStore,
        decode: Decode,
        old: KeyLookup | None,
    ) -> KeyLookup:
        """Read the parts in columns that an older look-up of the same store has not read."""
        if address.role != "shard" or describe_state(description) is None:
            return cls(description, address, store, decode, None)
        windows = description.form == "windows"
        known: dict[str, _Part] = {} if old is None else old.parts or {}
        parts: dict[str, _Part] = {}
        book = slice_book.BOOK if windows else column_entries.BOOK
        for name, data in reversed(list(read_parts(store, book))):
            part = known.get(name)
            fresh = part is None or part.data is not data
            parts[name] = _read_part(description, data) if fresh else part  # type: ignore[assignment]
        closed = slice_book.read_closed(store) if windows else NEVER
        return cls(description, address, store, decode, parts, closed)

    def find(self, key: Any) -> Any:
        """Return the entry of a key, MISSING if it has none; for None, the state without a key."""
        if self.parts is None:
            return self._find_object(key)
        if self.description.form == "windows":
            return self._find_slices(key)
        # Of the parts with a key, the newest is current.
        part, rows = next(self._find_rows(key), (None, None))
        return MISSING if part is None or rows is None else part.held.value(rows.start)

    def _find_object(self, key: Any) -> Any:
        paged = self.address.role == "shard" and keeps_pages(self.description)
        if paged and key is not None:
            page = self.store.read_page("entries", name_page(key, self.description.plan.shards))
            held = {} if page is None else plain_keys(self.decode(page))
            return held.get(plain_key(key), MISSING)
        data = self.store.read("spine" if self.address.role == "root" else "state")
        if data is None:
            return MISSING
        state = self.decode(data)
        if is_keyed(self.description) and not paged:
            return state.entries().get(plain_key(key), MISSING)
        return state if key is None else MISSING

    def _find_rows(self, key: Any) -> Iterator[tuple[_Part, slice]]:
        if type(key).__name__ == self.description.key:
            for part in (self.parts or {}).values():
                rows = part.find(key)
                if rows is not None:
                    yield part, rows

    def _find_slices(self, key: Any) -> Any:
        """Return the open slices of a key, as in the state table."""
        plan = self.description.window_plan
        found = [part.held.take(rows) for part, rows in self._find_rows(key)]
        if plan.key is None:
            found = [part.held for part in (self.parts or {}).values()]
        if not found:
            return MISSING
        alike = [slices._replace(keys=slices.keys * 0, strings=None) for slices in found]
        still_open = slice_book.find_open(plan, join_slices(alike, plan), self.closed)
        columns = show_slices(self.description, still_open)
        rows = zip(*(array.tolist() for array in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows] or MISSING


def _read_part(description: Description, data: bytes) -> _Part:
    import numpy as np

    held: Any
    if description.form == "windows":
        held = read_slices(description.window_plan, data)[0]
        keys, texts = held.keys, held.strings
    else:
        keys, texts, held = column_entries.unpack_entries(description.entry_layout, data)
    order = np.argsort(keys, kind="stable")
    codes = None if texts is None else {text: code for code, text in enumerate(texts)}
    return _Part(data, keys[order], codes, held.take(order))
