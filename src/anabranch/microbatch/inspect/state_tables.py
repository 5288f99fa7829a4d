"""Relations: what a store holds as rows, one for each key, typed as far as its values are.

A keyed state has a column `key` and one for each field of its entries, or `value` if they have none;
windows by columns have a row for each key and slice; a state without entries is one row. Deltas that no
marker has joined to the state yet are not in it, nor is the part that keys share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.eventtime.channels import NEVER
from anabranch.microbatch.columns.arrow_columns import columns_to_arrow, describe_layout
from anabranch.microbatch.columns.window_slices import WindowSlices
from anabranch.microbatch.inspect.stored_state import (
    Address,
    read_all_slices,
    read_columns,
    read_objects,
)
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.state_store import KeptStore
from anabranch.model.events import FOREVER
from anabranch.model.maps import Map
from anabranch.state.durable.kinds import (
    BOOL,
    INT,
    STR,
    UNKNOWN,
    Kind,
    Record,
    describe_values,
    read_kind,
    unify,
    write_kind,
)
from anabranch.state.durable.row_tables import name_columns, to_table
from anabranch.state.durable.value_columns import arrow_type

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_KEYS: dict[str | None, Kind] = {"int": INT, "str": STR, "bool": BOOL}


@dataclass(frozen=True)
class Relation:
    """The kinds of a state's rows: of a key, if there are keys, and of an entry."""

    key: Kind | None
    entry: Kind

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return name_columns(self.key, self.entry)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns and their types."""
        import pyarrow as pa

        kinds = [] if self.key is None else [self.key]
        if isinstance(self.entry, Record) and self.entry.fields:
            kinds += [kind for _, kind in self.entry.fields]
        else:
            kinds.append(self.entry)
        types = map(arrow_type, kinds)
        return pa.schema(list(zip(self.columns, types, strict=True)))

    def unify(self, other: Relation) -> Relation:
        """Return what holds the rows of both."""
        key = None if self.key is None or other.key is None else unify(self.key, other.key)
        return Relation(key, unify(self.entry, other.entry))

    def write(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        key = None if self.key is None else write_kind(self.key)
        return {"key": key, "entry": write_kind(self.entry)}

    @classmethod
    def read(cls, data: dict[str, Any]) -> Relation:
        """Return what was written."""
        key = None if data["key"] is None else read_kind(data["key"])
        return cls(key, read_kind(data["entry"]))


def is_keyed(description: Description) -> bool:
    """Say whether the state has entries; of one that keys share a part of, its rows are the entries."""
    return bool(description.said.state.by) or description.plan.way == "shared"


def keeps_pages(description: Description) -> bool:
    """Say whether shards keep entries of their own."""
    return description.plan.way in ("keyed", "shared")


def describe_state(description: Description) -> Relation | None:
    """Return the kinds of a state's rows, if its description alone says them."""
    if description.form == "windows":
        return _describe_slices(description)
    if description.keeps_book:
        return Relation(_KEYS[description.key], describe_layout(description.entry_layout))
    return None


def describe_store(description: Description, address: Address, store: KeptStore) -> Relation:
    """Return the kinds of a store's rows, as its values have them."""
    known = describe_state(description)
    if known is not None:
        return known
    pairs = list(list_pairs(description, address, store))
    key = describe_values(key for key, _ in pairs) if is_keyed(description) else None
    return Relation(key, describe_values(entry for _, entry in pairs))


def tabulate_store(
    relation: Relation, description: Description, address: Address, store: KeptStore
) -> pa.Table:
    """Return the rows of a store, none if others have them."""
    if description.form == "windows":
        return _tabulate_slices(relation, description, store)
    if description.keeps_book:
        if not _has_rows(description, address):
            return relation.schema.empty_table()
        return _tabulate_book(relation, description, store)
    pairs = list_pairs(description, address, store)
    return to_table(relation.key, relation.entry, pairs, description.codec)


