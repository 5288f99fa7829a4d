"""Checks of a program when it is built. Each raises `ProgramError` with the place and the cure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model.dependence import Dependence
from anabranch.model.events import CHANNEL, LANE, EventType, field_names, field_types
from anabranch.model.handlers import Handler, check_arity, reads_state
from anabranch.model.shapes import MISSING, Shape
from anabranch.model.step import find_limit
from anabranch.model.values.durations import check_spans
from anabranch.model.values.event_times import is_timestamped, time_field


def check_parts(parts: Sequence[Any], kinds: tuple[type, ...], where: Location | None) -> None:
    """Raise if a part is not made by `on`, `depends`, `State` or `ForkJoin`."""
    for part in parts:
        if not isinstance(part, kinds):
            raise ProgramError(
                f"{part!r} is not a part of a program",
                where=where,
                expected="on(...), depends(...), State(...) or ForkJoin(...)",
                got=f"a {type(part).__name__}",
                cure="wrap an event type as on(EventType, update=..., output=...)",
            )


def check_changes(changes: Any, where: Location | None) -> tuple[Any, ...]:
    """Return the changes as a tuple; raise if one is not a change of `anabranch.state`."""
    given = tuple(changes) if isinstance(changes, list | tuple) else (changes,)
    for change in given:
        if isinstance(change, type) or not hasattr(change, "identity"):
            raise ProgramError(
                f"{change!r} is not a change",
                where=where,
                expected='changes=(Rename("Stats", "count", "seen"), ...), or Drop, Default, Retype, '
                "Reshape, Rekey of anabranch.state",
                got="a class, not an instance"
                if isinstance(change, type)
                else type(change).__name__,
            )
    return given


def check_state_is_given_once(*ways: bool, where: Location | None) -> None:
    """Raise if the state is described in more than one way."""
    if sum(ways) > 1:
        raise ProgramError(
            "the state is described twice",
            where=where,
            expected="either `init` (with fork, join, zero, same), or `state=`, or `State(...)`",
            got="more than one of them",
            cure="keep one; in a program with several `State`, put the handlers inside them",
        )


def check_fork_and_join(fork: Any, join: Any, where: Location | None) -> None:
    """Raise if there is a fork without a join or the reverse, or if either has the wrong arguments."""
    if (fork is None) != (join is None):
        given, absent = ("fork", "join") if join is None else ("join", "fork")
        raise ProgramError(
            f"the state has a {given} and no {absent}",
            where=where,
            expected="both, or neither",
            got=f"only `{given}`",
            cure=f"add `{absent}`; `anabranch check --synthesise` can look for a pair",
        )
    if fork is not None:
        check_arity("the fork", fork, ("state", "left", "right"), where)
        check_arity("the join", join, ("left", "right"), where)


def check_shape(shape: Any, where: Location | None) -> None:
    """Raise if `state=` is not a shape."""
    if isinstance(shape, type) or not isinstance(shape, Shape):
        name = shape.__name__ if isinstance(shape, type) else repr(shape)
        raise ProgramError(
            f"state={name} is not a state",
            where=where,
            expected="a ready-made state such as Sum() or MapOf(Count(), by='key')",
            got="a class, not an instance" if isinstance(shape, type) else type(shape).__name__,
            cure=f"write state={name}()" if isinstance(shape, type) else "or give init=",
        )


def check_handlers(declared: Sequence[Any], where: Location | None) -> tuple[EventType, ...]:
    """Return the event types; raise if a state type has no handlers, duplicates, or more than the first has."""
    first = declared[0]
    if first.shape.init is MISSING:
        raise ProgramError(
            "the program has no state to start from",
            where=first.where or where,
            expected="init=..., or state=Sum() or the like",
            got="neither",
            cure="for a program without state, give init=None",
        )
    names = [states.name for states in declared]
    if len(set(names)) < len(names):
        raise ProgramError("two state types have the same name", where=where, got=", ".join(names))
    for states in declared:
        _check_own_handlers(states, where)
    event_types = tuple(handler.event_type for handler in first.handlers)
    for states in declared[1:]:
        for handler in states.handlers:
            if handler.event_type not in event_types:
                raise ProgramError(
                    f"state type {states.name!r} handles {handler.event_type.__name__}, which the first "
                    f"state type {first.name!r} does not",
                    where=handler.where,
                    expected=f"one of {', '.join(event_type.__name__ for event_type in event_types)}",
                    got=handler.event_type.__name__,
                    cure=f"add on({handler.event_type.__name__}, ...) to {first.name!r}: a run starts from "
                    "that state, so it must handle every event type",
                )
    return event_types


def _check_own_handlers(states: Any, where: Location | None) -> None:
    seen: dict[EventType, Handler] = {}
    for handler in states.handlers:
        if not isinstance(handler, Handler):
            raise ProgramError(
                f"{handler!r} is not a handler",
                where=states.where,
                expected="on(EventType, update=..., output=...)",
                got=f"a {type(handler).__name__}",
            )
        if handler.event_type in seen:
            raise ProgramError(
                f"{handler.event_type.__name__} is handled twice by one state type",
                where=handler.where,
                expected="one on(...) per event type",
                got=f"another one at {seen[handler.event_type].where}",
                cure="put update and output into one on(...)",
            )
        seen[handler.event_type] = handler
    if not seen:
        raise ProgramError(
            f"state type {states.name!r} handles nothing",
            where=states.where or where,
            expected="at least one on(EventType, ...)",
            got="none",
        )


def check_names(event_types: Sequence[EventType], where: Location | None) -> None:
    """Raise if two event types have the same name: files of events identify them by name."""
    names = [event_type.__name__ for event_type in event_types]
    for name in names:
        if names.count(name) > 1:
            raise ProgramError(
                f"two event types are called {name}",
                where=where,
                expected="a different name for each event type",
                got=", ".join(
                    f"{event_type.__module__}.{event_type.__qualname__}"
                    for event_type in event_types
                ),
            )


def check_forks(types: Sequence[Any], forks: Sequence[Any]) -> None:
    """Raise if a fork names a state type that does not exist, or one with event types its parent lacks."""
    known = {state_type.name: state_type for state_type in types}
    for fork in forks:
        for name in (fork.parent, fork.left, fork.right):
            if name not in known:
                raise ProgramError(
                    f"a fork names state type {name!r}, which the program does not have",
                    where=fork.where,
                    expected=f"one of {', '.join(map(repr, known))}",
                    got=repr(name),
                )
        parent = known[fork.parent]
        for side in (fork.left, fork.right):
            extra = [
                event_type.__name__
                for event_type in known[side].handlers
                if event_type not in parent.handlers
            ]
            if extra:
                raise ProgramError(
                    f"the fork {fork.parent} -> {fork.left}, {fork.right} does not fit: "
                    f"{side!r} handles event types that {fork.parent!r} does not handle",
                    where=fork.where,
                    expected=f"{side!r} to handle only event types of {fork.parent!r}",
                    got=", ".join(extra),
                    cure=f"add on({extra[0]}, ...) to {fork.parent!r}, or fork from another type",
                )
    triples = [(fork.parent, fork.left, fork.right) for fork in forks]
    for fork in forks:
        if triples.count((fork.parent, fork.left, fork.right)) > 1:
            raise ProgramError(
                f"two forks {fork.parent} -> {fork.left}, {fork.right}", where=fork.where
            )


def check_entries(types: Sequence[Any], where: Location | None) -> None:
    """Raise if the state has one entry per value of a field that no event type has."""
    for state_type in types:
        shape = state_type.shape
        while shape.by is not None:
            by = shape.by
            if by != LANE and not any(by in h.enters for h in state_type.handlers.values()):
                fields = sorted(
                    {name for event_type in state_type.handlers for name in field_names(event_type)}
                )
                raise ProgramError(
                    f"the state has one entry per {by!r}, and no event type has that field",
                    where=state_type.where or where,
                    expected=f"an event type with a field {by!r}",
                    got=f"fields {', '.join(fields)}",
                )
            shape = shape.inner


def check_copies(types: Sequence[Any], dependence: Dependence) -> None:
    """Raise if an event may change one copy of a replicated state while another copy is read."""
    for state_type in types:
        shape = state_type.shape
        while shape.by is not None:
            shape = shape.inner
        if not getattr(shape, "replicated", False):
            continue
        seeing = [
            h
            for h in state_type.handlers.values()
            if h.update or (h.output and reads_state(h.output))
        ]
        for handler in (h for h in seeing if h.update):
            for other in seeing:
                entered = handler.enters & other.enters
                restrictions = dependence.restrictions(handler.event_type, other.event_type)
                if not any(set(same) <= entered for same in restrictions):
                    _refuse_copies(handler, other, sorted(entered))


def _refuse_copies(handler: Handler, other: Handler, entered: list[str]) -> None:
    name, seen = handler.event_type.__name__, other.event_type.__name__
    same = "".join(f", same={field!r}" for field in entered[:1])
    apart = f"{name} and {seen}" if name != seen else f"events of {name}"
    raise ProgramError(
        f"{name} changes a Replicated state, and {seen} may read another copy of it",
        where=handler.where,
        expected=f"{name} to depend on all event types that read the state, as markers do",
        got=f"{apart} are independent of each other",
        cure=f"add depends({name}, {seen}{same}), or use Value",
    )


def check_limits(types: Sequence[Any], forks: Sequence[Any]) -> None:
    """Raise if a user's function forks a state with a limit: neither part can check the size of the whole."""
    limited = {t.name for t in types if find_limit(t.shape) is not None}
    for fork in forks:
        named = [name for name in (fork.parent, fork.left, fork.right) if name in limited]
        if named:
            raise ProgramError(
                f"state type {named[0]!r} has a limit, and is also forked",
                where=fork.where,
                expected="a limit only on a state type without forks",
                got=f"the fork {fork.parent} -> {fork.left}, {fork.right}",
                cure="remove the limit, or keep the state per key: MapOf(Limited(...), by=...)",
            )


