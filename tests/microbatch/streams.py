"""Inputs as files and frames, for tests on Spark."""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from anabranch import Heartbeat, Program
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.exchange.result_rows import encode_json, identify
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.model.events import Item, Malformed, field_types
from anabranch.model.targets import load, load_module
from anabranch.reference.sequential import run as fold
from anabranch.sources.files import Files
from anabranch.spark import Frame

SQL_TYPES = {int: "long", float: "double", str: "string", bool: "boolean"}


class Stream:
    """What a program's channels bring, as rows of one table."""

    def __init__(
        self, program: Program, channels: Sequence[Channel], items: Sequence[Item]
    ) -> None:
        self.program = program
        self.channels = tuple(channels)
        self.items = list(items)

    @property
    def numbered(self) -> bool:
        """Say whether the channels have a sequence; a table has one for all of them or for none."""
        return all(item.seq is not None for item in self.items if not isinstance(item, Heartbeat))

    @property
    def schema(self) -> str:
        types = {"channel": "string", "type": "string", "seq": "long", "heartbeat": "long"}
        for event_type in self.program.inputs:
            types |= {name: SQL_TYPES[hint] for name, hint in field_types(event_type).items()}
        return ", ".join(f"{name} {kind}" for name, kind in types.items())

    def rows(self) -> list[dict[str, Any]]:
        return [to_row(item) for item in self.items]

    def source(self, frame) -> list[Frame]:
        return [
            Frame(
                frame,
                type_column="type",
                channel_column="channel",
                channels=self.channels,
                seq="seq" if self.numbered else None,
                heartbeat="heartbeat",
            )
        ]

    def files(self, folder: Path) -> Files:
        """Return the files that `write` writes as a source; each file is a batch."""
        return Files(
            folder,
            format="json",
            files_per_batch=1,
            type_column="type",
            channel_column="channel",
            channels=self.channels,
            seq="seq" if self.numbered else None,
            heartbeat="heartbeat",
        )

    def write(self, folder: Path, parts: Sequence[Sequence[Item]], start: int = 0) -> None:
        """Write parts of the input as files that Spark reads in this order."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, part in enumerate(parts, start):
            file = folder / f"{number:04}.json"
            file.write_text("".join(json.dumps(to_row(item)) + "\n" for item in part))
            # Spark's file source goes by the time of change.
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    def cut(self, rng, most: int) -> list[list[Item]]:
        """Cut the input into parts, each channel in its own order, interleaved at random."""
        queues: dict[str, list[Item]] = {}
        for item in self.items:
            queues.setdefault(item.channel, []).append(item)
        if self.numbered:
            for queue in queues.values():
                queue.sort(key=lambda item: (item.seq, isinstance(item, Heartbeat)))
        parts: list[list[Item]] = []
        while any(queues.values()):
            last = len(parts) == most - 1
            part = []
            for queue in queues.values():
                size = len(queue) if last else rng.randint(0, len(queue))
                part += queue[:size]
                del queue[:size]
            if part:
                parts.append(part)
        return parts


class Story(Stream):
    """An example, its input, and the answer that every runtime must give."""

    def __init__(self, name: str) -> None:
        module = load_module(f"examples/{name}.py")
        items = end_channels(module.events, channels=module.channels)
        super().__init__(load(f"examples/{name}.py"), module.channels, items)
        self.answer = fold(self.program, self.items, self.channels)

    def expected(self) -> list[tuple[str, str]]:
        outputs = self.answer.outputs
        return sorted((f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in outputs)


def to_row(item: Item) -> dict[str, Any]:
    """Return an item as a row: of a heartbeat the time it promises, of an event its fields."""
    if isinstance(item, Malformed):
        return dict(item.raw)
    row = {"channel": item.channel, "seq": item.seq}
    if isinstance(item, Heartbeat):
        return row | {"heartbeat": item.time}
    data = item.data
    fields = dataclasses.asdict(data) if dataclasses.is_dataclass(data) else data._asdict()
    return row | {"type": type(data).__name__} | fields


class PublishedRow(NamedTuple):
    """A row of a published batch, with what its id tells, and its output as JSON."""

    kind: str
    batch: int
    id: str
    time: int | None
    channel: str | None
    seq: int | None
    value: str | None
    event: str | None
    reason: str | None
    op: int
    distance: int | None


def read_published(folder: Path, program: Program) -> list[PublishedRow]:
    """Return all rows of the batches in a folder, without Spark."""
    rows = []
    for place in sorted(folder.glob("batch=*"), key=lambda path: int(path.name[6:])):
        batch = int(place.name[6:])
        for kind in ("outputs", "late", "rejected"):
            for file in sorted((place / kind).glob("part-*")):
                rows += [_read_row(kind, batch, row, program) for row in _read_file(file)]
    return rows


def _read_file(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".json":
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return pq.ParquetFile(file).read().to_pylist()


def _read_row(kind: str, batch: int, row: dict[str, Any], program: Program) -> PublishedRow:
    if kind != "outputs":
        event = row["event" if kind == "late" else "raw"]
        about = (row.get(name) for name in ("id", "time", "channel", "seq"))
        return PublishedRow(kind, batch, *about, None, event, row["reason"], 1, row.get("distance"))
    columns = OutputColumns(program.output_types)
    name, time, op = (row[own] for own in columns.own)
    (_, _, channel, seq, *_), _ = read_id(name)
    value = encode_json(columns.describe(row))
    seq = None if seq < 0 else seq
    return PublishedRow("output", batch, name, time, channel, seq, value, None, None, op, None)


def outputs_of(rows) -> list[tuple[str, str]]:
    return sorted((row.id, row.value) for row in rows if row.kind == "output")
