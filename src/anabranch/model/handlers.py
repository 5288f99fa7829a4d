"""Handlers: the functions that a program calls on the events of each event type, and on timers of expiry."""

from __future__ import annotations

import dis
import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model.events import EventType, check_event_type, field_types
from anabranch.model.locations import locate_caller, locate_function
from anabranch.model.values.output_types import OutputCheck

Update = Callable[[Any, Any], Any]
Output = Callable[[Any, Any], Any]
Due = Callable[[Any], "int | None"]


@dataclass(frozen=True)
class Handler:
    """The functions for events of one event type. Made by `on`.

    `enters` names the fields and lanes by which the handler sees only one entry of its state. With
    `due`, the event type is a timer: its events come from the state itself, not from a channel. A handler
    that `expires` entries receives them with their times. `check` raises on outputs of a type that the
    program does not declare.
    """

    event_type: EventType
    update: Update | None = None
    output: Output | None = None
    whole: bool = False
    where: Location | None = None
    enters: frozenset[str] = frozenset()
    due: Due | None = None
    expires: bool = False
    check: OutputCheck | None = field(default=None, compare=False, repr=False)


def on(
    event_type: EventType,
    *,
    update: Update | None = None,
    output: Output | None = None,
    whole: bool = False,
    due: Due | None = None,
) -> Handler:
    """Return the handler of an event type: `update(state, event) -> state`, `output(state, event)`.

    `output` sees the state *before* the update. It returns a list of outputs, or one output, or None for
    no output. Without `update` the state stays the same. With `whole=True` the handler sees the whole
    state even where the state has one entry per key.

    With `due` the event type is a timer, whose events come from the state and not from a channel.
    `due(state)` returns the next time at which the state (or the entry, if the event type has its key
    field) requests a timer event, or None. At that time, after all events up to it, the handler receives
    one event of the type. Each requested time fires once.
    """
    where = locate_caller()
    check_event_type(event_type, where)
    for role, function in (("update", update), ("output", output)):
        if function is not None:
            check_arity(f"the {role} of {event_type.__name__}", function, ("state", "event"), where)
    if due is not None:
        check_arity(f"the due of {event_type.__name__}", due, ("state",), where)
    return Handler(event_type, update, output, whole, where, due=due)


def reads_state(function: Callable[..., Any] | None) -> bool:
    """Return whether a handler's function reads its state argument; True if that can't be determined."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_varnames:
        return True
    # A method's first argument is the object it is bound to; the state is the next one.
    place = 1 if getattr(function, "__self__", None) is not None else 0
    first = code.co_varnames[min(place, len(code.co_varnames) - 1)]
    if first in code.co_cellvars:
        return True
    return any(
        instruction.argval == first
        or (isinstance(instruction.argval, tuple) and first in instruction.argval)
        for instruction in dis.get_instructions(code)
        if "LOAD_FAST" in instruction.opname  # also in pairs, such as STORE_FAST_LOAD_FAST
    )


def check_arity(
    role: str, function: object, arguments: tuple[str, ...], where: Location | None
) -> None:
    """Raise if a value can't be called with these positional arguments; it is not called."""
    shape = f"a function of ({', '.join(arguments)})"
    if not callable(function):
        raise ProgramError(
            f"{role} is not a function",
            where=where,
            expected=shape,
            got=repr(function),
            cure="pass a function or a lambda; a constant state is `lambda state, event: 0`",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # A builtin such as max has no readable signature; the law checker calls it.
    try:
        signature.bind(*arguments)
    except TypeError:
        raise ProgramError(
            f"{role} has the wrong arguments",
            where=locate_function(function) or where,
            expected=shape,
            got=f"a function of {signature}",
            cure=f"write it with {len(arguments)} positional arguments",
        ) from None


def find_expiry(shape: Any, handlers: Iterable[Handler]) -> Handler | None:
    """Return the handler of the timer that a state with a `ttl` sets, or None if it has no `ttl`.

    The innermost entries expire, so the timer has the key fields of all levels.
    """
    fields: list[str] = []
    while shape.by is not None:
        fields.append(shape.by)
        shape = shape.inner
    if not hasattr(shape, "expire"):
        return None
    event_types = [handler.event_type for handler in handlers]
    timer = make_expiry(tuple((name, _find_type(name, event_types)) for name in fields))
    return Handler(timer, update=shape.expire, due=shape.find_due, expires=True)


@cache
def make_expiry(fields: tuple[tuple[str, Any], ...]) -> Any:
    """Return the event type of timers for entries with these key fields; one per process."""
    words = [word.capitalize() for field, _ in fields for word in field.split("_")]
    name, names = f"{''.join(words)}Expiry", ("time", *(field for field, _ in fields))
    # Name and fields are computed, so there is no class to annotate.
    timer: Any = namedtuple(name, names)  # type: ignore[misc]  # noqa: PYI024
    timer.__annotations__ = {"time": int, **dict(fields)}
    return timer


def _find_type(field: str, event_types: Iterable[EventType]) -> Any:
    kinds = (field_types(event_type) for event_type in event_types)
    return next((kind[field] for kind in kinds if field in kind), Any)