def check_times(declared: Sequence[Any], where: Location | None) -> None:
    """Raise if some event times are datetimes and others integers, or if a `ttl` has another unit."""
    handlers = [handler for states in declared for handler in states.handlers]
    inputs = [handler.event_type for handler in handlers if handler.due is None]
    moments = [event_type for event_type in inputs if is_timestamped(event_type)]
    # The library's own event types, such as clock ticks, have integer times in microseconds.
    counts = [
        event_type
        for event_type in inputs
        if field_types(event_type)[time_field(event_type)] is int
        and not event_type.__module__.startswith("anabranch.")
    ]
    if moments and counts:
        raise ProgramError(
            "some event times are datetimes and others are integers",
            where=where,
            expected="a datetime in every event type, or an integer in every event type",
            got=f"a datetime in {moments[0].__name__}, an integer in {counts[0].__name__}",
            cure=f"make the time of {counts[0].__name__} a datetime too",
        )
    names = ", ".join(dict.fromkeys(event_type.__name__ for event_type in inputs))
    for states in declared:
        check_spans(_list_ages(states.shape), timestamped=bool(moments), of=names, where=where)


def _list_ages(shape: Any) -> Iterator[tuple[str, int]]:
    """Yield the `ttl` of each shape in a nested shape."""
    while shape is not None:
        if hasattr(shape, "expire"):
            yield "ttl", shape.ttl
        shape = getattr(shape, "inner", None)


