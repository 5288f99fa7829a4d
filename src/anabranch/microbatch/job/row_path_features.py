"""The table of features that only the row path has: the name of each, and why the columnar path lacks it.

`plan_columns` uses this table to decide whether a run may take the columnar path, and `explain` prints it, so
that the two never differ. Features that are not in the table work on both paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from anabranch.eventtime.channels import Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.kernels.column_layouts import (
    OBJECT,
    ColumnLayout,
    Constant,
    Fields,
    OptionalColumn,
    is_record,
    list_columns,
)
from anabranch.kernels.compiled import CompiledKernel
from anabranch.kernels.kernel import Kernel, make_kernel
from anabranch.kernels.translate.known_values import MIXED
from anabranch.microbatch.job.column_types import (
    find_odd_default,
    fits_columns,
    list_rich_fields,
)
from anabranch.microbatch.job.window_plan import plan_windows
from anabranch.model.events import CHANNEL, LANE, EventType, field_names, field_types
from anabranch.model.program import Program, StateType
from anabranch.model.step import find_limit, has_ages
from anabranch.plan.layouts import Layout
from anabranch.speculation.output_changes import Mode
from anabranch.state.exact import MeanState, SumState, VarianceState
from anabranch.state.sharing import Shared

_WIDE = (SumState, MeanState, VarianceState)


class Use(NamedTuple):
    """A program in a run: its layout, its channels, whether all are numbered, and the mode."""

    program: Program
    layout: Layout
    channels: Mapping[str, Channel]
    numbered: bool = True
    mode: Mode = "settled"


class Feature(NamedTuple):
    """A feature that requires the row path.

    `find` returns a description of how a run uses it, or None. `why` is the reason why the columnar path
    lacks it. A feature that `needs_others` to be absent is checked last, for a run that uses none of the others.
    """

    name: str
    why: str
    find: Callable[[Use], str | None]
    needs_others: bool = False


class Gap(NamedTuple):
    """A feature that a run uses, described with the names of its program."""

    feature: Feature
    reason: str


def list_gaps(use: Use) -> Iterator[Gap]:
    """Yield every feature of a run that the columnar path lacks."""
    found = False
    for feature in ROW_PATH_ONLY:
        if found and feature.needs_others:
            continue
        reason = feature.find(use)
        if reason is not None:
            found = True
            yield Gap(feature, reason)


def folded_types(program: Program, shard_layout: Layout) -> list[str]:
    """Return the state types that shards fold."""
    return sorted(
        {*shard_layout.leaves.values()} if shard_layout.way == "forked" else {program.initial.name}
    )


def _find_mode(use: Use) -> str | None:
    return "the mode is speculative" if use.mode == "speculative" else None


def _find_unnumbered(use: Use) -> str | None:
    return None if use.numbered else "some channel has no sequence"


def _find_ahead(use: Use) -> str | None:
    found = [name for name, channel in use.channels.items() if channel.max_ahead is not None]
    return f"channel {found[0]!r} has `max_ahead`" if found else None


def _find_estimated(use: Use) -> str | None:
    found = [n for n, channel in use.channels.items() if isinstance(channel.lateness, Estimated)]
    return f"the lateness of channel {found[0]!r} is estimated" if found else None


def _find_arrival_order(use: Use) -> str | None:
    found = [name for name, channel in use.channels.items() if channel.in_arrival_order]
    return f'channel {found[0]!r} has order="arrival"' if found else None


def _find_odd_events(use: Use) -> str | None:
    found = [event_type for event_type in use.program.inputs if not fits_columns(event_type)]
    if not found:
        return None
    odd = find_odd_default(found[0]) if is_record(found[0]) else None
    if odd is None:
        return f"making a {found[0].__name__} does more than store its fields"
    return f"the default of field {odd!r} of {found[0].__name__} is not of its type"


def _find_read_fields(use: Use) -> str | None:
    """Return the reason if a handler may read a field in Python that is not of a plain type.

    It may return a state of any type then, such as a Decimal where the state starts from 0.
    """
    if use.program.timers:
        return None  # Windows are folded by the types of their fields, and not by a kernel.
    for name in folded_types(use.program, use.layout):
        kernel = make_kernel(use.program.state_type(name))
        for number, event_type in enumerate(kernel.event_types):
            if use.layout.way == "forked" and use.layout.leaves.get(event_type) != name:
                continue
            rich = list_rich_fields(event_type)
            reason = kernel.reasons[number] or _find_record_read(kernel, number)
            if rich and reason is not None:
                kind = field_types(event_type)[rich[0]]
                shown = kind.__name__ if isinstance(kind, type) else kind
                return (
                    f"{event_type.__name__} has field {rich[0]!r} of type {shown}, "
                    f"and its handler is not compiled: {reason}"
                )
    return None


def _find_record_read(kernel: Kernel, number: int) -> str | None:
    """Return the reason if the handler of an event type reads a field of a record in a field."""
    inputs = kernel.blueprint.inputs if isinstance(kernel, CompiledKernel) else ()
    for event_type, path, _ in inputs:
        names = path.rstrip("?").split(".")[1:]
        if event_type == number and (len(names) > 1):
            return f"it reads {'.'.join(names)}, a field of a record"
    return None


def _find_ages(use: Use) -> str | None:
    return "entries have a time to live" if has_ages(use.program.initial.shape) else None


def _find_shared(use: Use) -> str | None:
    shape: Any = use.program.initial.shape
    while shape.by is not None:
        if isinstance(shape, Shared):
            return "keys share a part of the state"
        shape = shape.inner
    return None


def _find_timers(use: Use) -> str | None:
    if not use.program.timers or has_ages(use.program.initial.shape):
        return None
    windows = plan_windows(use.program)
    return windows if isinstance(windows, str) else None


def _find_deferred(use: Use) -> str | None:
    return "outputs of leaves depend on the state" if use.layout.deferring else None


def _find_hot(use: Use) -> str | None:
    return "hot keys are spread over shards" if use.layout.hot_keys else None


Check = Callable[[Use, StateType, list[EventType]], "str | None"]


def _in_types(check: Check) -> Callable[[Use], str | None]:
    """Return a function that checks each state type that shards fold; windows fold slices instead."""

    def find(use: Use) -> str | None:
        program, leaves = use.program, use.layout.leaves
        if program.timers:
            return None
        for name in folded_types(program, use.layout):
            event_types = [
                event_type for event_type in program.event_types if leaves.get(event_type) == name
            ]
            reason = check(use, program.state_type(name), event_types or list(program.event_types))
            if reason is not None:
                return reason
        return None

    return find


def _check_limit(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    return "the state has a limit" if find_limit(kept.shape) is not None else None


def _check_channels(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    return "the state has entries per channel" if kept.shape.by == CHANNEL else None


def _check_nesting(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    shape: Any = kept.shape
    nested = shape.by is not None and shape.inner.by is not None
    return "the state has entries within entries" if nested else None


def _check_lanes(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    laned = kept.shape.by == LANE and use.layout.way != "forked"
    return "the state has lanes" if laned else None


def _check_whole(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    by = kept.shape.by
    whole = [
        event_type.__name__
        for event_type in event_types
        if by not in kept.handlers[event_type].enters
    ]
    return f"{whole[0]} sees all entries at once" if _has_keys(kept) and whole else None


def _check_keys(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    by = kept.shape.by
    if by is None or not _has_keys(kept):
        return None
    kinds = {
        event_type: field_types(event_type)[by]
        for event_type in event_types
        if by in field_names(event_type)
    }
    odd = [
        event_type.__name__ for event_type, kind in kinds.items() if kind not in (int, str, bool)
    ]
    if odd:
        return f"{odd[0]} has a key that is neither an int nor a text"
    return "keys are of several types" if len(set(kinds.values())) > 1 else None


def _check_cuts(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    by, handlers = kept.shape.by, use.program.initial.handlers
    if use.layout.way != "forked" or by is None or not _has_keys(kept):
        return None
    single = sorted(
        event_type.__name__ for event_type in use.layout.cuts if by in field_names(event_type)
    )
    if any(by in handlers[event_type].enters for event_type in use.layout.cuts):
        return f"{', '.join(single)} cuts one entry only"
    return None


def _check_objects(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    if use.layout.way == "forked" or not _has_keys(kept):
        return None
    kernel = make_kernel(kept)
    objects = any(column.kind == OBJECT for column in list_columns(kernel.layout))
    # A function whose source is not available may return any type from a state that begins empty.
    mixed = any(MIXED in reason for reason in kernel.reasons if reason is not None)
    if objects or mixed or (any(kernel.reasons) and _begins_empty(kernel.layout)):
        return "the state of an entry can't be stored in columns"
    return None


def _check_wide(use: Use, kept: StateType, event_types: list[EventType]) -> str | None:
    if use.layout.way == "forked" or not _has_keys(kept) or not _is_wide(make_kernel(kept).layout):
        return None
    return "an entry contains an exact sum of floats"


def _is_wide(layout: ColumnLayout) -> bool:
    """Return whether a state contains integers in units of the smallest float, as exact sums do."""
    if isinstance(layout, OptionalColumn):
        return _is_wide(layout.inner)
    if isinstance(layout, Fields):
        return layout.cls in _WIDE or any(map(_is_wide, layout.parts))
    return False


def _has_keys(kept: StateType) -> bool:
    return kept.shape.by not in (None, LANE, CHANNEL) and not isinstance(kept.shape, Shared)


def _begins_empty(layout: ColumnLayout) -> bool:
    if isinstance(layout, OptionalColumn):
        return _begins_empty(layout.inner)
    if isinstance(layout, Fields):
        return not layout.parts or any(map(_begins_empty, layout.parts))
    return isinstance(layout, Constant)


ROW_PATH_ONLY: tuple[Feature, ...] = (
    Feature(
        "speculative mode", "pending events are folded again one by one, to retract", _find_mode
    ),
    Feature(
        "channels without a sequence",
        "lateness is computed from places in the sequence",
        _find_unnumbered,
    ),
    Feature("`max_ahead`, a bound on times", "each event needs the ones before it", _find_ahead),
    Feature("estimated lateness", "the estimate changes from event to event", _find_estimated),
    Feature('arrival order (`order="arrival"`)', "each event's time follows from the last", _find_arrival_order),
    Feature(
        "events that are more than their fields, or have a default of another type",
        "columns hold fields, each of its type",
        _find_odd_events,
    ),
    Feature("entries with a time to live (`ttl`)", "each access sets a timer", _find_ages),
    Feature("`Shared`", "a common part is not stored beside the columns of entries", _find_shared),
    Feature(
        "timers, other than windows that fire once",
        "a timer is placed among the events one by one",
        _find_timers,
    ),
    Feature("deferred outputs", "they are evaluated event by event on the root's state",
            _find_deferred),
    Feature("hot keys", "a batch would contain keyed entries and deltas of one type", _find_hot),
    Feature("`Limited`", "a state is measured after each event", _in_types(_check_limit)),
    Feature("entries per channel", "the channel is not a column of the fields", _in_types(_check_channels)),
    Feature("entries within entries", "columns hold one entry per key", _in_types(_check_nesting)),
    Feature("lanes, other than below markers", "columns hold one entry per key", _in_types(_check_lanes)),
    Feature(
        "handlers that see all entries", "a kernel is given one entry at a time", _in_types(_check_whole)
    ),
    Feature("keys other than int, str or bool", "keys are looked up by hash of a column", _in_types(_check_keys)),
    Feature("markers of one entry", "a cut is made through all entries at once", _in_types(_check_cuts)),
    Feature(
        "exact sums, means and variances of floats, per key",
        "they need more than 64 bits",
        _in_types(_check_wide),
        needs_others=True,
    ),
    Feature(
        "handlers that are not compiled, of events with an enum, Decimal, bytes, UUID, time, timedelta, record, list or map",
        "they read these fields in Python, and may put them into the state",
        _find_read_fields,
        needs_others=True,
    ),
    Feature(
        "states that can't be stored in columns",
        "only numbers, bools, texts and records of them can",
        _in_types(_check_objects),
        needs_others=True,
    ),
)  # fmt: skip
"""The features that work on the row path only; all others work on both paths."""
