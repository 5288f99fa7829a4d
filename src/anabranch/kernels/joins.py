"""Joins: the kernel that joins what was folded elsewhere into the states of many slots.

To a kernel, a state that is to be joined is an event, and its fields are the event's.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

from anabranch.kernels.columns import Columns
from anabranch.kernels.kernel import Kernel, make_kernel
from anabranch.kernels.layouts import (
    BOOL,
    FLOAT,
    INT,
    Fields,
    Layout,
    Leaf,
    list_columns,
    read_record,
)
from anabranch.model.events import Tag
from anabranch.model.handlers import Handler
from anabranch.model.shapes import MISSING, Shape


class _WholeInt(NamedTuple):
    value: int


class _WholeFloat(NamedTuple):
    value: float


class _WholeBool(NamedTuple):
    value: bool


_WHOLES: dict[str, Any] = {INT: _WholeInt, FLOAT: _WholeFloat, BOOL: _WholeBool}


def make_join(shape: Shape, layout: Layout) -> Kernel | None:
    """Return the kernel that joins states of a shape; None if they do not lie in plain columns."""
    if shape.join is None or shape.zero is MISSING:
        return None
    tag = _find_record(layout)
    if tag is None:
        return None
    join = _free(shape.join)
    update = (lambda state, other: join(state, other.value)) if isinstance(layout, Leaf) else join
    kernel = make_kernel(([Handler(tag, update)], shape))
    return kernel if kernel.layout == layout else None


def is_exact(shape: Shape, layout: Layout) -> bool:
    """Say whether states may be folded apart without so much as a bit of difference.

    Sums of floats may not; whole numbers may. A shape with floats that are never added, such as a
    maximum, says so itself: `exact = True`.
    """
    floats = any(column.kind == FLOAT for column in list_columns(layout))
    return not floats or bool(getattr(shape, "exact", False))


def as_events(states: Columns) -> Columns:
    """Return states as the events of a join."""
    tag: Any = _find_record(states.layout)
    return Columns(read_record(tag), states.arrays, states.length, states.strings)


def _find_record(layout: Layout) -> Tag | None:
    if isinstance(layout, Leaf):
        return _WHOLES.get(layout.kind)
    if isinstance(layout, Fields) and layout.cls is not tuple and read_record(layout.cls) == layout:
        return layout.cls
    return None


def _free(join: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a method that makes no use of its object as a function that needs none."""
    if not isinstance(join, MethodType):
        return join
    function = join.__func__
    own = function.__code__.co_varnames[0]
    if any(step.argval == own for step in dis.get_instructions(function)):
        return join
    return lambda a, b: function(None, a, b)
