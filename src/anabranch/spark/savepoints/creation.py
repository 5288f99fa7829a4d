"""Savepoints of a checkpoint: what its shards hold at a committed batch, as a folder of Parquet.

The query may go on meanwhile: each committed batch is a version of the state that does not change.
Entries are written where they are read, by one task per shard; the driver writes what is small.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
from anabranch.microbatch.columns.arrow_columns import columns_to_arrow, describe_layout
from anabranch.microbatch.inspect.state_tables import name_parts, show_parts
from anabranch.microbatch.inspect.stored_state import (
    Address,
    Overview,
    read_all_slices,
    read_columns,
    read_objects,
    read_overview,
    read_pending,
    sort_stores,
)
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.store.state_store import KeptStore
from anabranch.model.events import Event
from anabranch.model.maps import Map
from anabranch.savepoints.drafts import Draft, begin_draft, check_is_free
from anabranch.savepoints.manifest import (
    LedgerRecord,
    Manifest,
    SavepointError,
    record_standings,
)
from anabranch.savepoints.objects import (
    name_part,
    place_deltas,
    place_events,
    to_pending,
    write_entries,
)
from anabranch.savepoints.paths import SOURCES, STATE
from anabranch.spark.checkpoint.ownership import find_local, read_begin
from anabranch.spark.checkpoint.state_values import find_batch, find_batches, read_values
from anabranch.state.durable import kinds
from anabranch.state.durable.kinds import describe_values, read_kind, unify, unify_all, write_kind
from anabranch.state.durable.row_tables import name_columns, to_table
from anabranch.state.evolution.schemas import (
    EntryKinds,
    Schema,
    describe_entries,
    list_entries,
    write_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 0.5
"""How long to wait before looking again whether a query has come far enough."""


NOTHING_READ = "-"
"""What Spark writes of a source that has brought nothing yet."""


def create_savepoint(
    spark: SparkSession,
    checkpoint: str | Path,
    target: str | Path,
    *,
    batch: int | None = None,
    at: int | None = None,
    wait_s: float = 0.0,
) -> Path:
    """Write what a checkpoint holds into a new folder, whole or not at all; return the folder.

    Of the last committed batch, of `batch`, or of the first whose frontier has reached `at`; for that one
    it waits up to `wait_s` seconds. The query need not stop.
    """
    place = _find_place(checkpoint).absolute()  # Tasks may work in another folder.
    check_is_free(Path(target))
    number = find_batch(place, batch) if at is None else _wait_for(spark, place, at, wait_s)
    values = read_values(spark, place, number)
    overview = _look_over(values)
    description = overview.description
    if description.mode != "settled":
        raise SavepointError(
            "a speculative query can't be saved: what it said may still be taken back",
            expected='mode="settled"',
            got=description.mode,
            cure="run it settled from the start, and save that",
        )
    with begin_draft(Path(target).absolute()) as draft:
        state = _write_state(values, overview, draft)
        events = _write_pending(values, description, draft)
        schema = Schema(state, _describe_deltas(overview), events, declared=description.said)
        _write_deltas(overview, schema, draft)
        _copy_sources(place, draft)
        manifest = _describe(Path(target).name, place, number, overview, schema)
        return draft.seal(manifest)


def read_checkpoint(spark: SparkSession, checkpoint: Path) -> Overview:
    """Return what a checkpoint holds at its last committed batch, but for its pages."""
    return _look_over(read_values(spark, checkpoint, find_batch(checkpoint)))


def _look_over(values: DataFrame) -> Overview:
    small = values.where("NOT name RLIKE '(entries|pending|slices)/'").collect()
    stores = sort_stores((row.operator, row.key, row.name, bytes(row.data)) for row in small)
    return read_overview(stores)


def _find_place(checkpoint: str | Path) -> Path:
    place = find_local(checkpoint)
    if place is None:
        raise SavepointError(
            f"{checkpoint} is not on a file system of this machine",
            expected="a local path, or one that is mounted",
            cure="copy the checkpoint while the query is stopped",
        )
    return place


def find_frontier(spark: SparkSession, checkpoint: Path, batch: int) -> int:
    """Return how far a checkpoint had come with a batch."""
    values = read_values(spark, checkpoint, batch)
    heads = values.where("name RLIKE '(^|:)(head|description)$'").collect()
    stores = sort_stores((row.operator, row.key, row.name, bytes(row.data)) for row in heads)
    standings = read_overview(stores).standings.values()
    return min(standing.frontier for standing in standings)


def _wait_for(spark: SparkSession, checkpoint: Path, at: int, wait_s: float) -> int:
    """Return the first committed batch whose frontier has reached a time."""
    deadline = time.monotonic() + wait_s
    while True:
        batches = find_batches(checkpoint)
        if batches and find_frontier(spark, checkpoint, batches[-1]) >= at:
            break
        if time.monotonic() >= deadline:
            reached = find_frontier(spark, checkpoint, batches[-1]) if batches else None
            raise SavepointError(
                f"the query has not come to {at}",
                expected=f"a frontier of {at} or more",
                got="no batch yet" if reached is None else f"{reached} with batch {batches[-1]}",
                cure="wait for it: --wait-s SECONDS, or take one of the last batch, without --at",
            )
        time.sleep(PATIENCE_S)
    low, high = 0, len(batches) - 1
    while low < high:  # Frontiers never go back.
        middle = (low + high) // 2
        if find_frontier(spark, checkpoint, batches[middle]) >= at:
            high = middle
        else:
            low = middle + 1
    return batches[high]


# --- the state ----------------------------------------------------------------------------------


def _write_state(values: DataFrame, overview: Overview, draft: Draft) -> EntryKinds:
    """Write the state, and return its kinds."""
    description = overview.description
    said = description.said.state
    if description.form == "windows":
        return _write_in_tasks(values, description, draft, describe_slices(description))
    if description.keeps_book:
        key: kinds.Kind = {"int": kinds.INT, "str": kinds.STR, "bool": kinds.BOOL}[
            description.key or "int"
        ]
        entry = describe_layout(description.entry_layout)
        return _write_in_tasks(
            values, description, draft, EntryKinds(said.by, said.lanes, key, entry)
        )
    whole = _gather_shared(values, overview) if description.plan.way == "shared" else None
    whole = _put_together(overview) if whole is None else whole
    pairs = list_entries(said, whole, description.codec)
    found = describe_entries(said, pairs)
    if description.plan.way != "keyed":
        write_entries(draft, STATE, found, whole, description.codec)
        return found
    groups = values.groupBy("operator", "key")
    told = groups.applyInArrow(_make_describer(description), "key string, entry string").collect()
    assert found.key is not None
    key = unify_all([found.key, *(read_kind(json.loads(row.key)) for row in told)])
    entry = unify_all([found.entry, *(read_kind(json.loads(row.entry)) for row in told)])
    found = EntryKinds(said.by, said.lanes, key, entry)
    if pairs:
        table = to_table(key, entry, pairs, description.codec)
        draft.write_table(name_part(STATE, description.plan.shards), table)
    return _write_in_tasks(values, description, draft, found)


def _put_together(overview: Overview) -> Any:
    """Return the state that is not in pages: the only one, the root's, or what roots have of hot keys."""
    description = overview.description
    if not description.plan.has_root:
        return _find_start(description) if overview.state is None else overview.state
    if description.plan.way == "forked":
        return overview.spines[0] if overview.spines else _find_start(description)
    return Map([pair for spine in overview.spines for pair in spine.entries().items()])


