"""Stores: where a shard keeps its state between micro-batches.

Every value carries a sum over its name and its bytes, so that a bit that has turned is an error and never
an answer. Values that were written before there were sums are read as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol

from anabranch.errors import AnabranchError

_MARK = b"\xc1\xff\xfe\xc1"
"""Before a sum. Neither MessagePack nor JSON nor Arrow begins with these bytes, nor with three of them."""


class DamagedStateError(AnabranchError, ValueError):
    """A value of the state is not what was written, or is gone. The batch has not been committed."""


class Reader(Protocol):
    """A shard's state, as far as it can be looked at. `owner` says whose state it is."""

    @property
    def owner(self) -> str: ...
    def read(self, name: str) -> bytes | None: ...
    def read_page(self, book: str, page: str) -> bytes | None: ...


class Store(Reader, Protocol):
    """A shard's durable state: single values, and maps of pages.

    Spark's RocksDB is one, a dict in memory is the other. One call is one round trip to the state
    store, so callers read and write whole pages.
    """

    def write(self, name: str, data: bytes) -> None: ...
    def write_page(self, book: str, page: str, data: bytes | None) -> None: ...
    def is_empty(self) -> bool: ...


class MemoryStore:
    """A store in memory, for tests and for looking at what a shard would keep."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.pages: dict[tuple[str, str], bytes] = {}
        self.reads = 0
        self.owner = "a shard in memory"

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        self.reads += 1
        found = self.values.get(name)
        return None if found is None else unseal(name, found, self.owner)

    def write(self, name: str, data: bytes) -> None:
        """Keep a value."""
        self.values[name] = seal(name, data)

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        self.reads += 1
        found = self.pages.get((book, page))
        return None if found is None else unseal(f"{book}/{page}", found, self.owner)

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Keep a page, or forget it."""
        if data is None:
            self.pages.pop((book, page), None)
        else:
            self.pages[book, page] = seal(f"{book}/{page}", data)

    def is_empty(self) -> bool:
        """Say whether it holds nothing at all."""
        return not self.values and not self.pages


class KeptStore:
    """What a store held at some batch, by name, without sums: to look at, not to change."""

    def __init__(self, values: Mapping[str, bytes], owner: str = "a store") -> None:
        self.values = values
        self.owner = owner

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        return self.values.get(name)

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self.values.get(f"{book}/{page}")


class StorePart:
    """A part of a store, for one of several who share it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    @property
    def owner(self) -> str:
        """Say whose state it is."""
        return f"{self._store.owner}, {self._name}"

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

    def is_empty(self) -> bool:
        """Say whether the whole store holds nothing at all; all its parts begin together."""
        return self._store.is_empty()


class Inventory:
    """A store that knows which values it holds, so that one that is gone is not taken for a new one.

    `held` is kept by its owner, in the value that it reads first: the names of single values, and of hashed
    books one bit for each page. All other books have a cover of their own.
    """

    def __init__(self, store: Store, held: Mapping[str, int] | None = None) -> None:
        self._store = store
        self.held = dict(held or {})

    @property
    def owner(self) -> str:
        """Say whose state it is."""
        return self._store.owner

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        found = self._store.read(name)
        if found is None and name in self.held:
            raise report_missing(self, name)
        return found

    def write(self, name: str, data: bytes) -> None:
        """Keep a value."""
        self._store.write(name, data)
        self.held[name] = 0

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        found = self._store.read_page(book, page)
        if found is None and self.held.get(book, 0) & _find_bit(book, page):
            raise report_missing(self, f"{book}/{page}")
        return found

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Keep a page, or forget it."""
        self._store.write_page(book, page, data)
        bit = _find_bit(book, page)
        if bit:
            bits = self.held.get(book, 0)
            self.held[book] = bits & ~bit if data is None else bits | bit

    def is_empty(self) -> bool:
        """Say whether it holds nothing at all."""
        return self._store.is_empty()


def _find_bit(book: str, page: str) -> int:
    hashed = book in ("entries", "changes") and page.isdecimal()
    return 1 << int(page) if hashed else 0


def list_held(held: Mapping[str, int], book: str) -> list[str]:
    """Return the pages of a hashed book that there must be, by what an inventory holds."""
    bits = held.get(book, 0)
    return [str(number) for number in range(bits.bit_length()) if bits >> number & 1]


def read_known_page(store: Reader, book: str, page: str) -> bytes:
    """Return a page that was written and not forgotten."""
    found = store.read_page(book, page)
    if found is None:
        raise report_missing(store, f"{book}/{page}")
    return found


def report_missing(store: Reader, name: str) -> DamagedStateError:
    """Return the error of a value that is gone."""
    return _report(store.owner, name, "what was written", "nothing")


def seal(name: str, data: bytes) -> bytes:
    """Return a value with its sum before it."""
    return b"".join((_MARK, _add_up(name, data), data))


def unseal(name: str, data: bytes, owner: str) -> bytes:
    """Return a value without its sum, if it is what was written."""
    # A bit that has turned in the mark itself leaves three bytes of it.
    if data[:4] != _MARK and sum(a == b for a, b in zip(data, _MARK, strict=False)) < 3:
        return data
    value = data[8:]
    if data[:4] != _MARK or data[4:8] != _add_up(name, value):
        raise _report(owner, name, "what was written", f"{len(value):,} bytes with another sum")
    return value


def _add_up(name: str, data: bytes) -> bytes:
    return zlib.crc32(data, zlib.crc32(name.encode())).to_bytes(4, "big")


def _report(owner: str, name: str, expected: str, got: str) -> DamagedStateError:
    return DamagedStateError(
        f"the state is damaged: {name!r}",
        where=owner,
        expected=expected,
        got=got,
        cure="put back a copy of the checkpoint and of its output folder, or start anew with both of them "
        "new; nothing of this batch was committed",
    )