def list_pairs(
    description: Description, address: Address, store: KeptStore
) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and entries of a store that keeps objects; one without a key if it has none."""
    if not _has_rows(description, address):
        return
    if address.role == "shard" and keeps_pages(description):
        yield from read_objects(description, store)
        return
    data = store.read("spine" if address.role == "root" else "state")
    if data is None:
        return
    state = description.codec.decode(data)
    if description.said.state.by and isinstance(state, Map):
        yield from state.entries().items()
    else:
        yield None, state


def _has_rows(description: Description, address: Address) -> bool:
    """Say whether a store holds a part of the state, and not a copy of what another one holds."""
    way = description.plan.way
    if address.role == "root":
        return True
    if address.role == "speaker" or way == "forked":
        return False
    return keeps_pages(description) or address.number == 0


def _tabulate_book(relation: Relation, description: Description, store: KeptStore) -> pa.Table:
    import pyarrow as pa

    keys, texts, states = read_columns(description, store)
    key = pa.array(keys)
    if texts is not None:
        key = pa.array(list(texts), pa.string()).take(key)
    elif relation.key == BOOL:
        key = key.cast(pa.bool_())
    entries = columns_to_arrow(states, description.codec)
    fields = isinstance(relation.entry, Record) and bool(relation.entry.fields)
    columns = entries.flatten() if fields else [entries]
    return pa.table([key, *columns], names=relation.columns).cast(relation.schema)


def name_parts(description: Description) -> list[str]:
    """Return the columns of a slice beside its key: when it starts, how many events, and its parts."""
    return ["start", "events", *description.window_plan.columns]


def _describe_slices(description: Description) -> Relation:
    names = name_parts(description)
    key = None if description.window_plan.key is None else _KEYS[description.key]
    return Relation(key, Record("Slice", tuple((name, INT) for name in names)))


def _tabulate_slices(relation: Relation, description: Description, store: KeptStore) -> pa.Table:
    slices = find_open(description, store)
    import pyarrow as pa

    columns = [pa.array(array) for array in show_parts(description, slices)]
    if relation.key is not None:
        keys = pa.array(slices.keys)
        if slices.strings is not None:
            keys = pa.array(list(slices.strings), pa.string()).take(keys)
        columns.insert(0, keys)
    return pa.table(columns, names=relation.columns).cast(relation.schema)


def find_open(description: Description, store: KeptStore) -> WindowSlices:
    """Return the slices that a window still needs which has not been said."""
    return drop_closed(
        description, read_all_slices(description, store), read_closed(description, store)
    )


def read_closed(description: Description, store: KeptStore) -> int:
    """Return up to when windows have been said."""
    data = store.read("windows")
    return NEVER if data is None else int(description.codec.decode(data)[0])


def drop_closed(description: Description, slices: WindowSlices, closed: int) -> WindowSlices:
    """Return the slices that lie in a window which ends after `closed`."""
    plan = description.window_plan
    if plan.gap is not None or closed == NEVER:
        return slices
    if closed >= FOREVER:
        return slices.take(slices.starts[:0])
    open_from = closed - plan.size + 2
    open_from += (plan.offset - open_from) % plan.every
    return slices.take((slices.starts >= open_from).nonzero()[0])


def show_parts(description: Description, slices: WindowSlices) -> Iterable[np.ndarray[Any, Any]]:
    """Yield the columns that `name_parts` names."""
    yield slices.starts
    yield slices.events
    for part, array in zip(description.window_plan.parts, slices.parts, strict=True):
        # The least is kept as the largest from the other side.
        yield ~array if part.op == "min" else array


def unify_relations(relations: Iterable[Relation]) -> Relation:
    """Return what holds the rows of all; columns of nothing if there are none."""
    found: Relation | None = None
    for relation in relations:
        found = relation if found is None else found.unify(relation)
    return Relation(None, UNKNOWN) if found is None else found
