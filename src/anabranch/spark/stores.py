"""Stores: where a shard keeps its state between micro-batches."""

from __future__ import annotations

from typing import Any, Protocol


class Store(Protocol):
    """A shard's durable state: single values, and maps of pages.

    Spark's RocksDB is one, a dict in memory is the other. One call is one round trip to the state
    store, so callers read and write whole pages.
    """

    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None: ...
    def read_page(self, book: str, page: str) -> bytes | None: ...
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


class SparkStore:
    """A store in Spark's state: one value state and one map state per operator."""

    def __init__(self, handle: Any) -> None:
        self._values = handle.getMapState("values", "name string", "data binary")
        self._pages = handle.getMapState("pages", "page string", "data binary")

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        found = self._values.getValue((name,))
        return None if found is None else bytes(found[0])

    def write(self, name: str, data: bytes) -> None:
        """Keep a value."""
        self._values.updateValue((name,), (data,))

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        found = self._pages.getValue((f"{book}/{page}",))
        return None if found is None else bytes(found[0])

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Keep a page, or forget it."""
        if data is None:
            self._pages.removeKey((f"{book}/{page}",))
        else:
            self._pages.updateValue((f"{book}/{page}",), (data,))
