"""Programs: a sequential fold over events, with the dependence that allows it to run in parallel.

A `Program` is frozen data. Building one runs none of the user's functions and checks everything
that can be checked without running them; `anabranch.laws` checks the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model import markers, refusals
from anabranch.model.dependence import Dependence, Depends
from anabranch.model.events import CHANNEL, LANE, Event, EventType, field_names
from anabranch.model.handlers import Handler, check_arity, find_expiry
from anabranch.model.locations import locate_caller
from anabranch.model.order import OrderKey, order_key
from anabranch.model.shapes import MISSING, AnyState, Fork, Join, LanedShape, Shape, WrittenShape
from anabranch.model.slices import Slice, Slices
from anabranch.model.step import Outputs, Step, add_delta, begin_delta, prepare_step, set_aside
from anabranch.model.values.event_times import is_timestamped
from anabranch.model.values.output_types import OutputTypes, find_output_types, make_output_check


@dataclass(frozen=True)
class StateType:
    """A type of state: how it starts, forks and joins, and the event types it may handle."""

    name: str
    shape: Shape = field(hash=False)
    handlers: Mapping[EventType, Handler] = field(hash=False)
    where: Location | None = field(default=None, compare=False)

    def handles(self, event_types: Iterable[EventType]) -> bool:
        """Return whether this state type handles all of these event types."""
        return all(event_type in self.handlers for event_type in event_types)

    def list_shared_keys(self, *event_types: EventType) -> tuple[str, ...]:
        """Return the fields by which events of all these event types enter one entry of the state."""
        found: list[str] = []
        shape: Any = self.shape
        while shape is not None and shape.by is not None and shape.by not in (LANE, CHANNEL):
            if not all(shape.by in self.handlers[event_type].enters for event_type in event_types):
                break
            found.append(shape.by)
            shape = getattr(shape, "inner", None)
        return tuple(found)

    def step(self, state: AnyState, event: Event) -> tuple[AnyState, Outputs]:
        """Return the state after an event, and the outputs."""
        return self._steps[type(event.data)](state, event)

    def begin_delta(self) -> AnyState:
        """Return the state that a delta starts from."""
        return begin_delta(self.shape)

    def step_delta(self, delta: AnyState, event: Any) -> tuple[AnyState, Outputs]:
        """Return the delta after one more event (or its data), and the outputs."""
        event = event if isinstance(event, Event) else Event(event)
        return self._delta_steps[type(event.data)](delta, event)

    def add_delta(self, state: AnyState, delta: AnyState) -> AnyState:
        """Return a state joined with a delta that was folded from zero."""
        return add_delta(self.shape, state, delta)

    def set_aside(self, state: AnyState, event: Event) -> AnyState:
        """Return the state after an event on which a user's function raised."""
        return set_aside(self.shape, self.handlers[type(event.data)], state, event)

    @cached_property
    def _steps(self) -> dict[EventType, Step]:
        return {kind: prepare_step(self.shape, one) for kind, one in self.handlers.items()}

    @cached_property
    def _delta_steps(self) -> dict[EventType, Step]:
        return {
            kind: prepare_step(self.shape, one, delta=True) for kind, one in self.handlers.items()
        }


@dataclass(frozen=True)
class ForkJoin:
    """A function that forks a state of one type into two states, and the one that joins them.

    `fork(state, left, right)` receives, as `Slices`, the events that each side will process.
    """

    parent: str
    left: str
    right: str
    fork: Fork
    join: Join
    where: Location | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.where is None:
            object.__setattr__(self, "where", locate_caller())
        name = f"of {self.parent} -> {self.left}, {self.right}"
        check_arity(f"the fork {name}", self.fork, ("state", "left", "right"), self.where)
        check_arity(f"the join {name}", self.join, ("left", "right"), self.where)


class State:
    """A state type of a program that has several: `State("temps", on(...), init=...)`."""

    __slots__ = ("handlers", "name", "shape", "where")

    def __init__(
        self,
        name: str,
        *handlers: Handler,
        init: AnyState = MISSING,
        zero: AnyState = MISSING,
        fork: Fork | None = None,
        join: Join | None = None,
        same: Callable[[AnyState, AnyState], bool] | None = None,
        state: Shape | None = None,
    ) -> None:
        self.name = name
        self.handlers = handlers
        self.where = locate_caller()
        self.shape = read_shape(state, init, zero, fork, join, same, self.where)


