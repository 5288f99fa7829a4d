"""Writing snapshots to folders and reading them, with states as Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anabranch
from anabranch.model.events import Event
from anabranch.model.order import order_key
from anabranch.model.program import Program
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.drafts import Draft, begin_draft
from anabranch.savepoints.file_names import DELTAS, PENDING, STATE, name_folders
from anabranch.savepoints.folders import Savepoint, open_savepoint
from anabranch.savepoints.manifest import (
    LedgerRecord,
    Manifest,
    SavepointError,
    record_standings,
)
from anabranch.savepoints.open_windows import judge_windows
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.savepoints.snapshot import Snapshot
from anabranch.state.durable.codec import Codec, make_codec
from anabranch.state.durable.kinds import Kind
from anabranch.state.durable.row_tables import from_table, name_columns, to_table
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.schemas import (
    EntryKinds,
    Schema,
    describe_program,
    describe_snapshot,
    list_entries,
    make_state,
    read_schema,
    write_schema,
)
from anabranch.state.evolution.verdicts import REFUSED

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 100_000
"""The default number of rows in a file."""

Runtime = Literal["reference", "spark"]


def write_snapshot(
    snapshot: Snapshot,
    program: Program,
    folder: Path | str,
    *,
    made_at: datetime | None = None,
    runtime: Runtime = "reference",
    batch: int | None = None,
    offsets: Sequence[str] = (),
    rows: int = ROWS,
) -> Path:
    """Write a snapshot atomically to a new folder; return the folder."""
    data = [event.data for event in snapshot.pending]
    schema = describe_snapshot(program, snapshot.state, snapshot.deltas, data)
    codec = make_codec(program)
    manifest = describe_savepoint(
        Path(folder).name, program, snapshot, schema,
        made_at=made_at, runtime=runtime, batch=batch, offsets=offsets,
    )  # fmt: skip
    with begin_draft(folder) as draft:
        write_entries(draft, STATE, schema.state, snapshot.state, codec, rows)
        for name, place in place_deltas(schema).items():
            write_entries(draft, place, schema.deltas[name], snapshot.deltas[name], codec, rows)
        for event_type, place in place_events(schema).items():
            events = [
                event for event in snapshot.pending if type(event.data).__name__ == event_type
            ]
            for number, part in enumerate(_cut(events, rows)):
                table = to_pending(schema.events[event_type], part, codec)
                draft.write_table(name_part(place, number), table)
        return draft.seal(manifest)


def read_snapshot(folder: Path | str, program: Program) -> Snapshot:
    """Return the snapshot in a savepoint, for the program that made it or one that can migrate its state.

    A path that ends in `latest` is the newest savepoint in its folder.
    """
    savepoint = open_savepoint(find_savepoint(folder))
    manifest = savepoint.manifest
    check_windows(manifest, program)
    if manifest.fingerprint.get("mode", "settled") != "settled":
        raise SavepointError(
            "the savepoint was made in speculative mode",
            expected="a savepoint of a settled run: the reference emits each output once",
            got="one whose outputs of pending events were emitted before",
            cure="restore it with `anabranch savepoint restore`, and run that in speculative mode",
        )
    schema = read_schema(manifest.schema)
    same = schema.promise == describe_program(program)
    migration = None if same else Migration(schema, program)
    codec = make_codec(program) if migration is None else migration.codec
    state = read_entries(savepoint, savepoint.list_tables(STATE), schema.state, codec)
    # Each part is a separate delta, folded by one shard.
    deltas = {
        name: [
            read_entries(savepoint, [relative], schema.deltas[name], codec)
            for relative in savepoint.list_tables(place)
        ]
        for name, place in place_deltas(schema).items()
    }
    pending = [
        event
        for event_type, place in place_events(schema).items()
        for event in read_pending(savepoint, place, schema.events[event_type], codec)
    ]
    if len(pending) != manifest.ledger.pending:
        counted = f"{manifest.ledger.pending} events, as in the ledger"
        raise _mismatch(savepoint, PENDING, str(len(pending)), counted)
    if migration is not None:
        state = migration.migrate_state(state)
        deltas = {
            name: [migration.migrate_delta(name, delta) for delta in several]
            for name, several in deltas.items()
        }
        pending = [one._replace(data=migration.migrate_event(one.data)) for one in pending]
    return Snapshot(
        state,
        {name: _join(program, name, several) for name, several in deltas.items()},
        tuple(sort_pending(program, pending)),
        manifest.list_standings(),
        manifest.list_ledger(),
        manifest.clock_ms,
    )


def _join(program: Program, name: str, several: list[Any]) -> Any:
    join = program.state_type(name).shape.join
    return several[0] if join is None else reduce(join, several)


def describe_savepoint(
    name: str,
    program: Program,
    snapshot: Snapshot,
    schema: Schema,
    *,
    made_at: datetime | None = None,
    runtime: Runtime = "reference",
    batch: int | None = None,
    offsets: Sequence[str] = (),
) -> Manifest:
    """Return the manifest of a snapshot, without its files."""
    return Manifest(
        name=name,
        made_at=(made_at or datetime.now(UTC)).astimezone(UTC).isoformat(),
        anabranch=anabranch.__version__,
        program=program.name,
        runtime=runtime,
        fingerprint=fingerprint_program(program),
        watermark=snapshot.watermark,
        watermarks={name: one.watermark for name, one in sorted(snapshot.standings.items())},
        standings=record_standings(snapshot.standings),
        ledger=LedgerRecord(*snapshot.ledger),
        clock_ms=snapshot.clock_ms,
        batch=batch,
        offsets=tuple(offsets),
        schema=write_schema(schema),
    )


def check_windows(manifest: Manifest, program: Program) -> None:
    """Raise if a program's windows can't continue the open windows of a savepoint."""
    refused = [v for v in judge_windows(manifest.fingerprint, program) if v.status == REFUSED]
    if refused:
        old, new = manifest.fingerprint.get("windows", ""), fingerprint_program(program)["windows"]
        reasons = [f"{v.place.removeprefix('windows, ')} {v.what}" for v in refused]
        grown = refused[0].place != "windows"
        raise SavepointError(
            "this savepoint was made with other windows",
            where=program.name,
            expected=old or "no windows",
            got="; ".join(reasons) if grown else new or "no windows",
            cure=refused[0].cure,
        )


def place_deltas(schema: Schema) -> dict[str, str]:
    """Return the folder of each state type's deltas."""
    return {name: f"{DELTAS}/{folder}" for name, folder in name_folders(schema.deltas).items()}


