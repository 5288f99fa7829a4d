"""Generators of values and events: few, small and likely to be equal, so that failures are readable.

Every pool is a fixed list, simplest first, widened only by the constants that a program's own
functions contain. So a search depends on the program and the seed alone, and shrinks well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import enum
import itertools
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any, Literal, Union

from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument, NoSuchExample, ResolutionFailed, Unsatisfiable

from anabranch.errors import InputError
from anabranch.model.events import CHANNEL, LANE, EventType, field_names, field_types
from anabranch.model.program import Program

Strategy = st.SearchStrategy[Any]

POOLS: Mapping[Any, tuple[Any, ...]] = types.MappingProxyType(
    {
        int: (0, 1, 2, -1, 3, -2, 5, 10, -10, 100, 1000, 1_000_000),
        # Sums of tenths round; all are of similar size, so that rounding stays in the last bits.
        float: (0.0, 1.0, 0.1, 0.2, 0.3, 0.7, -0.1, 2.5, -1.5, 10.1, 1000.3),
        bool: (False, True),
        str: ("a", "b", "", "ab", "é"),
        bytes: (b"a", b"b", b"", b"\x00\xff"),
        type(None): (None,),
        complex: (0j, 1j, 1 + 0j),
        Decimal: (Decimal(0), Decimal(1), Decimal("0.1"), Decimal("-2.5"), Decimal(100)),
        Fraction: (Fraction(0), Fraction(1), Fraction(1, 3), Fraction(-5, 2)),
        dt.date: tuple(dt.date(2024, 2, day) for day in (1, 2, 29)),
        # With a zone, as readers bring them.
        dt.datetime: tuple(dt.datetime(2024, 2, day, tzinfo=dt.UTC) for day in (1, 2, 29)),
        dt.timedelta: tuple(dt.timedelta(seconds=n) for n in (0, 1, 3600)),
    }
)
"""The values to try for each type, simplest first."""

KEYS: Mapping[Any, tuple[Any, ...]] = types.MappingProxyType(
    {int: (1, 2, 3), str: ("a", "b", "c"), float: (1.0, 2.0, 3.0), bytes: (b"a", b"b", b"c")}
)
"""The few values of fields by which events depend on each other, so that equal ones are likely."""

MAX_CONSTANTS = 12
MAX_COMBINATIONS = 4000


def make_settings(cases: int) -> settings:
    """Return Hypothesis settings: determined by the seed, without a database and without output."""
    return settings(
        max_examples=cases,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )


def sample_values(strategy: Strategy, count: int) -> list[Any]:
    """Return a few distinct values of a strategy, always the same ones."""
    seen: dict[str, Any] = {}

    def note(value: Any) -> bool:
        seen.setdefault(repr(value), value)
        return len(seen) >= count

    with contextlib.suppress(NoSuchExample, Unsatisfiable):
        find(strategy, note, settings=make_settings(20 * count), random=Random(0))
    return list(seen.values())[:count]


def find_constants(program: Program) -> dict[type, tuple[Any, ...]]:
    """Return the numbers and strings that a program's functions contain, by type.

    Behaviour changes at a threshold, so the neighbours of numbers are included.
    """
    found: dict[type, dict[Any, None]] = {int: {}, float: {}, str: {}}
    for function in _functions_of(program):
        for value in _constants_in(getattr(function, "__code__", None)):
            if type(value) is int and abs(value) <= POOLS[int][-1]:
                found[int].update(dict.fromkeys((value, value + 1, value - 1)))
            elif type(value) is float and abs(value) < 1e9:
                found[float][value] = None
            elif type(value) is str and 0 < len(value) <= 20:
                found[str][value] = None
    return {kind: tuple(values)[:MAX_CONSTANTS] for kind, values in found.items()}


def _functions_of(program: Program) -> Iterator[Any]:
    for state_type in program.state_types:
        for handler in state_type.handlers.values():
            yield from (handler.update, handler.output)
    for fork in program.forks:
        yield from (fork.fork, fork.join)


def _constants_in(code: types.CodeType | None) -> Iterator[Any]:
    for value in () if code is None else code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _constants_in(value)
        else:
            yield value


def list_pool(annotation: Any, constants: Mapping[type, tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """Return the values to try for a type, simplest first, if they can be listed."""
    if annotation in (Any, object):
        annotation = int
    if typing.get_origin(annotation) is Literal:
        return typing.get_args(annotation)
    if not isinstance(annotation, type):
        return None
    if annotation in POOLS:
        pool = POOLS[annotation]
        more = (value for value in constants.get(annotation, ()) if value not in pool)
        return (*pool, *more)
    return tuple(annotation) if issubclass(annotation, enum.Enum) else None


def favour_simple(pool: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a pool in which the simplest values are more likely: equal events find more failures."""
    return (*pool[:4], *pool[:4], *pool) if len(pool) > 4 else pool


