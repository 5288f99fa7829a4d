"""Rates: the events per second of each slice, by machine. Declared, sampled from events, or measured."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

from anabranch.errors import InputError
from anabranch.model.events import LANE, Event, EventType, field_names
from anabranch.model.markers import orders_itself
from anabranch.model.program import Program
from anabranch.model.slices import Shard, Slice, take
from anabranch.model.values.hashing import hash_stably


@dataclass(frozen=True)
class Load:
    """A slice (an implementation tag of Flumina), its events per second, and the machine they arrive at."""

    slice: Slice
    rate: float = 1.0
    machine: str = "local"

    def __str__(self) -> str:
        return f"{self.slice} {self.rate:g}/s at {self.machine}"


@dataclass(frozen=True)
class Rates:
    """All loads of a program. Equal slices at one machine are added up."""

    loads: tuple[Load, ...]

    def __init__(self, loads: Iterable[Load]) -> None:
        summed: dict[tuple[Slice, str], float] = {}
        for load in loads:
            if not 0 <= load.rate < inf:
                raise InputError(
                    f"the rate of {load.slice} is not a number of events per second",
                    expected="0 or more, and finite",
                    got=f"{load.rate:g}/s",
                )
            place = (load.slice, load.machine)
            summed[place] = summed.get(place, 0.0) + load.rate
        if not summed:
            raise InputError("there are no rates", expected="at least one slice that arrives")
        object.__setattr__(
            self, "loads", tuple(Load(s, rate, m) for (s, m), rate in summed.items())
        )

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the machines at which events arrive, in order of first mention."""
        return tuple(dict.fromkeys(load.machine for load in self.loads))

    @property
    def total(self) -> float:
        """Return the total of events per second."""
        return sum(load.rate for load in self.loads)


def assume_rates(program: Program, channels: Mapping[type, Sequence[str]] | None = None) -> Rates:
    """Return default rates: 1 a second for markers, 100 a second for other event types."""
    channels = channels or {}
    return Rates(
        Load(
            take(event_type, channel=channel),
            1.0 if event_type in program.markers else 100.0,
            channel or "local",
        )
        for event_type in program.event_types
        for channel in (*channels.get(event_type, ()),) or (None,)
    )


def declare_rates(program: Program, rows: Iterable[Mapping[str, Any]]) -> Rates:
    """Read rates as a user declares them: `{"type": "Inc", "key": 1, "rate": 100, "machine": "E1"}`.

    A row may name a channel, and a lane or a field as `"2/8"`: shard 2 of 8.
    """
    loads = []
    for row in rows:
        try:
            loads.append(_read_row(program, row))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                "a rate can't be read",
                expected='{"type": "Inc", "key": 1, "channel": "s1", "rate": 100, "machine": "E1"}',
                got=f"{row!r} ({error})",
            ) from error
    return Rates(loads)


def _read_row(program: Program, row: Mapping[str, Any]) -> Load:
    fields = {k: v for k, v in row.items() if k not in ("type", "rate", "machine", "channel")}
    cut = {name: _read_choice(value) for name, value in fields.items()}
    part = take(program.event_type(row["type"]), channel=row.get("channel"), **cut)
    hash(part)  # Fails here, with the row in the message, if a value such as a list can't be a key.
    return Load(part, float(row["rate"]), str(row.get("machine", "local")))


