"""A store on the state handle of an operator."""

from __future__ import annotations

from typing import Any

from anabranch.microbatch.store.state_store import seal, unseal


class SparkStore:
    """A store in Spark's state: one map for everything, since each costs time in every batch."""

    def __init__(self, handle: Any) -> None:
        self._data = handle.getMapState("data", "name string", "data binary")
        self.owner = "an operator"

    def read(self, name: str) -> bytes | None:
        """Return a value."""
        found = self._data.getValue((name,))
        return None if found is None else unseal(name, bytes(found[0]), self.owner)

    def write(self, name: str, data: bytes) -> None:
        """Write a value."""
        self._data.updateValue((name,), (seal(name, data),))

    def read_page(self, book: str, page: str) -> bytes | None:
        """Return a page."""
        return self.read(f"{book}/{page}")

    def write_page(self, book: str, page: str, data: bytes | None) -> None:
        """Write a page, or remove it if `data` is None."""
        if data is None:
            self._data.removeKey((f"{book}/{page}",))
        else:
            self.write(f"{book}/{page}", data)

    def is_empty(self) -> bool:
        """Return whether the store is empty."""
        return not self._data.exists()
