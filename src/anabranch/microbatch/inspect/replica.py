"""Replicas: the state of a checkpoint in memory, to look up single keys, batch after batch.

A replica is given all values once, and then those that each batch has changed. A batch is one `Copy`,
which never changes: whoever holds one sees all shards at one watermark. What did not change is shared
between copies. Values stay encoded; a page is decoded when it comes, if it is in columns, and when somebody
asks for one of its keys, if it holds objects. Nothing here knows Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from anabranch.microbatch.inspect.key_lookups import Decode, KeyLookup
from anabranch.microbatch.inspect.state_tables import keeps_pages
from anabranch.microbatch.inspect.stored_state import (
    Address,
    ContentsError,
    list_standings,
    read_head,
    sort_stores,
)
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.shard_head import Head
from anabranch.microbatch.store.state_store import KeptStore, unseal
from anabranch.model.shapes import MISSING
from anabranch.model.values.hashing import hash_stably

Value = tuple[int, int, str, bytes | None]
"""Operator, key, name and data of a value, as `checkpoints` reads them; no data where it is removed."""

DECODED = 4096
"""How many pages of objects are kept decoded."""


@dataclass(frozen=True)
class Copy:
    """The state at a committed batch."""

    batch: int
    watermark: int
    description: Description
    lookups: Mapping[Address, KeyLookup]

    def find(self, key: Any) -> Any:
        """Return the entry of a key, MISSING if it has none; for None, what has no key."""
        for address in self._places(key):
            lookup = self.lookups.get(address)
            found = MISSING if lookup is None else lookup.find(key)
            if found is not MISSING:
                return found
        return MISSING

    def _places(self, key: Any) -> Iterator[Address]:
        plan = self.description.plan
        if plan.way == "forked":
            yield Address("root", 0)
        elif key is None or not keeps_pages(self.description):
            yield Address("shard", 0)
        else:
            home = hash_stably(key) % plan.shards
            yield Address("shard", home)
            yield Address("root", home)  # That of a hot key.


class Replica:
    """Follow the values of a checkpoint: `current` is the copy of the last batch."""

    def __init__(self, batch: int, values: Iterable[Value]) -> None:
        self._values: dict[tuple[int, int], dict[str, bytes]] = {}
        stores = dict(self._sort(values))
        shard = next((store for address, store in stores.items() if address.role == "shard"), None)
        if shard is None:
            raise ContentsError(
                "this checkpoint holds no state yet", expected="a batch with events"
            )
        self._description = Description.read(shard.read("description") or b"")
        self._decode: Decode = lru_cache(maxsize=DECODED)(self._description.codec.decode)
        lookups = self._open(stores, {})
        self.current = Copy(batch, self._read_watermark(shard), self._description, lookups)

    def apply(self, batch: int, changes: Iterable[Value]) -> None:
        """Go on to a later batch: `changes` are what it, and those between, have written, in order."""
        now = self.current
        stores = dict(self._sort(changes))
        lookups = {**now.lookups, **self._open(stores, now.lookups)}
        heads = [store for address, store in stores.items() if address.role == "shard"]
        # A shard hears of every batch that brought anything, so any head will do.
        watermark = self._read_watermark(heads[0]) if heads else now.watermark
        self.current = Copy(batch, watermark, self._description, lookups)

    def _sort(self, values: Iterable[Value]) -> Iterator[tuple[Address, KeptStore]]:
        """Take in values, and yield the stores in which something has changed."""
        changed: dict[tuple[int, int], dict[str, bytes]] = {}
        for operator, key, name, data in values:
            place = operator, key
            if place not in changed:
                changed[place] = dict(self._values.get(place, ()))
            if data is None:
                changed[place].pop(name, None)
            else:
                # Now, so that what has not changed since is the same object in the next copy.
                changed[place][name] = unseal(name, data, f"operator {operator}, key {key}")
        self._values.update(changed)
        for (operator, key), held in changed.items():
            if held:
                yield from sort_stores((operator, key, n, data) for n, data in held.items()).items()

    def _read_watermark(self, store: KeptStore) -> int:
        return find_watermark(self._description, read_head(self._description, store))

    def _open(
        self, stores: Mapping[Address, KeptStore], old: Mapping[Address, KeyLookup]
    ) -> dict[Address, KeyLookup]:
        return {
            address: KeyLookup.open(
                self._description, address, store, self._decode, old.get(address)
            )
            for address, store in stores.items()
        }


def find_watermark(description: Description, head: Head) -> int:
    """Return how far all of the channels have come, as a shard's head says."""
    return min(standing.watermark for standing in list_standings(description, head).values())


def read_key(description: Description, text: str) -> Any:
    """Return the key that a text stands for: a text or a number by its kind, anything else as JSON."""
    if description.key == "str":
        return text
    if description.key == "int":
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"keys are whole numbers, and {text!r} is none") from None
    try:
        return _freeze(msgspec.json.decode(text))
    except msgspec.DecodeError:
        raise ValueError(f"keys are read as JSON, and {text!r} is none") from None


def _freeze(value: Any) -> Any:
    """Return what JSON has said as a value that can be a key."""
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
