"""The laws as equations: each is tried on a case, and returns how its two sides differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from anabranch.laws.laws import (
    FUNCTIONS_ARE_PURE,
    INDEPENDENT_UPDATES_COMMUTE,
    JOIN_HAS_IDENTITY,
    JOIN_IS_ASSOCIATIVE,
    JOIN_UNDOES_FORK,
    UPDATE_PASSES_THROUGH_JOIN,
)
from anabranch.laws.rounding import is_close, is_identical, measure_scale
from anabranch.laws.searching.cuts import Cut
from anabranch.laws.searching.reachable import (
    Case,
    UnreachableError,
    copy_state,
    join_sides,
    reach,
    reach_sides,
)
from anabranch.model import failures
from anabranch.model.events import Event
from anabranch.model.program import Program, StateType
from anabranch.model.shapes import AnyState
from anabranch.model.step import step


@dataclass(frozen=True)
class Raised:
    """The outcome of a call that raised: the name of the exception."""

    error: str

    def __repr__(self) -> str:
        return f"raises {self.error}"


@dataclass(frozen=True)
class Inequality:
    """The two sides of an equation that are not equal.

    `kind` is which of a law's equations it is, and `function` which of the user's functions to
    look at first: "fork", "join", "update" or "output".
    """

    kind: str
    function: str
    expected: Any
    got: Any
    rounding: bool = False


TIMES = 4
"""How often a function is called again: a random function may return the same value twice."""

Equation = Callable[[Program, Case], Inequality | None]


def attempt(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the exception that it raises: both are outcomes."""
    outcome = failures.attempt(call)
    return Raised(outcome.kind) if isinstance(outcome, failures.Failed) else outcome


def step_or_stay(state_type: StateType, state: AnyState, event: Event) -> tuple[AnyState, Any]:
    """Return the state after an event and its outputs; one that raises leaves the state unchanged."""
    outcome = attempt(lambda: state_type.step(state, event))
    return (state, outcome) if isinstance(outcome, Raised) else outcome


def agree(state_type: StateType, a: AnyState, b: AnyState) -> bool:
    """Return whether two outcomes are the same state."""
    if isinstance(a, Raised) or isinstance(b, Raised):
        return bool(a == b)
    return attempt(lambda: state_type.shape.same(a, b)) is True or is_identical(a, b)


def _differ(kind: str, function: str, expected: Any, got: Any, case: Case) -> Inequality:
    close = is_close(expected, got, measure_scale(case.list_events()))
    return Inequality(kind, function, expected, got, close)


def try_join_undoes_fork(program: Program, case: Case) -> Inequality | None:
    """C2: `join(*fork(s, left, right)) == s`."""
    parent, state = reach(program, case)
    cut = _require(case.cut)
    again = attempt(lambda: cut.fork.join(*cut.fork.fork(state, cut.left, cut.right)))
    if agree(parent, again, state):
        return None
    return _differ("state", "fork", state, again, case)


def try_update_passes_through_join(program: Program, case: Case) -> Inequality | None:
    """C1: an event changes a side, and has outputs there, as it would in the whole."""
    parent, state = reach(program, case)
    cut, event = _require(case.cut), case.events[0]
    left, right = reach_sides(program, cut, state, case.lefts, case.rights)
    on_left = case.side == "left"
    side_type = program.state_type(cut.side(case.side)[0])
    changed, outputs = step_or_stay(side_type, left if on_left else right, event)
    whole, whole_outputs = step_or_stay(parent, join_sides(cut, left, right), event)
    if not is_identical(outputs, whole_outputs):
        function = (
            "update"
            if isinstance(outputs, Raised) or isinstance(whole_outputs, Raised)
            else "output"
        )
        return _differ("output", function, whole_outputs, outputs, case)
    sides = (changed, right) if on_left else (left, changed)
    joined = attempt(lambda: cut.fork.join(*sides))
    if agree(parent, joined, whole):
        return None
    return _differ("state", "join", whole, joined, case)


def try_independent_updates_commute(program: Program, case: Case) -> Inequality | None:
    """C3: two independent events in either order leave the same state and have the same outputs."""
    state_type, state = reach(program, case)
    first, second = case.events
    between, first_outputs = step_or_stay(state_type, state, first)
    end, second_outputs = step_or_stay(state_type, between, second)
    other, second_outputs_early = step_or_stay(state_type, state, second)
    other_end, first_outputs_late = step_or_stay(state_type, other, first)
    if not is_identical(second_outputs, second_outputs_early):
        return _differ("output of second", "output", second_outputs_early, second_outputs, case)
    if not is_identical(first_outputs, first_outputs_late):
        return _differ("output of first", "output", first_outputs, first_outputs_late, case)
    if agree(state_type, end, other_end):
        return None
    return _differ("state", "update", end, other_end, case)


