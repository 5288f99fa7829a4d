"""The contents of a savepoint, from the stores of a checkpoint: state, pending events, deltas, manifest.

A runtime reads the stores at one committed batch, each in its own way; what is written does not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import anabranch
from anabranch.microbatch.inspect.state_tables import (
    describe_state,
    describe_store,
    list_pairs,
    tabulate_store,
    unify_kinds,
)
from anabranch.microbatch.inspect.stored_state import (
    Address,
    Overview,
    read_overview,
    read_pending,
)
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.state_store import KeptStore
from anabranch.model.events import Event
from anabranch.model.values.maps import Map
from anabranch.savepoints.drafts import Draft
from anabranch.savepoints.file_names import STATE
from anabranch.savepoints.manifest import LedgerRecord, Manifest, record_standings
from anabranch.savepoints.objects import (
    name_part,
    place_deltas,
    place_events,
    to_pending,
    write_entries,
)
from anabranch.state.durable.kinds import describe_values
from anabranch.state.durable.row_tables import to_table
from anabranch.state.evolution.schemas import (
    EntryKinds,
    Schema,
    describe_entries,
    list_entries,
    write_schema,
)

Stores = Mapping[Address, KeptStore]


def write_stores(
    stores: Stores, draft: Draft, *, runtime: Literal["local"], batch: int, offsets: Sequence[str]
) -> Manifest:
    """Write the contents of all stores into a draft; return the manifest that seals it."""
    overview = read_overview(stores)
    description = overview.description
    state = _write_state(description, stores, draft)
    events = write_pending(description, stores, draft)
    schema = write_deltas(overview, state, events, draft)
    return describe_savepoint(
        draft.target.name, overview, schema, runtime=runtime, batch=batch, offsets=offsets
    )


def _write_state(description: Description, stores: Stores, draft: Draft) -> EntryKinds:
    if description.plan.way == "shared":
        return write_shared(description, stores, draft)
    kinds = describe_state(description) or unify_kinds(
        describe_store(description, address, store) for address, store in stores.items()
    )
    written = 0
    for address, store in stores.items():
        table = tabulate_store(kinds, description, address, store)
        if len(table):
            draft.write_table(place_table(description, address), table)
            written += 1
    return kinds if written else write_start(description, draft)


def place_table(description: Description, address: Address) -> str:
    """Return the path of the table with a store's part of the state."""
    number = address.number + (0 if address.role == "shard" else description.plan.shards)
    return name_part(STATE, number)


def write_start(description: Description, draft: Draft) -> EntryKinds:
    """Write the initial value of a state without rows; return its kinds."""
    emitted, codec = description.emitted.state, description.codec
    found, pairs = describe_state(description), list[tuple[Any, Any]]()
    if found is None:
        pairs = list_entries(emitted, _find_start(description), codec)
        found = describe_entries(emitted, pairs)
    draft.write_table(name_part(STATE, 0), to_table(found.key, found.entry, pairs, codec))
    return found


def write_shared(description: Description, stores: Stores, draft: Draft) -> EntryKinds:
    """Write a state with a part that keys share, with the entries of all shards; return its kinds."""
    pairs = (list_pairs(description, address, store) for address, store in stores.items())
    each = Map([pair for some in pairs for pair in some])
    data = stores[min(stores)].read("state")
    start = _find_start(description)
    common = start.common if data is None else description.codec.decode(data)
    whole = start._replace(common=common, each=each)
    found = describe_entries(description.emitted.state, [(None, whole)])
    write_entries(draft, STATE, found, whole, description.codec)
    return found


def _find_start(description: Description) -> Any:
    return description.codec.decode(bytes.fromhex(description.start))


def write_pending(description: Description, stores: Stores, draft: Draft) -> dict[str, Any]:
    """Write the pending events; return the kinds of each event type."""
    by_type: dict[str, list[Event]] = {}
    for address, store in stores.items():
        if address.role == "shard":
            for event in read_pending(description, address.number, store):
                by_type.setdefault(type(event.data).__name__, []).append(event)
    found = {
        event_type: describe_values(e.data for e in by_type[event_type])
        for event_type in sorted(by_type)
    }
    places = place_events(Schema(description.emitted.state, {}, found))
    for event_type, events in by_type.items():
        table = to_pending(found[event_type], events, description.codec)
        draft.write_table(name_part(places[event_type], 0), table)
    return found


def write_deltas(
    overview: Overview, state: EntryKinds, events: dict[str, Any], draft: Draft
) -> Schema:
    """Write the deltas of leaves, one file per shard: only the program can join them. Return the schema."""
    description = overview.description
    schema = Schema(state, _describe_deltas(overview), events, declared=description.emitted)
    for name, place in place_deltas(schema).items():
        entries = schema.deltas[name]
        for number, delta in enumerate(overview.deltas[name]):
            pairs = list_entries(entries, delta, description.codec)
            table = to_table(entries.key, entries.entry, pairs, description.codec)
            draft.write_table(name_part(place, number), table)
    return schema


def _describe_deltas(overview: Overview) -> dict[str, EntryKinds]:
    emitted, codec = overview.description.emitted.deltas, overview.description.codec
    found: dict[str, EntryKinds] = {}
    for name, several in overview.deltas.items():
        pairs = [pair for delta in several for pair in list_entries(emitted[name], delta, codec)]
        found[name] = describe_entries(emitted[name], pairs)
    return found


def describe_savepoint(
    name: str,
    overview: Overview,
    schema: Schema,
    *,
    runtime: Literal["local", "spark"],
    batch: int,
    offsets: Sequence[str],
) -> Manifest:
    """Return the manifest of a savepoint; `batch` is the number of its batch in the output folder."""
    standings = overview.standings
    watermarks = {channel: standing.watermark for channel, standing in sorted(standings.items())}
    return Manifest(
        name=name,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        anabranch=anabranch.__version__,
        program=overview.description.program,
        runtime=runtime,
        fingerprint=dict(overview.made_by),
        watermark=min(watermarks.values()),
        watermarks=watermarks,
        standings=record_standings(standings),
        ledger=LedgerRecord(*overview.ledger),
        clock_ms=overview.clock_ms,
        batch=batch,
        offsets=tuple(offsets),
        schema=write_schema(schema),
    )
