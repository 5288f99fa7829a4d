"""Stored state: the state of a checkpoint's shards at a committed batch, read without running its program.

Spark keeps each batch's state as a separate version, so that all shards are read at one watermark, also
while the query is running. All functions only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.errors import AnabranchError
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.envelopes import unpack_events
from anabranch.microbatch.exchange.partition_keys import find_numbers
from anabranch.microbatch.ingest.channel_verdicts import Standing
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.shard_head import Head, read_pending_pages
from anabranch.microbatch.store.state_store import (
    KeptStore,
    list_held,
    read_known_page,
    report_missing,
    unseal,
)
from anabranch.model.events import Event


class ContentsError(AnabranchError, ValueError):
    """A checkpoint can't be read; it was not changed."""


class Address(NamedTuple):
    """The store of a value in a checkpoint: that of a shard, a root or the deferred outputs."""

    role: str
    number: int


def sort_stores(rows: Iterable[tuple[int, int, str, bytes]]) -> dict[Address, KeptStore]:
    """Sort the values of a checkpoint, (operator, key, name, data), by their stores."""
    stores: dict[tuple[int, int], dict[str, bytes]] = {}
    for operator, key, name, data in rows:
        values = stores.setdefault((operator, key), {})
        values[name] = unseal(name, data, f"operator {operator}, key {key}")
    return {
        address: KeptStore(part)
        for (_, key), values in sorted(stores.items())
        for address, part in _split_stores(key, values)
    }


def _split_stores(
    key: int, values: Mapping[str, bytes]
) -> Iterator[tuple[Address, dict[str, bytes]]]:
    """Yield the stores that share one Spark store: a single shard has its root in the same store."""
    shared: dict[str, dict[str, bytes]] = {}
    for name, data in values.items():
        role, colon, rest = name.partition(":")
        if colon and role in ("shard", "root", "deferred_outputs"):
            shared.setdefault(role, {})[rest] = data
    if shared:
        for role, part in shared.items():
            yield Address(role, 0), part
    elif "head" in values:
        yield Address("shard", find_number(values, key)), dict(values)
    else:
        yield Address("root" if "spine" in values else "deferred_outputs", key), dict(values)


def find_number(values: Mapping[str, bytes], key: int) -> int:
    """Return the number of the shard with a key in Spark."""
    return find_numbers(_read_description(KeptStore(values)).plan.shards)[key]


def _read_description(store: KeptStore) -> Description:
    data = store.read("description")
    if data is None:
        raise ContentsError(
            "this checkpoint has no description of its state",
            expected="a checkpoint that was started by this version, or a later one",
            got="one without a description",
            cure="continue with the version that made it; or start a new one",
        )
    return Description.read(data)


@dataclass(frozen=True)
class Overview:
    """The data of a run at a batch without its state, over all shards."""

    description: Description
    heads: dict[int, Head]
    ledger: Ledger
    deltas: dict[str, list[Any]]

    @property
    def standings(self) -> dict[str, Standing]:
        """Return the standing of each channel that takes part, also if it has sent nothing."""
        return list_standings(self.description, self._latest)

    @property
    def made_by(self) -> dict[str, str]:
        """Return the fingerprint of what made the state."""
        return self._latest.made_by

    @property
    def clock_ms(self) -> int | None:
        """Return the recorded time of the last batch."""
        return self._latest.clock_ms

    @property
    def _latest(self) -> Head:
        # Every shard runs in every batch, so any head is current.
        return self.heads[min(self.heads)]


def read_overview(stores: Mapping[Address, KeptStore]) -> Overview:
    """Return the overview of the stores of all shards, roots and deferred outputs, without their pages."""
    shards = {address.number: s for address, s in stores.items() if address.role == "shard"}
    if not shards:
        raise ContentsError("this checkpoint has no state yet", expected="a batch with events")
    description = _read_description(shards[min(shards)])
    codec = description.codec
    heads = {number: read_head(description, store) for number, store in shards.items()}
    ledgers = [Ledger(*head.ledger) for head in heads.values()]
    for address, store in stores.items():
        counted = store.read("ledger")
        if address.role != "shard" and counted is not None:
            ledgers.append(Ledger(*codec.decode(counted)[: len(Ledger._fields)]))
    # The deltas of each shard stay separate, in their order: only a program can join them.
    deltas: dict[str, list[Any]] = {}
    for number in sorted(shards):
        data = shards[number].read("deltas")
        for name, delta in ({} if data is None else codec.decode(data)).items():
            deltas.setdefault(name, []).append(delta)
    return Overview(description, heads, Ledger(*map(sum, zip(*ledgers, strict=True))), deltas)


def list_standings(description: Description, head: Head) -> dict[str, Standing]:
    """Return the standings of the channels that take part, from a shard's head."""
    known = head.standings
    return {
        name: Standing(*known.get(name, ()))
        for name in sorted({*description.channels, *known} - {*head.announced})
    }


def read_pending(description: Description, number: int, store: KeptStore) -> list[Event]:
    """Return the pending events that a shard counts: each is counted in one shard."""
    events: list[Event] = []
    for data in read_pending_pages(store, read_head(description, store).pages):
        if description.form == "objects":
            carried = unpack_events(description.codec, description.type_classes, data)
            events += [one.event for one in carried]
        else:
            events += _read_table(description, data)
    timers = {description.classes[name] for name in description.timers}
    return [
        event
        for event in events
        if type(event.data) not in timers and description.plan.counts(event, number)
    ]


def _read_table(description: Description, data: bytes) -> list[Event]:
    from anabranch.microbatch.shards.columnar_shard import read_table

    plan: Any = _Layouts(description.type_layouts)
    return read_table(plan, data)[0].events(sorted(description.channels))


class _Layouts(NamedTuple):
    """The part of a column plan that reading a table needs."""

    layouts: tuple[Any, ...]


def read_objects(description: Description, store: KeptStore) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a shard of objects, key by key."""
    held = read_head(description, store).held
    if held is None:  # From before there were inventories.
        pages = [name[len("entries/") :] for name in store.values if name.startswith("entries/")]
    else:
        pages = list_held(held, "entries")
    for page in pages:
        data = read_known_page(store, "entries", page)
        yield from description.codec.decode(data).items()


def read_head(description: Description, store: KeptStore) -> Head:
    """Return the head of a shard."""
    data = store.read("head")
    if data is None:
        raise report_missing(store, "head")
    return Head(*description.codec.decode(data))
