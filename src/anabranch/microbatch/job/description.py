"""Descriptions: the schema of a state, stored beside it, so that it can be read without its program.

A shard writes its description with its first batch. Queries and savepoints of a checkpoint read from it
the names of fields, the forms of columns, and which shard counts an event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from anabranch.kernels.column_layouts import (
    CARRIED,
    ENUM,
    CarriedColumn,
    ColumnLayout,
    Constant,
    EnumColumn,
    Fields,
    Leaf,
    OptionalColumn,
    part_names,
)
from anabranch.microbatch.job.window_plan import SlicePart, WindowPlan
from anabranch.model.events import EventType, field_names, field_types
from anabranch.model.values.event_times import NAMED, time_field
from anabranch.plan.layouts import Layout
from anabranch.state.durable.codec import Codec, name_record
from anabranch.state.durable.record_stand_ins import make_stand_in
from anabranch.state.evolution.schemas import Schema, describe_program, read_schema, write_schema

if TYPE_CHECKING:
    from anabranch.microbatch.job.job import Job

Form = Literal["objects", "columns", "windows"]
"""How a state is stored in pages: as objects, in columns, or as slices of windows."""


@dataclass(frozen=True)
class Description:
    """The schema of a shard's state, in plain values."""

    program: str
    mode: str
    form: Form
    by: tuple[str, ...]
    key: str | None
    """The type of the outermost key if it is a column: int, str or bool."""
    event_types: list[str]
    timers: list[str]
    schema: dict[str, Any]
    """The program's declaration of its state, as `state.schemas` writes it."""
    layout: dict[str, Any]
    channels: list[str]
    start: str
    """The initial value of a state without entries in shards, in the codec's bytes."""
    layouts: list[Any] = field(default_factory=list)
    entry: Any = None
    windows: dict[str, Any] | None = None
    times: dict[str, str] = field(default_factory=dict)
    """The field that is the time of events of an event type, if its name is not `time`."""
    version: int = 1

    def write(self) -> bytes:
        """Return the description as bytes."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, data: bytes) -> Description:
        """Return the description that `write` wrote."""
        found = json.loads(data)
        return cls(**{**found, "by": tuple(found["by"])})

    @cached_property
    def emitted(self) -> Schema:
        """Return the program's declaration of its state."""
        return read_schema(self.schema)

    @cached_property
    def classes(self) -> dict[str, type]:
        """Return a stand-in for each record and each enum, by name, with the same fields."""
        found = {name: make_stand_in(kind) for name, kind in self.emitted.records.items()}
        for name, time in self.times.items():
            setattr(found[name], NAMED, time)
        return found

    @cached_property
    def codec(self) -> Codec:
        """Return a codec for the stand-ins."""
        return Codec(self.classes.values())

    @cached_property
    def type_classes(self) -> tuple[EventType, ...]:
        """Return the stand-ins of the event types, in the program's order."""
        return tuple(self.classes[name] for name in self.event_types)

    @cached_property
    def plan(self) -> Layout:
        """Return the layout, with stand-ins."""
        written = self.layout
        known = self.classes
        return Layout(
            written["way"],
            written["shards"],
            tuple(written["keys"]),
            frozenset(known[name] for name in written["cuts"]),
            (),
            {known[name]: leaf for name, leaf in written["leaves"].items()},
            frozenset(known[name] for name in written["deferring"]),
            {known[name]: by for name, by in written["entries"].items()},
            frozenset(self.codec.decode(bytes.fromhex(written["hot_keys"]))),
            written["lanes"],
        )

    @property
    def keeps_book(self) -> bool:
        """Return whether shards keep their state in columns, entry by entry."""
        return self.form == "columns" and bool(self.by) and self.plan.way != "forked"

    @cached_property
    def entry_layout(self) -> ColumnLayout:
        """Return the column layout of an entry."""
        return read_layout(self.entry, self.classes, self.codec)

    @cached_property
    def type_layouts(self) -> tuple[ColumnLayout, ...]:
        """Return the column layout of the events of each event type."""
        return tuple(read_layout(one, self.classes, self.codec) for one in self.layouts)

    @cached_property
    def window_plan(self) -> WindowPlan:
        """Return the plan of the windows' slices; it has no results."""
        assert self.windows is not None
        written = self.windows
        event_type = self.type_classes[0]
        parts = tuple(SlicePart(*part) for part in written["parts"])
        return WindowPlan(
            event_type, event_type, written["key"], written["size"], written["every"], written["offset"], parts, (),
            written["gap"],
        )  # fmt: skip


