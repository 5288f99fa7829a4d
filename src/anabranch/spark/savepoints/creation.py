"""Creation of savepoints: the state of a checkpoint at a committed batch, as a folder of Parquet files.

The query may continue meanwhile: each committed batch is a version of the state that does not change. One
task per shard reads and writes the entries; the driver writes everything that is small.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
from anabranch.microbatch.inspect.state_tables import describe_state, list_pairs
from anabranch.microbatch.inspect.stored_state import (
    Address,
    Overview,
    read_overview,
    read_pending,
)
from anabranch.microbatch.job.description import Description
from anabranch.model.events import Event
from anabranch.model.values.maps import Map
from anabranch.paths import resolve_path
from anabranch.savepoints.drafts import Draft, begin_draft, check_is_free
from anabranch.savepoints.file_names import SOURCE_LOGS, STATE
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
from anabranch.spark.checkpoint.ownership import read_begin
from anabranch.spark.checkpoint.state_values import find_batch, find_batches
from anabranch.spark.inspect.state_frames import PENDING, StateView
from anabranch.spark.session.current_session import find_session
from anabranch.state.durable.kinds import describe_values
from anabranch.state.durable.row_tables import to_table
from anabranch.state.evolution.schemas import (
    EntryKinds,
    Schema,
    describe_entries,
    list_entries,
    write_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PATIENCE_S = 0.5
"""The time between two checks whether a watermark has been reached."""


DELTAS = "name rlike '^((shard|root|deferred_outputs):)?(head|description|ledger|deltas)$'"

NOTHING_READ = "-"
"""The offset that Spark writes for a source that has not been read yet."""


def create_savepoint(
    savepoint: str | Path,
    *,
    checkpoint: str | Path,
    batch: int | None = None,
    at: int | None = None,
    wait_s: float = 0.0,
    spark: SparkSession | None = None,
) -> Path:
    """Write the state of a checkpoint into a new folder, atomically; return the folder.

    The state is that of the last committed batch, of `batch`, or of the first batch whose watermark has
    reached `at`, for which the call waits up to `wait_s` seconds. The query may keep running. `spark` is the
    session (default: the active one).
    """
    spark = find_session((), spark)
    place, folder = resolve_path(checkpoint, "checkpoint"), resolve_path(savepoint, "savepoint")
    check_is_free(Path(savepoint))
    number = find_batch(place, batch) if at is None else _wait_for(spark, place, at, wait_s)
    view = StateView(spark, str(place), number)
    description = view.overview.description
    if description.mode != "settled":
        raise SavepointError(
            "a speculative query can't be saved: its outputs may still be retracted",
            expected='mode="settled"',
            got=description.mode,
            cure="run it in settled mode from the start, and save that",
        )
    with begin_draft(folder) as draft:
        state = _write_state(view, draft)
        events = _write_pending(view, draft)
        overview = read_overview(view.collect_stores(DELTAS))
        schema = Schema(state, _describe_deltas(overview), events, declared=description.emitted)
        _write_deltas(overview, schema, draft)
        _copy_source_logs(place, draft)
        manifest = _describe(folder.name, place, number, overview, schema)
        return draft.seal(manifest)


def read_checkpoint(spark: SparkSession, checkpoint: Path) -> Overview:
    """Return the overview of a checkpoint at its last committed batch: everything but the state."""
    return StateView(spark, str(checkpoint), find_batch(checkpoint)).overview


def _wait_for(spark: SparkSession, checkpoint: Path, at: int, wait_s: float) -> int:
    """Return the first committed batch whose watermark has reached a time."""
    deadline = time.monotonic() + wait_s
    while True:
        batches = find_batches(checkpoint)
        if batches and StateView(spark, str(checkpoint), batches[-1]).watermark >= at:
            break
        if time.monotonic() >= deadline:
            reached = StateView(spark, str(checkpoint), batches[-1]).watermark if batches else None
            raise SavepointError(
                f"the watermark has not reached {at}",
                expected=f"a watermark of {at} or more",
                got="no batch yet" if reached is None else f"{reached} with batch {batches[-1]}",
                cure="wait for it with --wait-s SECONDS, or save the last batch, without --at",
            )
        time.sleep(PATIENCE_S)
    low, high = 0, len(batches) - 1
    while low < high:  # Watermarks never decrease.
        middle = (low + high) // 2
        if StateView(spark, str(checkpoint), batches[middle]).watermark >= at:
            high = middle
        else:
            low = middle + 1
    return batches[high]


# --- the state ----------------------------------------------------------------------------------


def _write_state(view: StateView, draft: Draft) -> EntryKinds:
    """Write the state table, each store's part as one file by the task that reads it; return its kinds."""
    import pyarrow as pa

    description = view.overview.description
    if description.plan.way == "shared":
        whole = _gather_shared(view, description)
        found = describe_entries(description.emitted.state, [(None, whole)])
        write_entries(draft, STATE, found, whole, description.codec)
        return found
    kinds, shards = view.kinds, description.plan.shards

    def write(tables: Iterable[tuple[Address, pa.Table]]) -> Iterator[pa.Table]:
        for address, table in tables:
            if len(table):
                number = address.number + (0 if address.role == "shard" else shards)
                draft.write_table(name_part(STATE, number), table)
                yield pa.table({"rows": [len(table)]})

    written = view.map_state(kinds, pa.schema([("rows", pa.int64())]), write).collect()
    return kinds if written else _write_start(description, draft)


