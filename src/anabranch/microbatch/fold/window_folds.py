"""Columnar folds of windows: events are folded into the slices that windows share, and slices into windows.

For sessions, and for windows of one size, that emit once, at their end, counts, sums, minima or maxima of
integers. The change of a slice by an event does not depend on any other event, so slices may be folded
in the tasks that read the events, in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.windows.window_types import FAR
from anabranch.kernels.arrays.indexes import Index
from anabranch.microbatch.columns.event_tables import (
    EventTable,
)
from anabranch.microbatch.columns.window_slices import (
    WindowSlices,
    check_reach,
    join_slices,
)
from anabranch.microbatch.job.window_plan import SlicePart, WindowPlan
from anabranch.model.events import field_names

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_DENSE = 1 << 22
"""Up to so many pairs of a key and a slice are stored densely; otherwise, only those that occur."""


def fold_table(plan: WindowPlan, table: EventTable) -> WindowSlices:
    """Fold events into slices."""
    if not len(table):
        nothing = np.empty(0, np.int64)
        return WindowSlices(nothing, nothing, nothing, tuple(nothing for _ in plan.parts))
    keys = np.zeros(len(table), np.int64) if plan.key is None else table.field(plan.key)
    strings = table.columns.strings if _is_text(plan, table) else None
    if plan.gap is not None:
        _check_times(table.times)
        ones, parts = np.ones(len(table), np.int64), tuple(_read(p, table) for p in plan.parts)
        return join_slices([WindowSlices(keys, table.times, ones, parts, strings)], plan)
    index = Index()
    slots = index.find(keys)
    numbers = _number_slices(plan, table.times)
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if index.count * span <= max(_DENSE, 4 * len(table)):
        cells, rows, count = None, slots * span + (numbers - low), index.count * span
    else:
        # Slices are numbered as they occur: a key and a distant place would exceed 64 bits.
        slices, cells = Index(), Index()
        found = slices.find(numbers)
        span = slices.count
        rows = cells.find(slots * span + found)
        count = cells.count
    events = np.bincount(rows, minlength=count)
    there = np.flatnonzero(events)
    parts = tuple(_reduce(part, table, rows, count)[there] for part in plan.parts)
    places, numbered = np.divmod(there if cells is None else cells.keys[there], span)
    numbered = numbered + low if cells is None else slices.keys[numbered]
    starts = numbered * plan.width + plan.offset
    return WindowSlices(index.keys[places], starts, events[there], parts, strings)


def _number_slices(plan: WindowPlan, times: Array) -> Array:
    _check_times(times)
    return (times - plan.offset) // plan.width


def is_near(times: Array) -> Array:
    """Return which times are in the range of windows; see `eventtime.windows.check_reach`."""
    return (times > -FAR) & (times < FAR)


def _check_times(times: Array) -> None:
    assert is_near(times).all(), "an event out of range is rejected before it is folded"


def _read(part: SlicePart, table: EventTable) -> Array:
    """Return the value of each event for a part."""
    if part.field is None:
        return np.ones(len(table), np.int64)
    values = table.field(part.field)
    # The minimum is stored as the maximum of ~x; ~ reverses the order of integers, also of -2**63.
    return ~values if part.op == "min" else values


def _reduce(part: SlicePart, table: EventTable, rows: Array, count: int) -> Array:
    if part.field is None:
        return np.bincount(rows, minlength=count)
    values = _read(part, table)
    if part.op == "sum":
        return _add_at(values, rows, count)
    found = np.full(count, NEVER, np.int64)
    np.maximum.at(found, rows, values)
    return found


def _add_at(values: Array, rows: Array, count: int) -> Array:
    largest = max(int(values.max()), -int(values.min())) if len(values) else 0
    if largest * len(values) < 1 << 53:
        # Floats represent these sums exactly, and NumPy adds them faster.
        return np.bincount(rows, weights=values, minlength=count).astype(np.int64)
    check_reach(largest, len(values))
    found = np.zeros(count, np.int64)
    np.add.at(found, rows, values)
    return found


def _is_text(plan: WindowPlan, table: EventTable) -> bool:
    if plan.key is None:
        return False
    layout: Any = table.columns.layout
    return bool(layout.parts[field_names(layout.cls).index(plan.key)].kind == "str")
