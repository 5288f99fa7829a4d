"""State tables: the state of a store as rows, the one form for queries, exports and savepoints.

A keyed state has a column `key` and one for each field of its entries, or `value` if they have none;
columnar windows have a row for each key and slice; a state without entries is one row. Deltas that no
marker has joined to the state yet are not included, nor is the part that keys share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from anabranch.microbatch.columns.arrow_columns import columns_to_arrow, describe_layout
from anabranch.microbatch.inspect.stored_state import Address, read_objects
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.state_store import KeptStore
from anabranch.model.values.maps import Map
from anabranch.state.durable.kinds import (
    BOOL,
    INT,
    STR,
    UNKNOWN,
    Kind,
    Record,
    describe_values,
)
from anabranch.state.durable.row_tables import name_columns, to_table
from anabranch.state.durable.value_columns import arrow_type
from anabranch.state.evolution.schemas import EntryKinds, describe_entries, unify_entries

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from anabranch.microbatch.columns.window_slices import WindowSlices

_KEYS: dict[str | None, Kind] = {"int": INT, "str": STR, "bool": BOOL}


def is_keyed(description: Description) -> bool:
    """Return whether the state has entries; the rows of a state with a shared part are its entries."""
    return bool(description.emitted.state.by) or description.plan.way == "shared"


def keeps_pages(description: Description) -> bool:
    """Return whether shards keep entries of their own."""
    return description.plan.way in ("keyed", "shared")


def describe_state(description: Description) -> EntryKinds | None:
    """Return the kinds of a state's rows if they are in columns; those of objects depend on their values."""
    declared = description.emitted.state
    if description.form == "windows":
        plan = description.window_plan
        key = None if plan.key is None else _KEYS[description.key]
        fields = tuple((name, INT) for name in ("start", "events", *plan.columns))
        return EntryKinds(declared.by, None, key, Record("Slice", fields))
    if description.keeps_book:
        entry = describe_layout(description.entry_layout)
        return EntryKinds(declared.by, declared.lanes, _KEYS[description.key], entry)
    return None


def describe_store(description: Description, address: Address, store: KeptStore) -> EntryKinds:
    """Return the kinds of a store's rows, from its values."""
    known = describe_state(description)
    if known is not None:
        return known
    declared, pairs = description.emitted.state, list(list_pairs(description, address, store))
    if declared.by or not is_keyed(description):
        return describe_entries(declared, pairs)
    key, entry = (describe_values(pair[place] for pair in pairs) for place in (0, 1))
    return EntryKinds((), None, key, entry)


def unify_kinds(several: Iterable[EntryKinds]) -> EntryKinds:
    """Return kinds that fit the rows of all; empty ones if there are none."""
    found = list(several)
    return reduce(unify_entries, found) if found else EntryKinds((), None, None, UNKNOWN)


def make_schema(kinds: EntryKinds) -> pa.Schema:
    """Return the columns of a table and their types."""
    import pyarrow as pa

    flat = isinstance(kinds.entry, Record) and kinds.entry.fields
    entries = [kind for _, kind in flat] if flat else [kinds.entry]
    types = map(arrow_type, entries if kinds.key is None else [kinds.key, *entries])
    return pa.schema(list(zip(name_columns(kinds.key, kinds.entry), types, strict=True)))


def tabulate_store(
    kinds: EntryKinds, description: Description, address: Address, store: KeptStore
) -> pa.Table:
    """Return the rows of a store; none if it only has a copy of other stores' rows."""
    if describe_state(description) is None:
        pairs = list_pairs(description, address, store)
        return to_table(kinds.key, kinds.entry, pairs, description.codec)
    if description.form == "columns" and not _has_rows(description, address):
        return make_schema(kinds).empty_table()
    return _tabulate_columns(kinds, description, store)


def list_pairs(
    description: Description, address: Address, store: KeptStore
) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and entries of a store of objects; one pair without a key if the state has no entries."""
    if not _has_rows(description, address):
        return
    if address.role == "shard" and keeps_pages(description):
        yield from read_objects(description, store)
        return
    data = store.read("spine" if address.role == "root" else "state")
    if data is None:
        return
    state = description.codec.decode(data)
    if description.emitted.state.by and isinstance(state, Map):
        yield from state.entries().items()
    else:
        yield None, state


def _has_rows(description: Description, address: Address) -> bool:
    """Return whether a store has a part of the state, and not a copy of another store's part."""
    way = description.plan.way
    if address.role == "root":
        return True
    if address.role == "deferred_outputs" or way == "forked":
        return False
    return keeps_pages(description) or address.number == 0


def _tabulate_columns(kinds: EntryKinds, description: Description, store: KeptStore) -> pa.Table:
    import pyarrow as pa

    from anabranch.microbatch.store.column_entries import read_entries
    from anabranch.microbatch.store.slice_book import read_open_slices

    columns: list[Any]
    if description.form == "windows":
        slices = read_open_slices(description.window_plan, store)
        keys, texts = slices.keys, slices.strings
        columns = list(map(pa.array, show_slices(description, slices).values()))
    else:
        keys, texts, states = read_entries(store, description.entry_layout)
        entries = columns_to_arrow(states, description.codec)
        flat = isinstance(kinds.entry, Record) and kinds.entry.fields
        columns = entries.flatten() if flat else [entries]
    if kinds.key is not None:
        line = pa.array(keys)
        columns.insert(0, line if texts is None else pa.array(list(texts), pa.string()).take(line))
    return pa.table(columns, name_columns(kinds.key, kinds.entry)).cast(make_schema(kinds))


def show_slices(description: Description, slices: WindowSlices) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of slices beside their keys: starts, numbers of events, and parts."""
    plan = description.window_plan
    # The minimum is stored as the maximum of ~x.
    parts = (
        ~array if part.op == "min" else array
        for part, array in zip(plan.parts, slices.parts, strict=True)
    )
    named = zip(plan.columns, parts, strict=True)
    return {"start": slices.starts, "events": slices.events, **dict(named)}
