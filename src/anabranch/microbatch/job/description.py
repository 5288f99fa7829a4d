"""Descriptions: what a state is made of, kept beside it, so that it can be read without its program.

A shard writes one with its first batch. Whoever looks into a checkpoint, to query it or to take a
savepoint, finds in it the names of fields, the forms of columns, and which shard counts an event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from anabranch.kernels.column_layouts import (
    ColumnLayout,
    Constant,
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
"""How a state lies in pages: as objects, in columns, or as slices of windows."""


@dataclass(frozen=True)
class Description:
    """What a shard's state is made of, in plain values."""

    program: str
    mode: str
    form: Form
    by: tuple[str, ...]
    key: str | None
    """The type of the outermost key, where columns hold it: int, str or bool."""
    event_types: list[str]
    timers: list[str]
    schema: dict[str, Any]
    """What the program says of its state, as `state.schemas` writes it."""
    layout: dict[str, Any]
    channels: list[str]
    start: str
    """What a state without entries in shards begins with, in the codec's bytes."""
    layouts: list[Any] = field(default_factory=list)
    entry: Any = None
    windows: dict[str, Any] | None = None
    times: dict[str, str] = field(default_factory=dict)
    """The field that is the time of events of an event type, if it is not called `time`."""
    version: int = 1

    def write(self) -> bytes:
        """Return it as bytes."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, data: bytes) -> Description:
        """Return what was written."""
        found = json.loads(data)
        return cls(**{**found, "by": tuple(found["by"])})

    @cached_property
    def emitted(self) -> Schema:
        """Return what the program says of its state."""
        return read_schema(self.schema)

    @cached_property
    def classes(self) -> dict[str, type]:
        """Return a stand-in for each record and each enum, by name: it has the same fields."""
        found = {name: make_stand_in(kind) for name, kind in self.emitted.records.items()}
        for name, time in self.times.items():
            setattr(found[name], NAMED, time)
        return found

    @cached_property
    def codec(self) -> Codec:
        """Return a codec that knows the stand-ins."""
        return Codec(self.classes.values())

    @cached_property
    def type_classes(self) -> tuple[EventType, ...]:
        """Return the stand-ins of the event types, in the program's order."""
        return tuple(self.classes[name] for name in self.event_types)

    @cached_property
    def plan(self) -> Layout:
        """Return the layout, over stand-ins."""
        told = self.layout
        known = self.classes
        return Layout(
            told["way"],
            told["shards"],
            tuple(told["keys"]),
            frozenset(known[name] for name in told["cuts"]),
            (),
            {known[name]: leaf for name, leaf in told["leaves"].items()},
            frozenset(known[name] for name in told["deferring"]),
            {known[name]: by for name, by in told["entries"].items()},
            frozenset(self.codec.decode(bytes.fromhex(told["hot_keys"]))),
            told["lanes"],
        )

    @property
    def keeps_book(self) -> bool:
        """Say whether shards keep their state in columns, entry by entry."""
        return self.form == "columns" and bool(self.by) and self.plan.way != "forked"

    @cached_property
    def entry_layout(self) -> ColumnLayout:
        """Return how an entry lies in columns."""
        return read_layout(self.entry, self.classes, self.codec)

    @cached_property
    def type_layouts(self) -> tuple[ColumnLayout, ...]:
        """Return how the events of each event type lie in columns."""
        return tuple(read_layout(one, self.classes, self.codec) for one in self.layouts)

    @cached_property
    def window_plan(self) -> WindowPlan:
        """Return where windows lie; of use for their slices, not for what they say."""
        assert self.windows is not None
        told = self.windows
        event_type = self.type_classes[0]
        parts = tuple(SlicePart(*part) for part in told["parts"])
        return WindowPlan(
            event_type, event_type, told["key"], told["size"], told["every"], told["offset"], parts, (),
            told["gap"],
        )  # fmt: skip


def describe_job(job: Job) -> Description:
    """Describe the state of a run."""
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
    told: dict[str, Any] = {name: getattr(plan, name) for name in names}
    return {**told, "parts": [[part.op, part.field] for part in plan.parts]}


def write_layout(layout: ColumnLayout, codec: Codec) -> Any:
    """Return a layout as JSON can hold it."""
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
    """Return what `write_layout` wrote."""
    if isinstance(data, str):
        return Leaf(data)
    if "constant" in data:
        return Constant(codec.decode(bytes.fromhex(data["constant"])))
    if "option" in data:
        return OptionalColumn(read_layout(data["option"], classes, codec))
    record = data["record"]
    cls = tuple if record == "tuple" else classes[record]
    return Fields(cls, tuple(read_layout(part, classes, codec) for part in data["parts"]))