def _gather_shared(values: DataFrame, overview: Overview) -> Any:
    """Return a state of which keys share a part, with the entries of all shards in it."""
    description = overview.description
    rows = values.where("name RLIKE '(^|:)(head|description|entries/.*)$'").collect()
    stores = sort_stores((row.operator, row.key, row.name, bytes(row.data)) for row in rows)
    each = Map([pair for store in stores.values() for pair in read_objects(description, store)])
    start = _find_start(description)
    return start._replace(
        common=start.common if overview.state is None else overview.state, each=each
    )


def _find_start(description: Description) -> Any:
    return description.codec.decode(bytes.fromhex(description.start))


def describe_slices(description: Description) -> EntryKinds:
    """Return the kinds of slices of windows: several rows for a key, one for each of its slices."""
    fields = tuple((name, kinds.INT) for name in name_parts(description))
    key = kinds.STR if description.key == "str" else kinds.INT
    by = description.said.state.by
    return EntryKinds(by, None, key if by else None, kinds.Record("Slice", fields))


def _write_in_tasks(
    values: DataFrame, description: Description, draft: Draft, found: EntryKinds
) -> EntryKinds:
    """Let each shard's task write its part, as one file."""
    groups = values.groupBy("operator", "key")
    groups.applyInArrow(_make_writer(description, draft, found), "rows long").collect()
    if not any(draft.folder.glob(f"{STATE}/*")):
        draft.write_table(
            name_part(STATE, 0), to_table(found.key, found.entry, (), description.codec)
        )
    return found