def make_strategy(annotation: Any, constants: Mapping[type, tuple[Any, ...]]) -> Strategy:
    """Return a strategy for values of an annotated type; small ints where nothing is known."""
    pool = list_pool(annotation, constants)
    if pool is not None:
        return st.sampled_from(favour_simple(pool))
    return _make_composed(annotation, lambda part: make_strategy(part, constants))


def _make_composed(annotation: Any, make: Callable[[Any], Strategy]) -> Strategy:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return st.one_of([make(part) for part in arguments])
    if origin is typing.Annotated:
        return make(arguments[0])
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return st.lists(make(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(make, arguments))
    if origin in (list, frozenset, set):
        return st.lists(make(arguments[0]), max_size=3).map(origin)
    if origin is dict:
        return st.dictionaries(make(arguments[0]), make(arguments[1]), max_size=2)
    if hasattr(annotation, "__supertype__"):
        return make(annotation.__supertype__)
    if dataclasses.is_dataclass(annotation) or hasattr(annotation, "_fields"):
        fields = field_types(annotation)
        return st.builds(annotation, **{name: make(part) for name, part in fields.items()})
    return st.from_type(annotation)


def make_field(
    event_type: EventType, name: str, constants: Mapping[type, tuple[Any, ...]]
) -> Strategy:
    """Return a strategy for one field of an event type, or raise InputError if there is none."""
    annotation = field_types(event_type)[name]
    try:
        strategy = make_strategy(annotation, constants)
        strategy.validate()
    except (ResolutionFailed, InvalidArgument, TypeError) as error:
        raise InputError(
            f"values of {event_type.__name__}.{name} can't be generated",
            expected="a field of plain Python types",
            got=f"`{name}: {getattr(annotation, '__name__', annotation)}`",
            cure=f"pass events={{{event_type.__name__}: a Hypothesis strategy for whole events}}",
        ) from error
    return strategy


def find_keys(program: Program) -> frozenset[str]:
    """Return the fields by which events depend on each other, or states have entries."""
    restrictions = itertools.chain.from_iterable(
        same
        for a, b in itertools.product(program.event_types, repeat=2)
        for same in program.dependence.restrictions(a, b)
    )
    entered = itertools.chain.from_iterable(
        handler.enters
        for state_type in program.state_types
        for handler in state_type.handlers.values()
    )
    return frozenset(restrictions).union(entered) - {LANE, CHANNEL}


def find_domain(
    program: Program, field: str, events: Mapping[EventType, Strategy], count: int = 3
) -> tuple[Any, ...]:
    """Return the few values of a key field, the same for every event type that has it."""
    having = [event_type for event_type in program.event_types if field in field_names(event_type)]
    given = [event_type for event_type in having if event_type in events]
    if given:
        values: Iterable[Any] = (getattr(e, field) for e in sample_values(events[given[0]], 12))
        return tuple(dict.fromkeys(values))[:count]
    annotation = field_types(having[0])[field]
    if annotation in (Any, object):
        annotation = int
    if isinstance(annotation, type) and annotation in KEYS:
        return KEYS[annotation][:count]
    return tuple(sample_values(make_field(having[0], field, {}), count))


def combine_pools(pools: Mapping[str, tuple[Any, ...]]) -> Strategy | None:
    """Return one draw for several fields: their combinations, the simple ones first.

    None where there are too many of them.
    """
    if math.prod(map(len, pools.values())) > MAX_COMBINATIONS:
        return None
    ranked = sorted(
        itertools.product(*(range(len(pool)) for pool in pools.values())),
        key=lambda places: (sum(places), places),
    )
    return st.sampled_from(
        [
            {name: pool[at] for (name, pool), at in zip(pools.items(), places, strict=True)}
            for places in ranked
        ]
    )
