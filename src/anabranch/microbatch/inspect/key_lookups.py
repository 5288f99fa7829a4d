"""Shelves: what a store holds, for looking up single keys.

A shelf never changes. One that is made after a batch takes over from the one before what it has read, page
by page, unless the page has changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anabranch.kernels.numpy_columns import Columns, Strings
from anabranch.microbatch.columns.event_tables import read_columns
from anabranch.microbatch.columns.window_slices import WindowSlices, join_slices, read_slices
from anabranch.microbatch.inspect.state_tables import (
    drop_closed,
    name_parts,
    read_closed,
    show_parts,
)
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.column_entries import list_parts
from anabranch.microbatch.store.row_entries import PAGES
from anabranch.microbatch.store.state_store import KeptStore, read_known_page
from anabranch.model.hashing import hash_stably
from anabranch.model.keys import plain_key, plain_keys
from anabranch.model.shapes import MISSING

Decode = Callable[[bytes], Any]


class PageShelf(NamedTuple):
    """Entries as objects: the page of a key is known by its hash."""

    store: KeptStore
    decode: Decode
    shards: int

    def find(self, key: Any) -> Any:
        """Return the entry of a key; for none, the part that all keys share."""
        if key is None:
            common = self.store.read("state")
            return MISSING if common is None else self.decode(common)
        page = self.store.read_page("entries", str(hash_stably(key) // self.shards % PAGES))
        return (
            MISSING if page is None else plain_keys(self.decode(page)).get(plain_key(key), MISSING)
        )


class WholeShelf(NamedTuple):
    """A state in one piece; one that is `keyed` is a map of entries."""

    state: Any
    keyed: bool

    def find(self, key: Any) -> Any:
        """Return the entry of a key; the state itself for none."""
        if self.state is MISSING:
            return MISSING
        if not self.keyed:
            return self.state if key is None else MISSING
        return self.state.entries().get(plain_key(key), MISSING)


class _PagePart(NamedTuple):
    """A part of a page of a book, in the order of its keys."""

    data: bytes
    keys: Any
    states: Columns

    def find(self, key: Any) -> Any:
        place = bisect_left(self.keys, key)
        if place == len(self.keys) or self.keys[place] != key:
            return MISSING
        return self.states.value(place)


@dataclass(frozen=True)
class BookShelf:
    """Entries in columns: of the pages that hold a key, the last one is right."""

    parts: dict[str, _PagePart]
    kind: str | None

    @classmethod
    def take_up(cls, description: Description, store: KeptStore, old: Any) -> BookShelf:
        """Read the pages that an older shelf of the same store has not read."""
        known: dict[str, _PagePart] = {} if old is None else old.parts
        parts: dict[str, _PagePart] = {}
        for name in reversed(list_parts(store)):
            data = read_known_page(store, "entries", name)
            read = known.get(name)
            if read is None or read.data is not data:
                read = _read_part(description, data)
            parts[name] = read
        return cls(parts, description.key)

    def find(self, key: Any) -> Any:
        """Return the entry of a key."""
        if type(key).__name__ != self.kind:
            return MISSING
        for part in self.parts.values():
            found = part.find(key)
            if found is not MISSING:
                return found
        return MISSING


def _read_part(description: Description, data: bytes) -> _PagePart:
    import numpy as np

    columns, more, note = read_columns(lambda _: description.entry_layout, data)
    keys: Any = more["key"]
    if "keys" in note:
        texts = note["keys"]
        order = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
        keys = [texts[place] for place in order.tolist()]
    else:
        order = np.argsort(keys)
        keys = keys[order]
    arrays = tuple(array[order] for array in columns.arrays)
    return _PagePart(data, keys, Columns(columns.layout, arrays, columns.length, columns.strings))


class _Leaf(NamedTuple):
    """A page of slices, in the order of their keys, and the codes of texts among these."""

    data: bytes
    slices: WindowSlices
    codes: dict[str, int] | None

    def find(self, key: Any) -> WindowSlices | None:
        code = key if self.codes is None else self.codes.get(key)
        if code is None:
            return None
        first, last = (bisect_left(self.slices.keys, place) for place in (code, code + 1))
        if first == last:
            return None
        found = self.slices.take(slice(first, last))  # type: ignore[arg-type]
        return (
            found
            if self.codes is None
            else found._replace(strings=Strings([key]), keys=found.keys * 0)
        )


@dataclass(frozen=True)
class SliceShelf:
    """Slices of windows: what pages hold of a key is put together."""

    description: Description
    leaves: dict[str, _Leaf] = field(repr=False)
    closed: int

    @classmethod
    def take_up(cls, description: Description, store: KeptStore, old: Any) -> SliceShelf:
        """Read the pages that an older shelf of the same store has not read."""
        known: dict[str, _Leaf] = {} if old is None else old.leaves
        leaves: dict[str, _Leaf] = {}
        for name, data in store.values.items():
            if name.startswith("slices/"):
                read = known.get(name)
                if read is None or read.data is not data:
                    read = _read_leaf(description, data)
                leaves[name] = read
        return cls(description, leaves, read_closed(description, store))

    def find(self, key: Any) -> Any:
        """Return the open slices of a key."""
        if self.description.window_plan.key is None:
            key = 0
        elif type(key).__name__ != self.description.key:
            return MISSING
        found = [some for leaf in self.leaves.values() if (some := leaf.find(key)) is not None]
        if not found:
            return MISSING
        joined = join_slices(found, self.description.window_plan)
        rows = drop_closed(self.description, joined, self.closed)
        names = name_parts(self.description)
        columns = [array.tolist() for array in show_parts(self.description, rows)]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] or MISSING


def _read_leaf(description: Description, data: bytes) -> _Leaf:
    import numpy as np

    slices = read_slices(description.window_plan, data)[0]
    slices = slices.take(np.argsort(slices.keys, kind="stable"))
    codes = None
    if slices.strings is not None:
        codes = {text: code for code, text in enumerate(slices.strings)}
    return _Leaf(data, slices, codes)


Shelf = PageShelf | WholeShelf | BookShelf | SliceShelf