def try_join_has_identity(program: Program, case: Case) -> Inequality | None:
    """Zero: `join(s, zero) == s`; a delta folded from zero joins as if folded from s."""
    state_type, state = reach(program, case)
    fork = program.find_fork(state_type.name, state_type.name, state_type.name)
    assert fork is not None
    zero = copy_state(state_type.shape.zero)
    joined = attempt(lambda: fork.join(state, zero))
    if not agree(state_type, joined, state):
        return _differ("zero", "join", state, joined, case)
    if not case.events:
        return None
    delta, event = copy_state(state_type.begin_delta()), case.events[0]
    for earlier in case.rights:
        stepped = attempt(partial(state_type.step_delta, delta, earlier))
        delta = delta if isinstance(stepped, Raised) else stepped[0]
    whole = attempt(lambda: state_type.step(state_type.add_delta(state, delta), event)[0])
    joined = attempt(lambda: state_type.add_delta(state, state_type.step_delta(delta, event)[0]))
    if agree(state_type, joined, whole) or _both_raise(joined, whole):
        return None
    raised = isinstance(joined, Raised) or isinstance(whole, Raised)
    return _differ("delta", "update" if raised else "join", whole, joined, case)


def _both_raise(a: Any, b: Any) -> bool:
    """Return whether an event is rejected on both sides; only the reason may differ."""
    return isinstance(a, Raised) and isinstance(b, Raised)


def try_join_is_associative(program: Program, case: Case) -> Inequality | None:
    """`join(join(a, b), c) == join(a, join(b, c))`."""
    state_type, state = reach(program, case)
    cut, inner = _require(case.cut), _require(case.inner)
    a, rest = reach_sides(program, cut, state, case.lefts, case.rights)
    b, c = reach_sides(program, inner, rest, case.seconds, case.thirds)
    join = cut.fork.join
    left_first = attempt(lambda: join(join(a, b), c))
    right_first = attempt(lambda: join(a, join(b, c)))
    if agree(state_type, left_first, right_first):
        return None
    return _differ("state", "join", right_first, left_first, case)


def try_functions_are_pure(program: Program, case: Case) -> Inequality | None:
    """Every function returns equal results for equal arguments, and does not change them."""
    state_type, state = reach(program, case)
    for event in case.events:
        found = _try_handler_twice(state_type, state, event)
        if found:
            return found
    if case.cut is None:
        return None
    cut = case.cut
    sides = tuple(map(program.state_type, (cut.fork.left, cut.fork.right)))
    found = _try_twice(
        "fork", lambda s: cut.fork.fork(s, cut.left, cut.right), (state_type,), (state,), sides
    )
    if found:
        return found
    pair = reach_sides(program, cut, state, case.lefts, case.rights)
    return _try_twice("join", lambda a, b: (cut.fork.join(a, b),), sides, pair, (state_type,))


def _try_handler_twice(state_type: StateType, state: AnyState, event: Event) -> Inequality | None:
    handler = state_type.handlers[type(event.data)]
    output, update = replace(handler, update=None), replace(handler, output=None)
    for name, part in (("output", output), ("update", update)):
        if getattr(handler, name) is not None:
            call = partial(step, state_type.shape, part, event=event)
            found = _try_twice(name, call, (state_type,), (state,), (state_type, None))
            if found:
                return found
    return None


def _try_twice(
    name: str,
    function: Callable[..., tuple[Any, ...]],
    takes: tuple[StateType, ...],
    arguments: tuple[AnyState, ...],
    gives: tuple[StateType | None, ...],
) -> Inequality | None:
    before = tuple(map(copy_state, arguments))
    first = copy_state(attempt(lambda: function(*arguments)))
    for state_type, argument, kept in zip(takes, arguments, before, strict=True):
        if not agree(state_type, argument, kept):
            return Inequality("changed", name, kept, argument)
    for _ in range(TIMES):
        again = attempt(lambda: function(*map(copy_state, before)))
        if isinstance(first, Raised) or isinstance(again, Raised):
            if first != again:
                return Inequality("again", name, first, again)
            continue
        for given, one, two in zip(gives, first, again, strict=True):
            if not (is_identical(one, two) if given is None else agree(given, one, two)):
                return Inequality("again", name, one, two)
    return None


def _require(cut: Cut | None) -> Cut:
    assert cut is not None
    return cut


EQUATIONS: dict[str, Equation] = {
    FUNCTIONS_ARE_PURE.name: try_functions_are_pure,
    UPDATE_PASSES_THROUGH_JOIN.name: try_update_passes_through_join,
    JOIN_UNDOES_FORK.name: try_join_undoes_fork,
    INDEPENDENT_UPDATES_COMMUTE.name: try_independent_updates_commute,
    JOIN_HAS_IDENTITY.name: try_join_has_identity,
    JOIN_IS_ASSOCIATIVE.name: try_join_is_associative,
}
"""The equation of each law."""


def try_law(law: str, program: Program, case: Case) -> Inequality | None:
    """Return how a law fails on a case, or None. A case that can't be reached breaks nothing."""
    try:
        return EQUATIONS[law](program, case)
    except UnreachableError:
        return None