def check_timers(
    declared: Sequence[Any], lanes: int | None, rank: tuple[EventType, ...], where: Location | None
) -> None:
    """Raise if a timer does not identify one entry of the state, or if no shard has that whole entry."""
    timers = [h for states in declared for h in states.handlers if h.due is not None]
    if not timers:
        return
    if len(declared) > 1 or lanes is not None:
        first, cure = (
            f"{timers[0].event_type.__name__} is a timer",
            "keep the state per key: state=MapOf(..., by=...)",
        )
        if timers[0].expires:
            first, cure = (
                "the ttl sets a timer",
                "leave out the ttl, the lanes or the other state types",
            )
        raise ProgramError(
            f"{first}, and no shard has the whole state that it reads",
            where=timers[0].where or where,
            expected="one state type, and no lanes",
            got="lanes" if lanes is not None else f"{len(declared)} state types",
            cure=cure,
        )
    keys: list[str] = []
    shape = declared[0].shape
    while shape.by is not None:
        if hasattr(shape, "find_part"):
            _check_timers_of_entries(timers, shape.by)
        keys.append(shape.by)
        shape = shape.inner
    for timer in timers:
        fields = [
            name for name in field_names(timer.event_type) if name != time_field(timer.event_type)
        ]
        if timer.whole or set(fields) != set(keys[: len(fields)]):
            raise ProgramError(
                f"timer {timer.event_type.__name__} does not identify the entry it is for",
                where=timer.where,
                expected=f"fields time{''.join(f', {key}' for key in keys)}",
                got="whole=True" if timer.whole else f"time, {', '.join(fields)}".rstrip(", "),
                cure="give the timer a time and the key fields of the state",
            )
        if timer.event_type in rank:
            raise ProgramError(
                f"rank names timer {timer.event_type.__name__}",
                where=where,
                expected="event types that channels deliver",
                got=timer.event_type.__name__,
                cure="leave it out: at equal times, timers are always last",
            )


