"""Trials: quick runs that reject a wrong fork and join before a full check.

A trial folds some events, forks, folds on each side events that are independent of the other side,
joins, and compares the result with the fold without forks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from anabranch.laws.rounding import is_close, is_identical, measure_scale
from anabranch.laws.searching.generators import (
    find_constants,
    find_domain,
    find_keys,
    make_field,
    sample_values,
)
from anabranch.model.events import Event, field_names
from anabranch.model.failures import Failed, attempt
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.slices import Slice, Slices, take
from anabranch.model.values.event_times import time_field, write_time

OUTPUTS = "outputs"
EVENTS_PER_TYPE = 24


@dataclass(frozen=True)
class Trial:
    """A state, and events for two or three sides that are independent of each other."""

    state: Any
    lefts: tuple[Event, ...]
    rights: tuple[Event, ...]
    thirds: tuple[Event, ...]
    slices: tuple[Slices, ...]


@dataclass(frozen=True)
class TrialInputs:
    """Everything needed to try candidates for one program."""

    program: Program
    trials: tuple[Trial, ...]
    states: tuple[Any, ...]
    constants: tuple[int, ...]
    keys: tuple[str, ...]


def prepare(program: Program, count: int, seed: int) -> TrialInputs:
    """Return trials; the same ones for the same seed."""
    rng = Random(seed)
    keys = find_keys(program)
    pool = _make_events(program, keys, rng)
    states: list[Any] = [program.init]
    trials: list[Trial] = []
    for _ in range(count):
        state, _ = fold(program, program.init, rng.choices(pool, k=rng.randint(0, 6)))
        states.append(state)
        sides = _draw_sides(program, pool, rng)
        if sides is not None:
            cut = tuple(Slices(_slice(event, keys) for event in side) for side in sides)
            trials.append(Trial(state, *sides, cut))
    mentioned = find_constants(program)[int]
    return TrialInputs(program, tuple(trials), tuple(states), mentioned, tuple(sorted(keys)))


def _make_events(program: Program, keys: Iterable[str], rng: Random) -> list[Event]:
    domains = {field: find_domain(program, field, {}) for field in sorted(keys)}
    constants = find_constants(program)
    pool: list[Event] = []
    for event_type in program.event_types:
        choices = {
            name: domains.get(name) or sample_values(make_field(event_type, name, constants), 20)
            for name in field_names(event_type)
            if name != time_field(event_type)
        }
        for _ in range(EVENTS_PER_TYPE):
            place = len(pool)
            fields = {name: rng.choice(values) for name, values in choices.items()}
            time = {time_field(event_type): write_time(event_type, place)}
            pool.append(Event(event_type(**time, **fields), f"s{place % 3}", place))
    return pool


def _slice(event: Event, keys: Iterable[str]) -> Slice:
    data = event.data
    return take(type(data), **{k: getattr(data, k) for k in keys if hasattr(data, k)})


def _draw_sides(
    program: Program, pool: list[Event], rng: Random
) -> tuple[tuple[Event, ...], tuple[Event, ...], tuple[Event, ...]] | None:
    """Return events of three sides; the third may be empty, the others not."""
    apart = program.dependence.independent
    first = rng.choice(pool)
    others = [event for event in pool if apart(first, event)]
    if not others:
        return None
    second = rng.choice(others)
    lefts, rights = [first], [second]
    thirds: list[Event] = []
    for event in rng.choices(pool, k=8):
        sides = [lefts, rights, thirds]
        mine = rng.randrange(3)
        if len(sides[mine]) < 3 and all(
            apart(event, other) for n, side in enumerate(sides) if n != mine for other in side
        ):
            sides[mine].append(event)
    return tuple(lefts), tuple(rights), tuple(thirds)


def fold(program: Program, state: Any, events: Iterable[Event]) -> tuple[Any, tuple[Any, ...]]:
    """Return the state and outputs after some events; one that raises is rejected, as in a run."""
    outputs: list[Any] = []
    for event in events:
        stepped = attempt(program.step, state, event)
        if isinstance(stepped, Failed):
            outputs.append((f"raised {stepped.kind}",))
            continue
        state = stepped[0]
        outputs.append(stepped[1])
    return state, tuple(outputs)


def find_misses(
    material: TrialInputs, pair: Mapping[str, Any], trial: Trial
) -> list[tuple[Any, Any, str]]:
    """Return the differences from the fold without forks: expected, got, and the part."""
    try:
        compared = _compare(material.program, pair, trial)
    except Exception:  # noqa: BLE001 - a piece that does not fit may raise anything
        return [(None, None, "")]
    events = [*trial.lefts, *trial.rights, *trial.thirds]
    same = material.program.initial.shape.same
    return [
        (expected, got, about)
        for expected, got, about in compared
        if not _agree(same if not about else is_identical, expected, got, events)
    ]


def _agree(same: Any, expected: Any, got: Any, events: list[Event]) -> bool:
    try:
        return bool(same(expected, got)) or is_close(expected, got, measure_scale(events))
    except Exception:  # noqa: BLE001 - states of different kinds may not even compare
        return False


def _compare(program: Program, pair: Mapping[str, Any], trial: Trial) -> list[tuple[Any, Any, str]]:
    fork, join, zero = pair["fork"], pair["join"], pair.get("zero", MISSING)
    state, (at_left, at_right, at_third) = trial.state, trial.slices
    left, right = fork(state, at_left, at_right | at_third)
    found = [(state, join(left, right), "")]
    right, third = fork(right, at_right, at_third) if trial.thirds else (right, None)
    left, left_outputs = fold(program, left, trial.lefts)
    right, right_outputs = fold(program, right, trial.rights)
    whole, expected_left = fold(program, state, trial.lefts)
    whole, expected_right = fold(program, whole, trial.rights)
    found += [(expected_left, left_outputs, OUTPUTS), (expected_right, right_outputs, OUTPUTS)]
    if trial.thirds:
        third, third_outputs = fold(program, third, trial.thirds)
        whole, expected = fold(program, whole, trial.thirds)
        found += [(expected, third_outputs, OUTPUTS), (whole, join(left, join(right, third)), "")]
        found.append((whole, join(join(left, right), third), ""))
    else:
        found.append((whole, join(left, right), ""))
    if zero is not MISSING:
        # An event type that depends on itself, even per key, is folded in order and never from zero.
        restrictions = program.dependence.restrictions
        folded = [e for e in trial.rights if not restrictions(e.event_type, e.event_type)]
        delta, _ = fold(program, zero, folded)
        later, _ = fold(program, state, folded)
        ends = ((state, join(state, zero)), (later, join(state, delta)))
        found += [(expected, got, "") for expected, got in ends]
    return found