@dataclass(frozen=True, init=False)
class Program:
    """A stream program: handlers (`on`), dependences (`depends`) and a state. See `docs/language.md`.

    The state is given either as `init` (with optional `fork`, `join`, `zero` and `same`), or as a
    ready-made state, `state=`, or as several `State` parts with `ForkJoin` parts between them.

    `rank` orders event types at equal times; by default markers are first. `outputs` is the type of the
    outputs, or a tuple of types; without it, types are read from the annotations of output functions.
    `lanes` fixes the number of partial sums, so that float arithmetic gives the same result on any number
    of shards. `changes` describes how the state of an older version of the program becomes the state of
    this one: `Rename`, `Drop` and the other changes of `anabranch.state`.
    """

    name: str
    state_types: tuple[StateType, ...]
    forks: tuple[ForkJoin, ...]
    dependence: Dependence
    rank: tuple[EventType, ...]
    lanes: int | None
    where: Location | None = field(compare=False)
    _parts: tuple[Any, ...] = field(repr=False, compare=False)
    _options: Mapping[str, Any] = field(repr=False, compare=False)
    ranks: Mapping[EventType, int] = field(repr=False, compare=False)
    output_types: OutputTypes = field(repr=False, compare=False)

    def __init__(  # noqa: PLR0913 - these are the options of the language
        self,
        *parts: Handler | Depends | State | ForkJoin,
        init: AnyState = MISSING,
        zero: AnyState = MISSING,
        fork: Fork | None = None,
        join: Join | None = None,
        same: Callable[[AnyState, AnyState], bool] | None = None,
        state: Shape | None = None,
        lanes: int | None = None,
        rank: Iterable[EventType] | EventType = (),
        changes: Iterable[Any] = (),
        outputs: Any = None,
        name: str = "program",
    ) -> None:
        where = locate_caller()
        rank = (rank,) if isinstance(rank, type) else tuple(rank)
        handlers = [part for part in parts if isinstance(part, Handler)]
        statements = [part for part in parts if isinstance(part, Depends)]
        declared = [part for part in parts if isinstance(part, State)]
        forks = [part for part in parts if isinstance(part, ForkJoin)]
        refusals.check_parts(parts, (Handler, Depends, State, ForkJoin), where)
        changes = refusals.check_changes(changes, where)
        one = any(x is not MISSING for x in (init, zero)) or any((fork, join, same, state))
        refusals.check_state_is_given_once(bool(handlers) or one, bool(declared), where=where)
        if not declared:
            shape = read_shape(state, init, zero, fork, join, same, where)
            only = State("state", *handlers, state=shape)
            only.where = where
            declared = [only]
        declared = [_add_expiry(states) for states in declared]
        event_types = refusals.check_handlers(declared, where)
        refusals.check_names(event_types, where)
        refusals.check_times(declared, where)
        refusals.check_timers(declared, lanes, rank, where)
        timers = tuple(handler for handler in declared[0].handlers if handler.due is not None)
        statements += markers.timer_statements(timers, declared[0].shape, event_types)
        statements += markers.control_statements(declared[0].shape, declared[0].handlers)
        dependence = Dependence(event_types, statements)
        laned = markers.laned_types(dependence)
        if lanes is not None:
            refusals.check_lanes(lanes, declared, dependence, laned, where)
            dependence = Dependence(
                event_types, [*statements, *markers.lane_statements(declared, laned)], lanes
            )
        functions = [h.output for d in declared for h in d.handlers if h.output is not None]
        output_types = find_output_types(outputs, functions, where)
        types = tuple(_build_type(d, lanes, laned, output_types) for d in declared)
        all_forks = (*forks, *_own_forks(types, forks))
        refusals.check_forks(types, all_forks)
        refusals.check_entries(types, where)
        refusals.check_copies(types, dependence)
        refusals.check_limits(types, forks)
        ordered = markers.rank_types(
            dependence, rank, where, tuple(timer.event_type for timer in timers)
        )
        options = {
            "init": init, "zero": zero, "fork": fork, "join": join, "same": same,
            "state": state, "lanes": lanes, "rank": rank, "changes": changes, "outputs": outputs,
            "name": name,
        }  # fmt: skip
        values = {
            "name": name, "state_types": types, "forks": all_forks, "dependence": dependence,
            "rank": ordered, "lanes": lanes, "where": where, "_parts": parts,
            "_options": MappingProxyType(options),
            "ranks": MappingProxyType({event_type: place for place, event_type in enumerate(ordered)}),
            "output_types": output_types,
        }  # fmt: skip
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def changed(self, *more: Any, **options: Any) -> Program:
        """Return this program with other options (`lanes=4`, `zero=…`), or with more parts."""
        program = Program(*self._parts, *more, **{**self._options, **options})
        object.__setattr__(program, "where", self.where)
        return program

    def __reduce__(self) -> tuple[Any, ...]:
        # Annotations are read once: in another process their names may not be resolvable.
        options = {**self._options, "outputs": self.output_types}
        return _rebuild, (self._parts, options, self.where)

    @property
    def event_types(self) -> tuple[EventType, ...]:
        """Return all event types, in the order of the handlers."""
        return self.dependence.event_types

    @property
    def changes(self) -> tuple[Any, ...]:
        """Return the changes since older versions, whose state this program can migrate."""
        return tuple(self._options["changes"])

    @cached_property
    def timers(self) -> tuple[Handler, ...]:
        """Return the handlers of timers, whose events the state itself requests."""
        return tuple(h for h in self.initial.handlers.values() if h.due is not None)

    @cached_property
    def inputs(self) -> tuple[EventType, ...]:
        """Return the event types that channels deliver: all except timers."""
        handlers = self.initial.handlers
        return tuple(
            event_type for event_type in self.event_types if handlers[event_type].due is None
        )

    @cached_property
    def timestamped(self) -> bool:
        """Return whether event times are datetimes, which are microseconds UTC internally."""
        return any(is_timestamped(event_type) for event_type in self.inputs)

    @property
    def initial(self) -> StateType:
        """Return the state type that a run starts with, which handles every event type."""
        return self.state_types[0]

    @property
    def init(self) -> AnyState:
        """Return the state a run starts from."""
        return self.initial.shape.init

    def _repr_html_(self) -> str:
        from anabranch.html_tables import show_line, show_table

        handlers, markers = self.initial.handlers, self.markers
        rows = [
            (
                event_type.__name__,
                ", ".join(field_names(event_type)),
                "marker" if event_type in markers else "timer" if handlers[event_type].due else "",
                "yes" if handlers[event_type].update else "",
                "yes" if handlers[event_type].output else "",
            )
            for event_type in self.rank
        ]
        states = ", ".join(f"{part.name}: {part.shape!r}" for part in self.state_types)
        return (
            show_line("program", self.name)
            + show_table(("event type", "fields", "role", "update", "output"), rows)
            + show_line("dependence", repr(self.dependence).removeprefix("Dependence"))
            + show_line("state", states)
            + show_line("outputs", self.output_types)
        )

    @property
    def markers(self) -> tuple[EventType, ...]:
        """Return the event types that synchronise others, ordered by rank."""
        return tuple(
            event_type for event_type in self.rank if markers.is_marker(self.dependence, event_type)
        )

    def event_type(self, name: str) -> EventType:
        """Return the event type of that name."""
        for event_type in self.event_types:
            if event_type.__name__ == name:
                return event_type
        raise KeyError(f"{self.name} has no event type {name!r}; it has {_names(self.event_types)}")

    def state_type(self, name: str) -> StateType:
        """Return the state type of that name."""
        for state_type in self.state_types:
            if state_type.name == name:
                return state_type
        known = ", ".join(state_type.name for state_type in self.state_types)
        raise KeyError(f"{self.name} has no state type {name!r}; it has {known}")

    def find_fork(self, parent: str, left: str, right: str) -> ForkJoin | None:
        """Return the fork and join between these state types, if the program has one."""
        for fork in self.forks:
            if (fork.parent, fork.left, fork.right) == (parent, left, right):
                return fork
        return None

    def order(self, event: Event) -> OrderKey:
        """Return an event's key in the total order."""
        return order_key(event, self.ranks)

    def step(self, state: AnyState, event: Any) -> tuple[AnyState, Outputs]:
        """Return the state after an event (or its data), and the outputs."""
        return self.initial.step(state, event if isinstance(event, Event) else Event(event))

    def update(self, state: AnyState, event: Any) -> AnyState:
        """Return the state after an event."""
        return self.step(state, event)[0]

    def output(self, state: AnyState, event: Any) -> Outputs:
        """Return the outputs of an event, computed on the state before it."""
        return self.step(state, event)[1]

    def fork(
        self,
        state: AnyState,
        left: Iterable[Slice | EventType],
        right: Iterable[Slice | EventType],
        kind: str = "",
    ) -> tuple[AnyState, AnyState]:
        """Return the two states that the first fork of this state type makes of a state."""
        return self._first_fork(kind).fork(state, Slices(left), Slices(right))

    def join(self, left: AnyState, right: AnyState, kind: str = "") -> AnyState:
        """Return two states joined by the first join of this state type."""
        return self._first_fork(kind).join(left, right)

    def _first_fork(self, kind: str) -> ForkJoin:
        for fork in self.forks:
            if fork.parent == (kind or self.initial.name):
                return fork
        raise ProgramError(f"{self.name} has no fork and join", where=self.where)

    def __str__(self) -> str:
        return f"{self.name} ({_names(self.event_types)})"


