"""Entries in columns: the states of many keys, of which a batch writes those that it touched.

What is durable is a book of pages. A batch appends one page, with the keys that it touched and their
states; pages of like size are merged, so that there are few of them and each key is rewritten only
now and then. A worker keeps the table that the pages add up to, and the next batch of the same shard
reads nothing but the book's cover: that says whether the table at hand is the one it belongs to, or which
pages it lacks.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.kernels.column_layouts import ColumnLayout
from anabranch.kernels.indexes import Index
from anabranch.kernels.numpy_columns import Columns, Strings, pack
from anabranch.microbatch.columns.event_tables import (
    concatenate_columns,
    read_columns,
    write_columns,
)
from anabranch.microbatch.store.state_store import Reader, Store, read_known_page

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

PART_ROWS = 1 << 16
"""How many entries one value of the state store holds."""

_RECENT = 64
_MOST_TABLES = 1024

_tables: OrderedDict[str, _Table] = OrderedDict()
"""Tables at hand in this worker, by what they hold: a digest of all that was ever written."""


class _Page(NamedTuple):
    """Entries that batches `first` to `last` touched, in so many parts."""

    number: int
    rows: int
    first: int
    last: int
    parts: int


class _Cover(NamedTuple):
    """What a shard reads of its book with every batch: `recent` digests, and the pages."""

    version: int
    recent: list[tuple[int, str]]
    pages: list[_Page]


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
        """Return the slots of keys; new ones start where entries start."""
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
        """Put states into slots."""
        recoded = states.recode(self.strings)
        for array, new in zip(self.arrays, recoded.arrays, strict=True):
            array[slots] = new


class ColumnEntries:
    """The entries of a shard for one batch."""

    def __init__(self, store: Store, layout: ColumnLayout, start: Any, shard: int) -> None:
        self._store = store
        self._seed = f"shard {shard}"
        data = store.read("cover")
        self._cover = _Cover(-1, [], []) if data is None else _read_cover(data)
        self._texts = False
        self._table = self._fetch(layout, start)

    def find(self, keys: Array, texts: Strings | None) -> Array:
        """Return the slots of keys; where keys are codes, `texts` says of what."""
        if texts is not None:
            self._texts = True
            keys = self._table.strings.codes(texts[code] for code in keys.tolist())
        return self._table.find(keys)

    def states(self, slots: Array, strings: Strings) -> Columns:
        """Return the states of slots, with the codes of a batch's texts."""
        return self._table.read(slots).recode(strings)

    def keep(self, slots: Array, states: Columns) -> None:
        """Write the states that a batch has left in its slots."""
        table, cover = self._table, self._cover
        table.write(slots, states)
        version = cover.version + 1
        pages, gone = list(cover.pages), []
        page = _Page(_fresh(pages), len(slots), version, version, 0)
        table.pages[page.number] = slots
        pages.append(page)
        while len(pages) > 1 and pages[-2].rows <= 2 * pages[-1].rows:
            pages[-2:], removed = self._merge(*pages[-2:])
            gone += removed
        digest = hashlib.sha256((cover.recent[-1][1] if cover.recent else self._seed).encode())
        pages[-1] = self._write_page(pages[-1], digest)
        for old in gone:
            self._remove(old)
        recent = [*cover.recent, (version, digest.hexdigest())][-_RECENT:]
        self._cover = _Cover(version, recent, pages)
        self._store.write("cover", json.dumps(self._cover).encode())
        table.version = version
        _remember(digest.hexdigest(), table)

    def _merge(self, older: _Page, newer: _Page) -> tuple[list[_Page], list[_Page]]:
        import numpy as np

        table = self._table
        slots = np.unique(np.concatenate([table.pages.pop(page.number) for page in (older, newer)]))
        number = max(older.number, newer.number) + 1
        table.pages[number] = slots
        merged = _Page(number, len(slots), older.first, newer.last, 0)
        return [merged], [page for page in (older, newer) if page.parts]

    def _write_page(self, page: _Page, digest: Any) -> _Page:
        table = self._table
        slots = table.pages[page.number]
        parts = 0
        for start in range(0, max(len(slots), 1), PART_ROWS):
            cut = slots[start : start + PART_ROWS]
            data = self._pack(cut)
            digest.update(data)
            self._store.write_page("entries", f"{page.number}.{parts}", data)
            parts += 1
        return page._replace(parts=parts)

    def _pack(self, slots: Array) -> bytes:
        table = self._table
        keys = table.index.keys[slots]
        note = {}
        if self._texts:
            note["keys"] = [table.strings[code] for code in keys.tolist()]
        return write_columns(table.read(slots), {"key": keys}, note)

    def _remove(self, page: _Page) -> None:
        for part in range(page.parts):
            self._store.write_page("entries", f"{page.number}.{part}", None)

    def _fetch(self, layout: ColumnLayout, start: Any) -> _Table:
        """Find the table of this book, or one that lacks its last pages only, or make it anew."""
        known = {digest: version for version, digest in self._cover.recent}
        for digest in reversed(known):
            table = _tables.pop(digest, None)
            if table is not None and table.layout == layout:
                self._catch_up(table)
                return table
        table = _Table(layout, start)
        self._catch_up(table)
        return table

    def _catch_up(self, table: _Table) -> None:
        current = {page.number for page in self._cover.pages}
        for number in set(table.pages) - current:
            del table.pages[number]
        for page in self._cover.pages:
            # What a page holds is never older than the table, so any page that reaches beyond it may
            # be laid over it, in order.
            if page.last > table.version:
                self._lay(table, page)
            assert page.number in table.pages, f"page {page.number} of the entries was missed"
        table.version = self._cover.version

    def _lay(self, table: _Table, page: _Page) -> None:
        import numpy as np

        found = []
        for part in range(page.parts):
            data = read_known_page(self._store, "entries", f"{page.number}.{part}")
            columns, more, note = read_columns(lambda _: table.layout, data)
            keys = more["key"]
            if "keys" in note:
                self._texts = True
                keys = table.strings.codes(note["keys"])
            slots = table.find(keys)
            table.write(slots, columns)
            found.append(slots)
        table.pages[page.number] = np.concatenate(found)