def _check_timers_of_entries(timers: Sequence[Handler], by: str) -> None:
    for timer in timers:
        if by not in field_names(timer.event_type):
            raise ProgramError(
                f"timer {timer.event_type.__name__} is for the part of the state that all keys share",
                where=timer.where,
                expected=f"a timer of an entry, with a field {by!r}",
                got=f"fields {', '.join(field_names(timer.event_type))}",
                cure="change the shared part by events of a channel",
            )


def check_lanes(
    lanes: Any,
    declared: Sequence[Any],
    dependence: Dependence,
    laned: tuple[EventType, ...],
    where: Location | None,
) -> None:
    """Raise if lanes are given and events can't be spread over them."""
    if not isinstance(lanes, int) or isinstance(lanes, bool) or not 1 <= lanes <= 65536:
        raise ProgramError(
            "lanes is not a number of lanes",
            where=where,
            expected="an integer from 1 to 65536",
            got=repr(lanes),
        )
    _check_unshared(declared, lanes, where)
    tied = [(a, b) for a in laned for b in laned if dependence.depend(a, b)]
    if not laned or tied:
        got = (
            f"{tied[0][0].__name__} and {tied[0][1].__name__} depend on each other"
            if tied
            else "every event type depends on itself"
        )
        raise ProgramError(
            "no events can be spread over lanes",
            where=where,
            expected="some event types whose events are all independent of each other",
            got=got,
            cure="leave out lanes=; this program already folds in order",
        )
    for event_type in dependence.event_types:
        apart = [other for other in laned if not dependence.restrictions(event_type, other)]
        if event_type not in laned and apart:
            raise ProgramError(
                f"{event_type.__name__} reads all lanes, and is independent of {apart[0].__name__}",
                where=where,
                expected=f"{event_type.__name__} to depend on the event types that are spread over lanes",
                got=f"{event_type.__name__} and {apart[0].__name__} are independent",
                cure=f"add depends({event_type.__name__}, {apart[0].__name__}), or leave out lanes",
            )
    for states in declared:
        for handler in states.handlers:
            if handler.event_type in laned and (handler.update or handler.output):
                _check_spread(handler, states.shape)
                _check_silent(handler)
        inner = states.shape
        while inner.by is not None:
            inner = inner.inner
        if not any(h.event_type in laned for h in states.handlers):
            continue
        if inner.fork is None or inner.zero is MISSING:
            raise ProgramError(
                "lanes need a state with fork, join and zero",
                where=states.where or where,
                expected="fork=, join= and zero=, or a ready-made state that has them",
                got="no fork and join" if inner.fork is None else "no zero",
            )


def _check_unshared(declared: Sequence[Any], lanes: int, where: Location | None) -> None:
    for states in declared:
        shape = states.shape
        while shape.by is not None:
            if hasattr(shape, "find_part"):
                raise ProgramError(
                    "a state with a part that keys share can't have lanes",
                    where=states.where or where,
                    expected="Shared(...) without lanes",
                    got=f"lanes={lanes}",
                    cure="leave out lanes=; keep floats in ExactSum, ExactMean or ExactVariance",
                )
            shape = shape.inner


def _check_spread(handler: Handler, shape: Any) -> None:
    while not handler.whole and shape.by is not None:
        if shape.by != CHANNEL and shape.by not in field_names(handler.event_type):
            break
        shape = shape.inner
    if handler.whole or shape.by is not None:
        raise ProgramError(
            f"{handler.event_type.__name__} is spread over lanes, and its handler reads all of them",
            where=handler.where,
            expected="a handler that reads only its own entry, or an event type that depends on itself",
            got="whole=True" if handler.whole else f"no field {shape.by!r}",
            cure=f"add depends({handler.event_type.__name__}, {handler.event_type.__name__}), or leave out lanes",
        )


def _check_silent(handler: Handler) -> None:
    if handler.output is not None and reads_state(handler.output):
        raise ProgramError(
            f"the output of {handler.event_type.__name__} reads the state, of which a lane has only a part",
            where=handler.where,
            expected="an output function that reads only the event",
            got="an output function that reads the state",
            cure="leave out lanes=, and keep floats in ExactSum, ExactMean or ExactVariance",
        )
