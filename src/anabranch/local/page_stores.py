"""Stores of an embedded run: the pages of one operator's group, in a log or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from anabranch.microbatch.store.state_store import seal, unseal


class Pages(Protocol):
    """The committed pages of a log, by name: in the process that writes it, or in another one."""

    def read(self, name: str) -> bytes | None:
        """Return a page of the last committed batch."""

    def __iter__(self) -> Iterator[str]: ...


class PageStore:
    """The store of one group. Changes are kept in memory until the batch is committed.

    The group's pages are those of the log whose names begin with its prefix; without a log, all are in memory.
    """

    def __init__(self, owner: str, log: Pages | None = None) -> None:
        self.owner = owner
        self._log = log
        self._prefix = f"{owner}/"
        self._known: dict[str, bytes] = {}
        self._changes: dict[str, bytes | None] = {}
        self._count = 0
        if log is not None:
            self._count = sum(name.startswith(self._prefix) for name in log)

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        if name in self._changes:
            return self._changes[name]
        if self._log is None:
            return self._known.get(name)
        found = self._log.read(self._prefix + name)
        return None if found is None else unseal(name, found, self.owner)

    def write(self, name: str, data: bytes) -> None:
        """Write a value."""
        self._changes[name] = data

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self.read(f"{book}/{page}")

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Write a page, or remove it if `data` is None."""
        self._changes[f"{book}/{page}"] = data

    def is_empty(self) -> bool:
        """Return whether the store is empty."""
        return not self._count and not self._known and not self._changes

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the changes of a batch by their names in the log; they are part of the store from now on."""
        changes, self._changes = self._changes, {}
        self._count += len(changes)
        if self._log is None:
            for name, data in changes.items():
                if data is None:
                    self._known.pop(name, None)
                else:
                    self._known[name] = data
            return {}
        return {
            self._prefix + name: None if data is None else seal(name, data)
            for name, data in changes.items()
        }
