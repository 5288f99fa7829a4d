"""Replicas: the state of a checkpoint in memory, for look-ups of single keys, batch after batch.

A replica gets all values once, and then those that each batch has changed. The state at a batch is one `Copy`,
which never changes: it contains all shards at one watermark. Copies share unchanged values.
Values stay encoded; a page in columns is decoded when it arrives, a page of objects at the first look-up
of one of its keys. Independent of Spark.
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
"""Operator, key, name and data of a value, as `checkpoints` reads them; the data of a removed value is None."""

DECODED = 4096
"""Pages of objects in the cache of decoded pages."""


@dataclass(frozen=True)
class Copy:
    """The state at a committed batch."""

    batch: int
    watermark: int
    description: Description
    lookups: Mapping[Address, KeyLookup]

    def find(self, key: Any) -> Any:
        """Return the entry of a key, MISSING if it has none; for None, the state without a key."""
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
            yield Address("root", home)  # The root of a hot key.


class Replica:
    """The values of a checkpoint over time: `current` is the copy of the last batch."""

    def __init__(self, batch: int, values: Iterable[Value]) -> None:
        self._values: dict[tuple[int, int], dict[str, bytes]] = {}
        stores = dict(self._sort(values))
        shard = next((store for address, store in stores.items() if address.role == "shard"), None)
        if shard is None:
            raise ContentsError("this checkpoint has no state yet", expected="a batch with events")
        self._description = Description.read(shard.read("description") or b"")
        self._decode: Decode = lru_cache(maxsize=DECODED)(self._description.codec.decode)
        lookups = self._open(stores, {})
        self.current = Copy(batch, self._read_watermark(shard), self._description, lookups)

    def apply(self, batch: int, changes: Iterable[Value]) -> None:
        """Advance to a later batch: `changes` are all writes since the current one, in order."""
        now = self.current
        stores = dict(self._sort(changes))
        lookups = {**now.lookups, **self._open(stores, now.lookups)}
        heads = [store for address, store in stores.items() if address.role == "shard"]
        # Every shard runs in every batch with rows, so any head is current.
        watermark = self._read_watermark(heads[0]) if heads else now.watermark
        self.current = Copy(batch, watermark, self._description, lookups)

    def _sort(self, values: Iterable[Value]) -> Iterator[tuple[Address, KeptStore]]:
        """Store values, and yield the stores that have changed."""
        changed: dict[tuple[int, int], dict[str, bytes]] = {}
        for operator, key, name, data in values:
            place = operator, key
            if place not in changed:
                changed[place] = dict(self._values.get(place, ()))
            if data is None:
                changed[place].pop(name, None)
            else:
                # Now, so that unchanged values are the same objects in the next copy.
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
    """Return the watermark of the program, from a shard's head."""
    return min(standing.watermark for standing in list_standings(description, head).values())


def read_key(description: Description, text: str) -> Any:
    """Return the key for a text: a text or a number by its kind, anything else as JSON."""
    if description.key == "str":
        return text
    if description.key == "int":
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"keys are integers, and {text!r} is not") from None
    try:
        return _freeze(msgspec.json.decode(text))
    except msgspec.DecodeError:
        raise ValueError(f"keys are read as JSON, and {text!r} is not JSON") from None


def _freeze(value: Any) -> Any:
    """Return a JSON value as a hashable value for a key."""
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
