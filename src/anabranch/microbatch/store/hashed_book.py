"""Hashed books: values of many keys in pages, of which a batch reads and writes those it needs."""

from __future__ import annotations

from typing import Any

from anabranch.microbatch.store.page_sizes import HASHED_PAGES
from anabranch.microbatch.store.state_store import Store
from anabranch.model.shapes import MISSING
from anabranch.model.values.hashing import hash_stably
from anabranch.model.values.keys import plain_key, plain_keys
from anabranch.state.durable.codec import Codec


class HashedBook:
    """A map on top of a store, with the methods of `model.maps.Map` that a fold needs.

    It changes in place: a shard owns its book, and only folds forward.
    """

    def __init__(self, store: Store, codec: Codec, shards: int, name: str = "entries") -> None:
        self._store = store
        self._codec = codec
        self._shards = shards
        self._name = name
        self._pages: dict[str, dict[Any, Any]] = {}
        self._changed: set[str] = set()
        self._places: dict[Any, tuple[str, dict[Any, Any]]] = {}

    def get(self, key: Any, default: Any = MISSING) -> Any:
        """Return the value of a key."""
        key = plain_key(key)
        return self._find(key)[1].get(key, default)

    def set(self, key: Any, value: Any) -> HashedBook:
        """Set the value of a key."""
        key = plain_key(key)
        name, page = self._find(key)
        page[key] = value
        self._changed.add(name)
        return self

    def remove(self, key: Any) -> HashedBook:
        """Remove the value of a key, if there is one."""
        key = plain_key(key)
        name, page = self._find(key)
        if key in page:
            del page[key]
            self._changed.add(name)
        return self

    def flush(self) -> None:
        """Write the pages that have changed; remove those without values."""
        for name in sorted(self._changed):
            page = self._pages[name]
            self._store.write_page(self._name, name, self._codec.encode(page) if page else None)
        self._changed.clear()

    def _find(self, key: Any) -> tuple[str, dict[Any, Any]]:
        """Return the page of a key, with its name; a key is hashed once in a batch."""
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._load(key)
        return found

    def _load(self, key: Any) -> tuple[str, dict[Any, Any]]:
        name = name_page(key, self._shards)
        page = self._pages.get(name)
        if page is None:
            data = self._store.read_page(self._name, name)
            held = {} if data is None else self._codec.decode(data)
            page = self._pages[name] = plain_keys(held)
        return name, page


def name_page(key: Any, shards: int) -> str:
    """Return the page of a key: its hash divided by the number of shards; the remainder is the shard."""
    return str(hash_stably(key) // shards % HASHED_PAGES)