def read_shape(
    shape: Shape | None,
    init: AnyState,
    zero: AnyState,
    fork: Fork | None,
    join: Join | None,
    same: Callable[[AnyState, AnyState], bool] | None,
    where: Location | None,
) -> Shape:
    """Return the shape that a user's arguments describe; raise if they contradict each other."""
    if shape is None:
        refusals.check_fork_and_join(fork, join, where)
        return WrittenShape(init, zero, fork, join, same)
    refusals.check_shape(shape, where)
    given = any((fork, join, same)) or any(x is not MISSING for x in (init, zero))
    refusals.check_state_is_given_once(given, True, where=where)
    return shape


def _add_expiry(declared: State) -> State:
    """Return a state type with the timer that its `ttl` sets, if it has one."""
    handlers = [handler for handler in declared.handlers if isinstance(handler, Handler)]
    expiry = find_expiry(declared.shape, handlers)
    if expiry is None:
        return declared
    added = State(declared.name, *declared.handlers, expiry, state=declared.shape)
    added.where = declared.where
    return added


def _build_type(
    declared: State, lanes: int | None, laned: tuple[EventType, ...], outputs: OutputTypes
) -> StateType:
    shape = declared.shape
    if lanes is not None and any(handler.event_type in laned for handler in declared.handlers):
        shape = _lane_innermost(shape, lanes)
    checked = [_add_check(handler, outputs) for handler in declared.handlers]
    handlers = {h.event_type: _mark_entries(h, shape, laned) for h in checked}
    return StateType(declared.name, shape, MappingProxyType(handlers), declared.where)