def place_events(schema: Schema) -> dict[str, str]:
    """Return the folder of each event type's pending events."""
    return {
        event_type: f"{PENDING}/{folder}"
        for event_type, folder in name_folders(schema.events).items()
    }


def name_part(folder: str, number: int) -> str:
    """Return the path of a part of a table."""
    return f"{folder}/part-{number:05}.parquet"


def write_entries(
    draft: Draft, folder: str, entries: EntryKinds, state: Any, codec: Codec, rows: int = ROWS
) -> None:
    """Write the entries of a state; an empty state is a table without rows."""
    pairs = list_entries(entries, state, codec)
    for number, part in enumerate(_cut(pairs, rows) if pairs else [[]]):
        table = to_table(entries.key, entries.entry, part, codec)
        draft.write_table(name_part(folder, number), table)


def read_entries(
    savepoint: Savepoint, tables: Sequence[str], entries: EntryKinds, codec: Codec
) -> Any:
    """Return the state in tables."""
    pairs: list[tuple[Any, Any]] = []
    folder = tables[0].rpartition("/")[0] if tables else STATE
    for relative in tables:
        with _reading(savepoint, relative):
            table = savepoint.read_table(relative)
            _check_columns(table, to_table(entries.key, entries.entry, (), codec))
            pairs += from_table(entries.key, entries.entry, table, codec.records, codec)
    if not entries.by and len(pairs) != 1:
        raise _mismatch(savepoint, folder, f"{len(pairs)} rows", "one row, the state")
    state = make_state(entries, pairs)
    if entries.by and len(state) != len(pairs):
        got = f"{len(pairs)} rows of {len(state)} keys"
        raise _mismatch(savepoint, folder, got, "one row for each key")
    return state


def _check_columns(table: pa.Table, empty: pa.Table) -> None:
    """Raise if the columns of a table differ from those of an empty one of its kind."""
    found, expected = ({field.name: field.type for field in one.schema} for one in (table, empty))
    if found != expected:
        raise ValueError(f"columns {_spell(found)} instead of {_spell(expected)}")


def _spell(columns: dict[str, Any]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


@contextmanager
def _reading(savepoint: Savepoint, relative: str) -> Iterator[None]:
    try:
        yield
    except SavepointError:
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise _mismatch(savepoint, relative, got, "the columns of its schema") from error


def _mismatch(savepoint: Savepoint, relative: str, got: str, expected: str) -> SavepointError:
    return SavepointError(
        f"{relative} does not match the manifest",
        where=str(savepoint.path),
        expected=expected,
        got=got,
    )


def to_pending(kind: Kind, events: Iterable[Event], codec: Codec) -> pa.Table:
    """Return pending events of one type as a table: channel, sequence number, then their fields."""
    import pyarrow as pa

    events = list(events)
    fields = to_table(None, kind, [(None, event.data) for event in events], codec)
    channel, seq = _name_origin(kind)
    table = fields.add_column(0, seq, pa.array([e.seq for e in events], pa.int64()))
    return table.add_column(0, channel, pa.array([e.channel for e in events], pa.string()))


def read_pending(savepoint: Savepoint, folder: str, kind: Kind, codec: Codec) -> Iterator[Event]:
    """Yield the pending events of one event type."""
    origin = _name_origin(kind)
    for relative in savepoint.list_tables(folder):
        with _reading(savepoint, relative):
            table = savepoint.read_table(relative)
            _check_columns(table, to_pending(kind, (), codec))
            channels, seqs = (table.column(name).to_pylist() for name in origin)
            fields = table.drop_columns(list(origin))
            pairs = from_table(None, kind, fields, codec.records, codec)
        for channel, seq, (_, data) in zip(channels, seqs, pairs, strict=True):
            if channel not in savepoint.manifest.standings:
                raise _mismatch(savepoint, relative, repr(channel), "events of its channels")
            yield Event(data, channel, seq)


def sort_pending(program: Program, events: Iterable[Event]) -> list[Event]:
    """Return pending events by channel, each in its own sequence, or without numbers in the total order."""

    def place(event: Event) -> tuple[Any, ...]:
        order = order_key(event, program.ranks) if event.seq is None else ()
        return (event.channel, event.seq if event.seq is not None else -1, *order)

    return sorted(events, key=place)


def _name_origin(kind: Kind) -> tuple[str, str]:
    """Return the names of the channel and sequence columns, with `@` if a field has that name."""
    taken = name_columns(None, kind)
    channel, seq = ("@" + name if name in taken else name for name in ("channel", "seq"))
    return channel, seq


def _cut(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    waiting = iter(rows)
    while part := list(islice(waiting, size)):
        yield part