def read_rates(program: Program, path: str) -> Rates:
    """Read rates from a JSON file: declared as a list of rows, or a streaming query's progress."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"rates can't be read from {path}", got=str(error)) from error
    if isinstance(rows, dict) and "sources" in rows:
        return measure_rates(program, rows)
    if not isinstance(rows, list):
        raise InputError(f"{path} is not a list of rates", expected="a JSON list", got=str(rows))
    return declare_rates(program, rows)


def sample_rates(
    program: Program, events: Iterable[Event], *, most_keys: int = 64, shards: int = 16
) -> Rates:
    """Return rates counted from a sample of events by event type, channel and partitioning fields.

    Up to `most_keys` distinct keys have a slice each; more of them share `shards` shards. Each channel
    is assumed to be a machine of its own.
    """
    sample = [event for event in events if isinstance(event, Event)]
    if not sample:
        raise InputError("there are no events to sample rates from")
    fields = partition_fields(program)
    times = [event.time for event in sample]
    span = max(1, max(times) - min(times) + 1)
    keys = {tuple(_key(event, fields)) for event in sample}
    loads: Counter[tuple[Slice, str]] = Counter()
    for event in sample:
        cut: dict[str, Any] = {}
        for name, value in _key(event, fields):
            few = len(keys) <= most_keys
            cut[name] = value if few else Shard(hash_stably(value) % shards, shards)
        loads[take(event.event_type, channel=event.channel, **cut), event.channel] += 1
    return Rates(Load(part, count / span, machine) for (part, machine), count in loads.items())


def measure_rates(program: Program, progress: Mapping[str, Any]) -> Rates:
    """Read rates from a streaming query's progress, as Spark reports it.

    Each source of the progress is identified by its description; the event type is the one whose name begins
    a word of it (`values` means Value). The rate of a source that names no event type is divided among all.
    """
    loads = []
    for source in progress.get("sources", ()):
        name = str(source.get("description", "input"))
        named = _find_named(program, name)
        rate = float(source.get("inputRowsPerSecond") or source.get("processedRowsPerSecond") or 0)
        event_types = named or program.event_types
        loads += [
            Load(take(event_type), rate / len(event_types), "local") for event_type in event_types
        ]
    if not loads:
        raise InputError(
            "the progress names no sources",
            expected='{"sources": [{"description": …, "inputRowsPerSecond": …}]}',
            got=", ".join(progress) or "nothing",
        )
    return Rates(loads)


def _find_named(program: Program, description: str) -> list[EventType]:
    """Return the event types that a description names; `readings` means Reading, and not also Read."""
    found: dict[EventType, None] = {}
    for word in re.findall(r"\w+", description.lower()):
        begun = [
            event_type
            for event_type in program.event_types
            if word.startswith(event_type.__name__.lower())
        ]
        if begun:
            found[max(begun, key=lambda event_type: len(event_type.__name__))] = None
    return list(found)


def spread_hot(program: Program, rates: Rates, capacity: float) -> Rates:
    """Return rates with each slice that exceeds one node's capacity cut into lanes.

    Only events that are independent of each other can be spread. Canonical lanes limit the number.
    """
    spread: list[Load] = []
    for load in rates.loads:
        lanes = min(ceil(load.rate / capacity), program.lanes or 1024)
        # Canonical lanes order events within a lane, which is no obstacle to cutting by lane.
        free = not orders_itself(program.dependence, load.slice.event_type)
        if lanes < 2 or not free or load.slice.choice(LANE) is not None:
            spread.append(load)
            continue
        for lane in range(lanes):
            where = tuple(sorted((*load.slice.where, (LANE, Shard(lane, lanes)))))
            spread.append(
                replace(load, slice=replace(load.slice, where=where), rate=load.rate / lanes)
            )
    return Rates(spread)


def partition_fields(program: Program) -> tuple[str, ...]:
    """Return every field that some dependence requires to be equal."""
    found: dict[str, None] = {}
    for a in program.event_types:
        for b in program.event_types:
            for same in program.dependence.restrictions(a, b):
                found.update(dict.fromkeys(field for field in same if field != LANE))
    return tuple(found)


def _key(event: Event, fields: tuple[str, ...]) -> list[tuple[str, Any]]:
    known = field_names(event.event_type)
    return [(name, getattr(event.data, name)) for name in fields if name in known]


def _read_choice(value: Any) -> Any:
    if isinstance(value, str) and value.replace("/", "", 1).isdigit() and "/" in value:
        index, count = value.split("/")
        return Shard(int(index), int(count))
    return value