def _add_check(handler: Handler, outputs: OutputTypes) -> Handler:
    if not outputs or handler.output is None:
        return handler
    return replace(handler, check=make_output_check(outputs, handler.output, handler.where))


def _lane_innermost(shape: Shape, lanes: int) -> Shape:
    if shape.by is None:
        return LanedShape(shape, lanes)
    inner = _lane_innermost(shape.inner, lanes)  # type: ignore[attr-defined]
    return replace(shape, inner=inner)  # type: ignore[type-var]


def _mark_entries(handler: Handler, shape: Shape, laned: tuple[EventType, ...]) -> Handler:
    enters: set[str] = set()
    inner: Any = shape
    while inner is not None and inner.by is not None:
        if hasattr(inner, "find_part"):
            # Where keys share a part of the state, events without the key see that part.
            inner = inner.find_part(handler.event_type)
            continue
        by = inner.by
        named = by == CHANNEL or by in field_names(handler.event_type)
        if handler.event_type in laned if by == LANE else named:
            enters.add(by)
        inner = getattr(inner, "inner", None)
    return replace(handler, enters=frozenset() if handler.whole else frozenset(enters))


def _own_forks(types: tuple[StateType, ...], given: list[ForkJoin]) -> list[ForkJoin]:
    """Return the forks that are part of the state types' shapes, into two of the same type."""
    taken = {(fork.parent, fork.left, fork.right) for fork in given}
    return [
        ForkJoin(t.name, t.name, t.name, t.shape.fork, t.shape.join, t.where)
        for t in types
        if t.shape.fork is not None and t.shape.join is not None
        if (t.name, t.name, t.name) not in taken
    ]


def _rebuild(parts: tuple[Any, ...], options: dict[str, Any], where: Location | None) -> Program:
    program = Program(*parts, **options)
    object.__setattr__(program, "where", where)
    return program


def _names(event_types: Iterable[EventType]) -> str:
    return ", ".join(event_type.__name__ for event_type in event_types)
