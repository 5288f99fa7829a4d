"""Joins: a kernel that also joins states folded elsewhere, in order among the events.

The kernel treats a state to be joined as an event of one more event type, with the state's fields.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

from anabranch.kernels.column_layouts import (
    BOOL,
    FLOAT,
    INT,
    ColumnLayout,
    Fields,
    Leaf,
    list_columns,
    read_record,
)
from anabranch.kernels.kernel import Kernel, make_kernel
from anabranch.kernels.numpy_columns import Columns
from anabranch.model.events import EventType
from anabranch.model.handlers import Handler
from anabranch.model.shapes import MISSING, Shape


class _WholeInt(NamedTuple):
    value: int


class _WholeFloat(NamedTuple):
    value: float


class _WholeBool(NamedTuple):
    value: bool


_WHOLES: dict[str, Any] = {INT: _WholeInt, FLOAT: _WholeFloat, BOOL: _WholeBool}


def add_join(kernel: Kernel, shape: Shape) -> Kernel | None:
    """Return a kernel with a join as its last event type; None if states do not fit plain columns."""
    layout = kernel.layout
    event_type = _find_record(layout)
    if shape.join is None or shape.zero is MISSING or event_type is None:
        return None
    join = _free(shape.join)
    update = (lambda state, other: join(state, other.value)) if isinstance(layout, Leaf) else join
    joining = make_kernel(([*kernel.handlers, Handler(event_type, update)], shape))
    return joining if joining.layout == layout else None


def is_exact(shape: Shape, layout: ColumnLayout) -> bool:
    """Return whether separate folds of a state join to exactly the same bits as one fold.

    Sums of floats do not; integers do. A shape with floats that are never added, such as a maximum,
    declares it: `exact = True`.
    """
    floats = any(column.kind == FLOAT for column in list_columns(layout))
    return not floats or bool(getattr(shape, "exact", False))


def as_events(states: Columns) -> Columns:
    """Return states as the events of a join."""
    event_type: Any = _find_record(states.layout)
    return Columns(read_record(event_type), states.arrays, states.length, states.strings)


def _find_record(layout: ColumnLayout) -> EventType | None:
    if isinstance(layout, Leaf):
        return _WHOLES.get(layout.kind)
    if isinstance(layout, Fields) and layout.cls is not tuple and read_record(layout.cls) == layout:
        return layout.cls
    return None


def _free(join: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a method that does not use its object as a function without one."""
    if not isinstance(join, MethodType):
        return join
    function = join.__func__
    own = function.__code__.co_varnames[0]
    if any(step.argval == own for step in dis.get_instructions(function)):
        return join
    return lambda a, b: function(None, a, b)