def describe_job(job: Job) -> Description:
    """Return the description of a run's state."""
    program, shard_layout, plan = job.program, job.layout, job.columns
    form: Form = "objects"
    if plan is not None:
        form = "columns" if plan.windows is None else "windows"
    path, key = _find_path(job)
    entry = None
    if plan is not None and program.initial.name in plan.kernels:
        entry = write_layout(plan.kernels[program.initial.name].layout, job.codec)
    return Description(
        program=program.name,
        mode=job.mode,
        form=form,
        by=path,
        key=key,
        event_types=[event_type.__name__ for event_type in program.event_types],
        timers=[timer.event_type.__name__ for timer in program.timers],
        schema=write_schema(describe_program(program)),
        layout=_describe_layout(shard_layout, job.codec),
        channels=sorted(job.channels),
        start=job.codec.encode(program.init).hex(),
        layouts=[] if plan is None else [write_layout(one, job.codec) for one in plan.layouts],
        entry=entry,
        times={t.__name__: time_field(t) for t in program.event_types if time_field(t) != "time"},
        windows=None if plan is None or plan.windows is None else _describe_windows(plan.windows),
    )


def _find_path(job: Job) -> tuple[tuple[str, ...], str | None]:
    path: list[str] = []
    shape: Any = job.program.initial.shape
    while shape is not None and shape.by is not None:
        path.append(shape.by)
        shape = getattr(shape, "inner", None)
    kinds = {
        field_types(event_type)[path[0]].__name__
        for event_type in job.program.inputs
        if path and path[0] in field_names(event_type)
    }
    return tuple(path), kinds.pop() if len(kinds) == 1 else None


def _describe_layout(shard_layout: Layout, codec: Codec) -> dict[str, Any]:
    return {
        "way": shard_layout.way,
        "shards": shard_layout.shards,
        "keys": list(shard_layout.keys),
        "cuts": sorted(event_type.__name__ for event_type in shard_layout.cuts),
        "leaves": {event_type.__name__: name for event_type, name in shard_layout.leaves.items()},
        "deferring": sorted(event_type.__name__ for event_type in shard_layout.deferring),
        "entries": {event_type.__name__: by for event_type, by in shard_layout.entries.items()},
        "hot_keys": codec.encode(tuple(sorted(shard_layout.hot_keys, key=repr))).hex(),
        "lanes": shard_layout.lanes,
    }


def _describe_windows(plan: WindowPlan) -> dict[str, Any]:
    names = ("key", "size", "every", "offset", "gap")
    fields: dict[str, Any] = {name: getattr(plan, name) for name in names}
    return {**fields, "parts": [[part.op, part.field] for part in plan.parts]}


def write_layout(layout: ColumnLayout, codec: Codec) -> Any:
    """Return a layout as JSON values."""
    if isinstance(layout, EnumColumn):
        return {"enum": name_record(layout.cls)}
    if isinstance(layout, Leaf):
        return layout.kind
    if isinstance(layout, Constant):
        return {"constant": codec.encode(layout.value).hex()}
    if isinstance(layout, OptionalColumn):
        return {"option": write_layout(layout.inner, codec)}
    name = "tuple" if layout.cls is tuple else name_record(layout.cls)
    return {
        "record": name,
        "fields": list(part_names(layout)),
        "parts": [write_layout(part, codec) for part in layout.parts],
    }


def read_layout(data: Any, classes: Mapping[str, type], codec: Codec) -> ColumnLayout:
    """Return the layout that `write_layout` wrote."""
    if isinstance(data, str):
        return CarriedColumn(CARRIED, codec) if data == CARRIED else Leaf(data)
    if "enum" in data:
        return EnumColumn(ENUM, cast("type[Enum]", classes[data["enum"]]))
    if "constant" in data:
        return Constant(codec.decode(bytes.fromhex(data["constant"])))
    if "option" in data:
        return OptionalColumn(read_layout(data["option"], classes, codec))
    record = data["record"]
    cls = tuple if record == "tuple" else classes[record]
    return Fields(cls, tuple(read_layout(part, classes, codec) for part in data["parts"]))