def _write_start(description: Description, draft: Draft) -> EntryKinds:
    """Write the initial value of a state without rows; return its kinds."""
    emitted, codec = description.emitted.state, description.codec
    found, pairs = describe_state(description), list[tuple[Any, Any]]()
    if found is None:
        pairs = list_entries(emitted, _find_start(description), codec)
        found = describe_entries(emitted, pairs)
    draft.write_table(name_part(STATE, 0), to_table(found.key, found.entry, pairs, codec))
    return found


def _gather_shared(view: StateView, description: Description) -> Any:
    """Return a state with a part that keys share, with the entries of all shards."""
    stores = view.collect_stores("name rlike '^(shard:)?(head|description|state|entries/.*)$'")
    pairs = (list_pairs(description, address, store) for address, store in stores.items())
    each = Map([pair for some in pairs for pair in some])
    data = stores[min(stores)].read("state")
    start = _find_start(description)
    common = start.common if data is None else description.codec.decode(data)
    return start._replace(common=common, each=each)


def _find_start(description: Description) -> Any:
    return description.codec.decode(bytes.fromhex(description.start))


# --- pending events, deltas and positions -------------------------------------------------------


def _write_pending(view: StateView, draft: Draft) -> dict[str, Any]:
    """Write the pending events; return the kinds of each event type."""
    description = view.overview.description
    by_type: dict[str, list[Event]] = {}
    for address, store in view.collect_stores(PENDING).items():
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


def _describe_deltas(overview: Overview) -> dict[str, EntryKinds]:
    emitted, codec = overview.description.emitted.deltas, overview.description.codec
    found: dict[str, EntryKinds] = {}
    for name, several in overview.deltas.items():
        pairs = [pair for delta in several for pair in list_entries(emitted[name], delta, codec)]
        found[name] = describe_entries(emitted[name], pairs)
    return found


def _write_deltas(overview: Overview, schema: Schema, draft: Draft) -> None:
    """Write the deltas of leaves, one file per shard: only the program can join them."""
    codec = overview.description.codec
    for name, place in place_deltas(schema).items():
        entries = schema.deltas[name]
        for number, delta in enumerate(overview.deltas[name]):
            pairs = list_entries(entries, delta, codec)
            table = to_table(entries.key, entries.entry, pairs, codec)
            draft.write_table(name_part(place, number), table)


def _copy_source_logs(checkpoint: Path, draft: Draft) -> None:
    """Copy the logs of Spark's own sources, such as that of the files that were read."""
    for file in sorted((checkpoint / SOURCE_LOGS).rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            relative = file.relative_to(checkpoint).as_posix()
            draft.add_file(relative, file)


def read_offsets(checkpoint: Path, batch: int) -> tuple[str, ...]:
    """Return the offset of each source after a batch, as Spark writes it."""
    file = checkpoint / "offsets" / str(batch)
    try:
        _, _, *offsets = file.read_text(encoding="utf-8").splitlines()
        for offset in offsets:
            json.loads("null" if offset == NOTHING_READ else offset)
    except (OSError, ValueError) as error:
        raise SavepointError(
            f"{file} can't be read",
            expected="the offset of each source, as Spark wrote it",
            got=str(error),
            cure="`anabranch checkpoint verify` names the files that are damaged",
        ) from error
    return tuple(offsets)


def _describe(
    name: str, checkpoint: Path, batch: int, overview: Overview, schema: Schema
) -> Manifest:
    standings = overview.standings
    watermarks = {channel: standing.watermark for channel, standing in sorted(standings.items())}
    return Manifest(
        name=name,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        anabranch=anabranch.__version__,
        program=overview.description.program,
        runtime="spark",
        fingerprint=dict(overview.made_by),
        watermark=min(watermarks.values()),
        watermarks=watermarks,
        standings=record_standings(standings),
        ledger=LedgerRecord(*overview.ledger),
        clock_ms=overview.clock_ms,
        batch=batch + read_begin(checkpoint).first,
        offsets=read_offsets(checkpoint, batch),
        schema=write_schema(schema),
    )