def read_book(store: Reader, layout: ColumnLayout) -> tuple[Array, Strings | None, Columns]:
    """Return all keys of a book, what they are codes of if they are texts, and their states."""
    import numpy as np

    data = store.read("cover")
    cover = _Cover(-1, [], []) if data is None else _read_cover(data)
    strings, texts = Strings(), False
    keys: list[Array] = [np.empty(0, np.int64)]
    states: list[Columns] = [pack(layout, [], strings)]
    for page in cover.pages:
        for part in range(page.parts):
            found = read_known_page(store, "entries", f"{page.number}.{part}")
            columns, more, note = read_columns(lambda _: layout, found, strings)
            texts = texts or "keys" in note
            keys.append(strings.codes(note["keys"]) if "keys" in note else more["key"])
            states.append(columns)
    line = np.concatenate(keys)
    # Of a key that several pages hold, the last one is right.
    last = len(line) - 1 - np.unique(line[::-1], return_index=True)[1]
    whole = concatenate_columns(states, strings)
    arrays = tuple(array[last] for array in whole.arrays)
    return line[last], strings if texts else None, Columns(layout, arrays, len(last), strings)


def list_parts(store: Reader) -> list[str]:
    """Return the names of the pages of a book, part by part, the oldest first."""
    data = store.read("cover")
    pages = [] if data is None else _read_cover(data).pages
    return [f"{page.number}.{part}" for page in pages for part in range(page.parts)]


def _remember(digest: str, table: _Table) -> None:
    _tables[digest] = table
    while len(_tables) > _MOST_TABLES:
        _tables.popitem(last=False)


def forget_tables() -> None:
    """Forget what this worker has at hand, as if it had just started."""
    _tables.clear()


def _fresh(pages: list[_Page]) -> int:
    return max((page.number for page in pages), default=-1) + 1


def _read_cover(data: bytes) -> _Cover:
    version, recent, pages = json.loads(data)
    return _Cover(version, [(v, digest) for v, digest in recent], [_Page(*page) for page in pages])
