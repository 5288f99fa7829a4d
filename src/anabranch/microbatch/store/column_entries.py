"""Entries in columns: the states of many keys, of which a batch writes those that it changed.

The durable form is a paged book. A batch appends a page with the keys that it changed and their states. A
Python worker process caches the table of all pages, and the next batch of the same shard reads only the
book's cover: its digests show whether the cached table is current, or lacks the last pages.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from anabranch.kernels.arrays.indexes import Index
from anabranch.kernels.column_layouts import ColumnLayout
from anabranch.kernels.numpy_columns import Columns, Strings, pack
from anabranch.microbatch.columns.event_tables import (
    concatenate_columns,
    read_columns,
    write_columns,
)
from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.paged_book import BookPage, PagedBook, read_parts
from anabranch.microbatch.store.state_store import Reader, Store

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BOOK = "entries"

_RECENT = 64
"""Digests on a cover: a cached table that is older by more batches is rebuilt."""

_MOST_TABLES = 1024

_tables: OrderedDict[str, _Table] = OrderedDict()
"""Cached tables of this process, by a digest of all that was ever written to them."""


class _Table:
    """The entries of a shard, in memory."""

    def __init__(self, layout: ColumnLayout, start: Any) -> None:
        self.strings = Strings()
        self.index = Index()
        self.start = pack(layout, [start], self.strings)
        self.arrays = [array[:0] for array in self.start.arrays]
        self.layout = layout
        self.version = -1
        self.pages: dict[int, Array] = {}

    def find(self, keys: Array) -> Array:
        """Return the slots of keys; new keys get a slot with the initial state."""
        import numpy as np

        slots = self.index.find(keys)
        missing = self.index.count - (len(self.arrays[0]) if self.arrays else self.index.count)
        if missing > 0:
            room = max(missing, self.index.count // 2)
            self.arrays = [
                np.concatenate([array, np.repeat(one, room)])
                for array, one in zip(self.arrays, self.start.arrays, strict=True)
            ]
        return slots

    def read(self, slots: Array) -> Columns:
        """Return the states of slots."""
        arrays = tuple(array[slots] for array in self.arrays)
        return Columns(self.layout, arrays, len(slots), self.strings)

    def write(self, slots: Array, states: Columns) -> None:
        """Write states into slots."""
        recoded = states.recode(self.strings)
        for array, new in zip(self.arrays, recoded.arrays, strict=True):
            array[slots] = new


class ColumnEntries(PagedBook["Array"]):
    """The entries of a shard for one batch; the content of a page is its slots in the table."""

    def __init__(self, store: Store, layout: ColumnLayout, start: Any, shard: int) -> None:
        super().__init__(store, BOOK, (-1, []), page_sizes.ENTRY_ROWS)
        self._version, self._recent = self._about
        last = self._recent[-1] if self._recent else f"shard {shard}"
        self._digest = hashlib.sha256(last.encode())
        self._texts = False
        self._table = self._fetch(layout, start)

    def find(self, keys: Array, texts: Strings | None) -> Array:
        """Return the slots of keys; keys that are codes refer to `texts`."""
        if texts is not None:
            self._texts = True
            keys = self._table.strings.codes(texts[code] for code in keys.tolist())
        return self._table.find(keys)

    def states(self, slots: Array, strings: Strings) -> Columns:
        """Return the states of slots, with the codes of a batch's texts."""
        return self._table.read(slots).recode(strings)

    def keep(self, slots: Array, states: Columns) -> None:
        """Write the states of a batch's slots."""
        table = self._table
        table.write(slots, states)
        self._version += 1
        page, held = self._append(slots)
        table.pages[page.number] = held
        digest = self._digest.hexdigest()
        self._recent = [*self._recent, digest][-_RECENT:]
        self._write_cover((self._version, self._recent))
        table.version = self._version
        _remember(digest, table)

    def _join(self, page: BookPage, newer: Array) -> Array:
        import numpy as np

        return np.unique(np.concatenate([self._table.pages.pop(page.number), newer]))

    def _measure(self, content: Array) -> tuple[int, int, int]:
        """Return the number of slots, and the batch of the states."""
        return len(content), self._version, self._version

    def _pack(self, content: Array, rows: slice) -> bytes:
        table, slots = self._table, content[rows]
        texts = table.strings if self._texts else None
        data = pack_entries(table.index.keys[slots], texts, table.read(slots))
        self._digest.update(data)
        return data

    def _fetch(self, layout: ColumnLayout, start: Any) -> _Table:
        """Return the cached table of this book, after reading its missing pages, or a new one."""
        for digest in reversed(self._recent):
            table = _tables.pop(digest, None)
            if table is not None and table.layout == layout:
                break
        else:
            table = _Table(layout, start)
        self._catch_up(table)
        return table

    def _catch_up(self, table: _Table) -> None:
        current = {page.number for page in self._pages}
        for number in set(table.pages) - current:
            del table.pages[number]
        for page in self._pages:
            # A page is never older than the table, so any page that extends beyond it may
            # be applied to it, in order.
            if page.last > table.version:
                self._lay(table, page)
            assert page.number in table.pages, f"page {page.number} of the entries was missed"
        table.version = self._version

    def _lay(self, table: _Table, page: BookPage) -> None:
        import numpy as np

        found = []
        for data in self._read_parts(page):
            keys, texts, states = unpack_entries(table.layout, data, table.strings)
            self._texts |= texts is not None
            slots = table.find(keys)
            table.write(slots, states)
            found.append(slots)
        table.pages[page.number] = np.concatenate(found)


def read_entries(store: Reader, layout: ColumnLayout) -> tuple[Array, Strings | None, Columns]:
    """Return all keys of a book, the texts that they are codes of (if they are texts), and their states."""
    import numpy as np

    keys, texts, states = unpack_all(layout, (data for _, data in read_parts(store, BOOK)))
    # If several pages contain a key, the last one is current.
    last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
    return keys[last], texts, states.take(last)


def unpack_all(
    layout: ColumnLayout, several: Iterable[bytes]
) -> tuple[Array, Strings | None, Columns]:
    """Return the entries of several values, in their order."""
    import numpy as np

    strings = Strings()
    parts = [unpack_entries(layout, data, strings) for data in several]
    keys = [np.empty(0, np.int64), *(part[0] for part in parts)]
    states = [pack(layout, [], strings), *(part[2] for part in parts)]
    texts = strings if any(part[1] is not None for part in parts) else None
    return np.concatenate(keys), texts, concatenate_columns(states, strings)


def pack_entries(keys: Array, texts: Strings | None, states: Columns) -> bytes:
    """Return some entries in columns as bytes; keys that are codes are written with their texts."""
    note = {} if texts is None else {"keys": [texts[code] for code in keys.tolist()]}
    return write_columns(states, {"key": keys}, note)


def unpack_entries(
    layout: ColumnLayout, data: bytes, strings: Strings | None = None
) -> tuple[Array, Strings | None, Columns]:
    """Return the entries that `pack_entries` packed; all texts get the codes of one list."""
    states, more, note = read_columns(lambda _: layout, data, strings)
    if "keys" not in note:
        return more["key"], None, states
    return states.strings.codes(note["keys"]), states.strings, states


def _remember(digest: str, table: _Table) -> None:
    _tables[digest] = table
    while len(_tables) > _MOST_TABLES:
        _tables.popitem(last=False)


def forget_tables() -> None:
    """Clear the cache of this process, as if it had just started."""
    _tables.clear()
