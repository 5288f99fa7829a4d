"""Stores: where a shard keeps its state between micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class Reader(Protocol):
    """A shard's state, as far as it can be looked at."""

    def read(self, name: str) -> bytes | None: ...
    def read_page(self, book: str, page: str) -> bytes | None: ...


class Store(Reader, Protocol):
    """A shard's durable state: single values, and maps of pages.

    Spark's RocksDB is one, a dict in memory is the other. One call is one round trip to the state
    store, so callers read and write whole pages.
    """

    def write(self, name: str, data: bytes) -> None: ...
    def write_page(self, book: str, page: str, data: bytes | None) -> None: ...


class MemoryStore:
    """A store in memory, for tests and for looking at what a shard would keep."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.pages: dict[tuple[str, str], bytes] = {}
        self.reads = 0

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        self.reads += 1
        return self.values.get(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a value."""
        self.values[name] = data

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        self.reads += 1
        return self.pages.get((book, page))

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Keep a page, or forget it."""
        if data is None:
            self.pages.pop((book, page), None)
        else:
            self.pages[book, page] = data


class KeptStore:
    """What a store held at some batch, by name: to look at, not to change."""

    def __init__(self, values: Mapping[str, bytes]) -> None:
        self.values = values

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        return self.values.get(name)

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self.values.get(f"{book}/{page}")

    def pages(self, book: str) -> Iterator[bytes]:
        """Yield the pages of a book."""
        for name, data in self.values.items():
            if name.startswith(f"{book}/"):
                yield data


class Part:
    """A part of a store, for one of several who share it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        return self._store.read(f"{self._name}:{name}")

    def write(self, name: str, data: bytes) -> None:
        """Keep a value."""
        self._store.write(f"{self._name}:{name}", data)

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self._store.read_page(f"{self._name}:{book}", page)

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Keep a page, or forget it."""
        self._store.write_page(f"{self._name}:{book}", page, data)


class SparkStore:
    """A store in Spark's state: one map for everything, since each costs time in every batch."""

    def __init__(self, handle: Any) -> None:
        self._data = handle.getMapState("data", "name string", "data binary")

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        found = self._data.getValue((name,))
        return None if found is None else bytes(found[0])

    def write(self, name: str, data: bytes) -> None:
        """Keep a value."""
        self._data.updateValue((name,), (data,))

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self.read(f"{book}/{page}")

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Keep a page, or forget it."""
        if data is None:
            self._data.removeKey((f"{book}/{page}",))
        else:
            self.write(f"{book}/{page}", data)