def _make_describer(description: Description) -> Callable[[pa.Table], pa.Table]:
    def describe(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        key: kinds.Kind = kinds.UNKNOWN
        entry: kinds.Kind = kinds.UNKNOWN
        for address, store in _open(table):
            if address.role == "shard":
                for one, value in read_objects(description, store):
                    key = unify(key, describe_values([one]))
                    entry = unify(entry, describe_values([value]))
        return pa.table({"key": [_spell(key)], "entry": [_spell(entry)]})

    return describe


def _make_writer(
    description: Description, draft: Draft, found: EntryKinds
) -> Callable[[pa.Table], pa.Table]:
    def write(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        rows = 0
        for address, store in _open(table):
            alike = description.plan.way == "replicated" and address.number > 0
            if address.role != "shard" or alike:
                continue
            part = make_state_table(description, store, found)
            rows += len(part)
            if len(part):
                draft.write_table(name_part(STATE, address.number), part)
        return pa.table({"rows": pa.array([rows], pa.int64())})

    return write


def make_state_table(description: Description, store: KeptStore, found: EntryKinds) -> pa.Table:
    """Return the entries of a shard as a table."""
    import pyarrow as pa

    codec = description.codec
    if description.form == "windows":
        slices = read_all_slices(description, store)
        texts = slices.strings
        keys: Any = slices.keys if texts is None else [texts[key] for key in slices.keys.tolist()]
        names = name_columns(found.key, found.entry)
        arrays = [*show_parts(description, slices)]
        return pa.table(dict(zip(names, [keys, *arrays] if found.key else arrays, strict=True)))
    if not description.keeps_book:
        return to_table(found.key, found.entry, read_objects(description, store), codec)
    numbers, texts, states = read_columns(description, store)
    if texts is not None:
        line: pa.Array = pa.array(list(texts), pa.string()).take(pa.array(numbers))
    else:
        line = pa.array(numbers.astype(bool) if description.key == "bool" else numbers)
    values = columns_to_arrow(states, codec)
    flat = isinstance(found.entry, kinds.Record) and bool(found.entry.fields)
    columns = values.flatten() if flat else [values]
    return pa.table([line, *columns], names=name_columns(found.key, found.entry))


def _open(table: pa.Table) -> Iterator[tuple[Address, KeptStore]]:
    rows = table.select(["operator", "key", "name", "data"]).to_pydict()
    return iter(sort_stores(zip(*rows.values(), strict=True)).items())


# --- what waits, what was folded apart, and where to go on --------------------------------------


def _write_pending(values: DataFrame, description: Description, draft: Draft) -> dict[str, Any]:
    """Write the events that are not stable yet; return the kinds of each tag's."""
    heads = values.where("name RLIKE '(^|:)(head|description|pending/.*)$'").collect()
    stores = sort_stores((row.operator, row.key, row.name, bytes(row.data)) for row in heads)
    by_tag: dict[str, list[Event]] = {}
    for address, store in stores.items():
        if address.role == "shard":
            for event in read_pending(description, address.number, store):
                by_tag.setdefault(type(event.data).__name__, []).append(event)
    found = {tag: describe_values(e.data for e in by_tag[tag]) for tag in sorted(by_tag)}
    places = place_events(Schema(description.said.state, {}, found))
    for tag, events in by_tag.items():
        table = to_pending(found[tag], events, description.codec)
        draft.write_table(name_part(places[tag], 0), table)
    return found


def _describe_deltas(overview: Overview) -> dict[str, EntryKinds]:
    said, codec = overview.description.said.deltas, overview.description.codec
    found: dict[str, EntryKinds] = {}
    for name, several in overview.deltas.items():
        pairs = [pair for delta in several for pair in list_entries(said[name], delta, codec)]
        found[name] = describe_entries(said[name], pairs)
    return found


def _write_deltas(overview: Overview, schema: Schema, draft: Draft) -> None:
    """Write what leaves have folded, a file for each shard: only a program knows how to join them."""
    codec = overview.description.codec
    for name, place in place_deltas(schema).items():
        entries = schema.deltas[name]
        for number, delta in enumerate(overview.deltas[name]):
            pairs = list_entries(entries, delta, codec)
            table = to_table(entries.key, entries.entry, pairs, codec)
            draft.write_table(name_part(place, number), table)


def _copy_sources(checkpoint: Path, draft: Draft) -> None:
    """Copy the logs that Spark's own sources keep, such as which files were read."""
    for file in sorted((checkpoint / SOURCES).rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            relative = file.relative_to(checkpoint).as_posix()
            draft.add_file(relative, file)


def read_offsets(checkpoint: Path, batch: int) -> tuple[str, ...]:
    """Return how far each of Spark's sources was read with a batch, as Spark writes it."""
    file = checkpoint / "offsets" / str(batch)
    try:
        _, _, *offsets = file.read_text(encoding="utf-8").splitlines()
        for offset in offsets:
            json.loads("null" if offset == NOTHING_READ else offset)
    except (OSError, ValueError) as error:
        raise SavepointError(
            f"{file} can't be read",
            expected="how far each source was read, as Spark wrote it",
            got=str(error),
            cure="`anabranch checkpoint verify` names what is damaged",
        ) from error
    return tuple(offsets)


def _describe(
    name: str, checkpoint: Path, batch: int, overview: Overview, schema: Schema
) -> Manifest:
    standings = overview.standings
    frontiers = {source: standing.frontier for source, standing in sorted(standings.items())}
    return Manifest(
        name=name,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        anabranch=anabranch.__version__,
        program=overview.description.program,
        runtime="spark",
        fingerprint=dict(overview.made_by),
        frontier=min(frontiers.values()),
        frontiers=frontiers,
        standings=record_standings(standings),
        ledger=LedgerRecord(*overview.ledger),
        clock_ms=overview.clock_ms,
        batch=batch + read_begin(checkpoint).first,
        offsets=read_offsets(checkpoint, batch),
        schema=write_schema(schema),
    )


def _spell(kind: Any) -> str:
    return json.dumps(write_kind(kind))
