"""Entries: the states of many keys in pages, of which a batch reads and writes those it touches."""

from __future__ import annotations

from typing import Any

from anabranch.microbatch.store.state_store import Store
from anabranch.model.hashing import hash_stably
from anabranch.model.keys import plain_key, plain_keys
from anabranch.model.shapes import MISSING
from anabranch.state.durable.codec import Codec

PAGES = 256
"""Pages per shard. Fixed: it decides where a key is found again."""


class RowEntries:
    """A map of states, as far as `model.step` needs one, on top of a store.

    It changes in place: a shard owns its entries, and folds forward only.
    """

    def __init__(self, store: Store, codec: Codec, shards: int) -> None:
        self._store = store
        self._codec = codec
        self._shards = shards
        self._pages: dict[str, dict[Any, Any]] = {}
        self._changed: set[str] = set()

    def get(self, key: Any, default: Any = MISSING) -> Any:
        """Return the state of a key."""
        return self._page(key)[1].get(plain_key(key), default)

    def set(self, key: Any, state: Any) -> RowEntries:
        """Keep the state of a key."""
        name, page = self._page(key)
        page[plain_key(key)] = state
        self._changed.add(name)
        return self

    def remove(self, key: Any) -> RowEntries:
        """Let go of the state of a key, if there is one."""
        name, page = self._page(key)
        key = plain_key(key)
        if key in page:
            del page[key]
            self._changed.add(name)
        return self

    def flush(self) -> None:
        """Write the pages that have changed; one without entries is forgotten."""
        for name in sorted(self._changed):
            page = self._pages[name]
            self._store.write_page("entries", name, self._codec.encode(page) if page else None)
        self._changed.clear()

    def _page(self, key: Any) -> tuple[str, dict[Any, Any]]:
        # The shard is the hash modulo the number of shards; the page uses what is left of it.
        name = str(hash_stably(key) // self._shards % PAGES)
        page = self._pages.get(name)
        if page is None:
            data = self._store.read_page("entries", name)
            held = {} if data is None else self._codec.decode(data)
            page = self._pages[name] = plain_keys(held)
        return name, page
