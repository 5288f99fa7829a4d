"""Stores: the state of a shard between micro-batches.

Every value has a checksum of its name and its bytes, so that a flipped bit is always an error and never
a wrong result. Values from before there were checksums are read without a check.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol

from anabranch.errors import AnabranchError

_MARK = b"\xc1\xff\xfe\xc1"
"""The prefix of a checksum. MessagePack, JSON and Arrow never begin with it, nor with three of its bytes."""


class DamagedStateError(AnabranchError, ValueError):
    """A value of the state is damaged or missing. The batch has not been committed."""


class Reader(Protocol):
    """Read access to a shard's state. `owner` is the name of the shard, for errors."""

    @property
    def owner(self) -> str: ...
    def read(self, name: str) -> bytes | None: ...
    def read_page(self, book: str, page: str) -> bytes | None: ...


class Store(Reader, Protocol):
    """A shard's durable state: single values, and maps of pages.

    It is in Spark's RocksDB, or a dict in memory. One call is one round trip to the state
    store, so callers read and write whole pages.
    """

    def write(self, name: str, data: bytes) -> None: ...
    def write_page(self, book: str, page: str, data: bytes | None) -> None: ...
    def is_empty(self) -> bool: ...


class MemoryStore:
    """A store in memory, for tests and for inspecting a shard's state."""

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
        """Write a value."""
        self.values[name] = seal(name, data)

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        self.reads += 1
        found = self.pages.get((book, page))
        return None if found is None else unseal(f"{book}/{page}", found, self.owner)

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Write a page, or remove it if `data` is None."""
        if data is None:
            self.pages.pop((book, page), None)
        else:
            self.pages[book, page] = seal(f"{book}/{page}", data)

    def is_empty(self) -> bool:
        """Return whether the store is empty."""
        return not self.values and not self.pages


class KeptStore:
    """The values of a store at some batch, by name, without checksums, for reading."""

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
    """A part of a store that several operators share."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    @property
    def owner(self) -> str:
        """Return the name of the shard and the part."""
        return f"{self._store.owner}, {self._name}"

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        return self._store.read(f"{self._name}:{name}")

    def write(self, name: str, data: bytes) -> None:
        """Write a value."""
        self._store.write(f"{self._name}:{name}", data)

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self._store.read_page(f"{self._name}:{book}", page)

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Write a page, or remove it if `data` is None."""
        self._store.write_page(f"{self._name}:{book}", page, data)

    def is_empty(self) -> bool:
        """Return whether the whole store is empty; all its parts are created together."""
        return self._store.is_empty()


class Inventory:
    """A store with a list of its values, so that a missing value is not mistaken for a new one.

    The owner stores `held` in the value that it reads first: the names of single values, and for hashed
    books one bit for each page. All other books have a cover of their own.
    """

    def __init__(self, store: Store, held: Mapping[str, int] | None = None) -> None:
        self._store = store
        self.held = dict(held or {})

    @property
    def owner(self) -> str:
        """Return the name of the shard."""
        return self._store.owner

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        found = self._store.read(name)
        if found is None and name in self.held:
            raise report_missing(self, name)
        return found

    def write(self, name: str, data: bytes) -> None:
        """Write a value."""
        self._store.write(name, data)
        self.held[name] = 0

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        found = self._store.read_page(book, page)
        if found is None and self.held.get(book, 0) & _find_bit(book, page):
            raise report_missing(self, f"{book}/{page}")
        return found

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Write a page, or remove it if `data` is None."""
        self._store.write_page(book, page, data)
        bit = _find_bit(book, page)
        if bit:
            bits = self.held.get(book, 0)
            self.held[book] = bits & ~bit if data is None else bits | bit

    def is_empty(self) -> bool:
        """Return whether the store is empty."""
        return self._store.is_empty()


def _find_bit(book: str, page: str) -> int:
    hashed = book in ("entries", "changes") and page.isdecimal()
    return 1 << int(page) if hashed else 0


def list_held(held: Mapping[str, int], book: str) -> list[str]:
    """Return the pages of a hashed book that must exist, from the `held` of an inventory."""
    bits = held.get(book, 0)
    return [str(number) for number in range(bits.bit_length()) if bits >> number & 1]


def read_known_page(store: Reader, book: str, page: str) -> bytes:
    """Return a page that must exist; raise if it is missing."""
    found = store.read_page(book, page)
    if found is None:
        raise report_missing(store, f"{book}/{page}")
    return found


def report_missing(store: Reader, name: str) -> DamagedStateError:
    """Return the error for a missing value."""
    return _report(store.owner, name, "the value that was written", "nothing")


def seal(name: str, data: bytes) -> bytes:
    """Return a value with its checksum in front."""
    return b"".join((_MARK, _add_up(name, data), data))


def unseal(name: str, data: bytes, owner: str) -> bytes:
    """Return a value without its checksum; raise if it is damaged."""
    # A flipped bit in the prefix itself leaves three of its bytes intact.
    if data[:4] != _MARK and sum(a == b for a, b in zip(data, _MARK, strict=False)) < 3:
        return data
    value = data[8:]
    if data[:4] != _MARK or data[4:8] != _add_up(name, value):
        raise _report(
            owner, name, "the value that was written", f"{len(value):,} bytes with another checksum"
        )
    return value


def _add_up(name: str, data: bytes) -> bytes:
    return zlib.crc32(data, zlib.crc32(name.encode())).to_bytes(4, "big")


def _report(owner: str, name: str, expected: str, got: str) -> DamagedStateError:
    return DamagedStateError(
        f"the state is damaged: {name!r}",
        where=owner,
        expected=expected,
        got=got,
        cure="restore a copy of the checkpoint and of its output folder, or start with new folders for "
        "both; nothing of this batch was committed",
    )
