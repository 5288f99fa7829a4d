"""Counterexamples: the failure of a law on a case, as a program and as text."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anabranch.errors import Location
from anabranch.laws.laws import (
    FUNCTIONS_ARE_PURE,
    INDEPENDENT_UPDATES_COMMUTE,
    JOIN_HAS_IDENTITY,
    JOIN_IS_ASSOCIATIVE,
    JOIN_UNDOES_FORK,
    UPDATE_PASSES_THROUGH_JOIN,
)
from anabranch.laws.reports import Counterexample
from anabranch.laws.searching.cuts import Cut
from anabranch.laws.searching.equations import Inequality, Raised
from anabranch.laws.searching.literals import abridge
from anabranch.laws.searching.reachable import Case
from anabranch.laws.searching.scripts import Script
from anabranch.model.locations import locate_function
from anabranch.model.program import ForkJoin, Program, StateType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True)
class FailingCase:
    """A case on which a law fails, and the difference."""

    law: str
    case: Case
    difference: Inequality


def describe_finding(
    finding: FailingCase,
    program: Program,
    *,
    seed: int,
    target: str | None,
    without_lanes: bool = False,
) -> Counterexample:
    """Return a finding as a counterexample for the user."""
    difference = finding.difference
    # Random values would differ in every comment.
    script = Script(program, shows=difference.kind != "again")
    state_type = script.reach(finding.case, copied=finding.law == FUNCTIONS_ARE_PURE.name)
    _ENDINGS[finding.law](script, state_type, finding.case, difference)
    return Counterexample(
        law=finding.law,
        code=script.write(target, without_lanes=without_lanes),
        description=describe_difference(finding),
        expected=difference.expected,
        got=difference.got,
        seed=seed,
        where=locate_finding(finding, program, state_type),
    )


def _guard(script: Script, name: str, call: str, outcome: Any) -> None:
    """Add `name = call`, with the exception caught where the call raises."""
    raised = isinstance(outcome, Raised)
    script.run(f"{name} = outcome(lambda: {call})" if raised else f"{name} = {call}", name)


def _compare_outcomes(
    script: Script, state_type: StateType, difference: Inequality, got: str, expected: str
) -> None:
    """Add the assertion that two outcomes are the same; an exception is compared by its name."""
    raised = any(isinstance(side, Raised) for side in (difference.got, difference.expected))
    script.compare(None if raised else state_type, got, expected)


def _end_join_undoes_fork(
    script: Script, state_type: StateType, case: Case, difference: Inequality
) -> None:
    assert case.cut is not None
    if isinstance(difference.got, Raised):
        again = script.join(case.cut.fork, f"*{script.fork(case.cut, 's')}")
        _guard(script, "again", again, difference.got)
    else:
        script.part(case.cut, ("left", "right"), "s")
        script.run(f"again = {script.join(case.cut.fork, 'left', 'right')}", "again")
    _compare_outcomes(script, state_type, difference, "again", "s")


def _end_update_passes_through_join(
    script: Script, state_type: StateType, case: Case, difference: Inequality
) -> None:
    cut = case.cut
    assert cut is not None
    script.part(cut, ("s1", "s2"), "s", (case.lefts, case.rights))
    script.run(f"e = {script.event(case.events[0])}")
    on_left = case.side == "left"
    side = "s1" if on_left else "s2"
    side_type = script.program.state_type(cut.side(case.side)[0])
    joined = script.join(cut.fork, "s1", "s2")
    if difference.kind == "output":
        _guard(script, "alone", script.output(side_type, side, "e"), difference.got)
        _guard(script, "whole", script.output(state_type, joined, "e"), difference.expected)
        script.compare(None, "alone", "whole")
        return
    changed = script.update(side_type, side, "e")
    sides = (changed, "s2") if on_left else ("s1", changed)
    _guard(script, "joined", script.join(cut.fork, *sides), difference.got)
    _guard(script, "whole", script.update(state_type, joined, "e"), difference.expected)
    _compare_outcomes(script, state_type, difference, "joined", "whole")


def _end_independent_updates_commute(
    script: Script, state_type: StateType, case: Case, difference: Inequality
) -> None:
    for name, event in zip(("e1", "e2"), case.events, strict=True):
        script.run(f"{name} = {script.event(event)}")
    if difference.kind == "state":
        one = script.update(state_type, script.update(state_type, "s", "e1"), "e2")
        other = script.update(state_type, script.update(state_type, "s", "e2"), "e1")
        script.run(f"one_way = {one}", "one_way")
        script.run(f"other_way = {other}", "other_way")
        script.compare(state_type, "other_way", "one_way")
        return
    seen, unseen = ("e2", "e1") if difference.kind == "output of second" else ("e1", "e2")
    after = script.output(state_type, script.update(state_type, "s", unseen), seen)
    _guard(script, "before", script.output(state_type, "s", seen), difference.expected)
    _guard(script, "after", after, difference.got)
    script.compare(None, "after", "before")


def _end_join_has_identity(
    script: Script, state_type: StateType, case: Case, difference: Inequality
) -> None:
    name = state_type.name
    fork = script.program.find_fork(name, name, name)
    assert fork is not None
    if difference.kind != "delta":
        script.run(f"zero = {script.kind(state_type)}.shape.zero", "zero")
        _guard(script, "joined", script.join(fork, "s", "zero"), difference.got)
        _compare_outcomes(script, state_type, difference, "joined", "s")
        return
    kind = script.kind(state_type)
    script.run(f"delta = {kind}.begin_delta()", "delta")
    script.follow_delta(state_type, "delta", case.rights)
    script.run(f"e = {script.event(case.events[0])}")
    start = f"{kind}.add_delta(s, delta)" if case.rights else "s"
    changed = f"{kind}.step_delta(delta, e)[0]"
    _guard(script, "joined", f"{kind}.add_delta(s, {changed})", difference.got)
    _guard(script, "whole", script.update(state_type, start, "e"), difference.expected)
    _compare_outcomes(script, state_type, difference, "joined", "whole")


def _end_join_is_associative(
    script: Script, state_type: StateType, case: Case, difference: Inequality
) -> None:
    cut, inner = case.cut, case.inner
    assert cut is not None
    assert inner is not None
    script.part(cut, ("a", "rest"), "s", (case.lefts, case.rights))
    script.part(inner, ("b", "c"), "rest", (case.seconds, case.thirds))
    left = script.join(cut.fork, script.join(cut.fork, "a", "b"), "c")
    right = script.join(cut.fork, "a", script.join(cut.fork, "b", "c"))
    _guard(script, "left_first", left, difference.got)
    _guard(script, "right_first", right, difference.expected)
    _compare_outcomes(script, state_type, difference, "left_first", "right_first")


def _end_functions_are_pure(
    script: Script, state_type: StateType, case: Case, difference: Inequality
) -> None:
    names = ["s"]
    if difference.function == "join":
        names = ["left", "right"]
        assert case.cut is not None
        script.part(case.cut, ("left", "right"), "s", (case.lefts, case.rights))
    elif difference.function != "fork":
        script.run(f"e = {script.event(case.events[0])}")
    given = names[0] if len(names) == 1 else f"({', '.join(names)})"
    if difference.kind == "changed":
        script.run(f"before = copy.deepcopy({given})", "before")
        script.run(_call(script, state_type, case.cut, difference.function, names))
        script.add(f'assert {given} == before, f"{{{given}!r}} was {{before!r}} before"')
        return
    copies = [f"copy.deepcopy({name})" for name in names]
    call = _call(script, state_type, case.cut, difference.function, copies)
    script.run(f"results = [{call} for _ in range(100)]")
    script.add(
        "assert all(result == results[0] for result in results), "
        'f"{results[0]!r} at first, other results later"'
    )


def _call(
    script: Script, state_type: StateType, cut: Cut | None, function: str, names: list[str]
) -> str:
    if function == "update":
        return script.update(state_type, names[0], "e")
    if function == "output":
        return script.output(state_type, names[0], "e")
    assert cut is not None
    if function == "fork":
        return script.fork(cut, names[0])
    return script.join(cut.fork, names[0], names[1])


Ending = Callable[[Script, StateType, Case, Inequality], None]

_ENDINGS: dict[str, Ending] = {
    FUNCTIONS_ARE_PURE.name: _end_functions_are_pure,
    UPDATE_PASSES_THROUGH_JOIN.name: _end_update_passes_through_join,
    JOIN_UNDOES_FORK.name: _end_join_undoes_fork,
    INDEPENDENT_UPDATES_COMMUTE.name: _end_independent_updates_commute,
    JOIN_HAS_IDENTITY.name: _end_join_has_identity,
    JOIN_IS_ASSOCIATIVE.name: _end_join_is_associative,
}

_SENTENCES: dict[tuple[str, str], str] = {
    (FUNCTIONS_ARE_PURE.name, "changed"): "the {function} changes a state that is its argument",
    (FUNCTIONS_ARE_PURE.name, "again"): "the {function} gives another result when called again",
    (UPDATE_PASSES_THROUGH_JOIN.name, "state"): "the {side} side handles {first} alone, and the "
    "join is {got}; the whole would be {expected}",
    (UPDATE_PASSES_THROUGH_JOIN.name, "output"): "on the {side} side alone {first} {emits_got}; in "
    "the whole it {emits_expected}",
    (JOIN_UNDOES_FORK.name, "state"): "{expected} forked and joined again is {got}",
    (INDEPENDENT_UPDATES_COMMUTE.name, "state"): "{first} then {second} leaves {expected}; the "
    "opposite order leaves {got}",
    (
        INDEPENDENT_UPDATES_COMMUTE.name,
        "output of first",
    ): "{first} {emits_expected}, but after {second}, "
    "of which it was declared independent, it {emits_got}",
    (
        INDEPENDENT_UPDATES_COMMUTE.name,
        "output of second",
    ): "{second} {emits_expected}, but after {first}, "
    "of which it was declared independent, it {emits_got}",
    (JOIN_HAS_IDENTITY.name, "zero"): "join(s, zero) is {got} where s is {expected}",
    (JOIN_HAS_IDENTITY.name, "delta"): "{first} folded from zero and joined gives {got}; handled "
    "directly it gives {expected}",
    (JOIN_IS_ASSOCIATIVE.name, "state"): "join(join(a, b), c) is {got}; join(a, join(b, c)) is "
    "{expected}",
}


def describe_difference(finding: FailingCase) -> str:
    """Return one sentence that describes the difference."""
    event_types = [type(event.data).__name__ for event in finding.case.events]
    return _SENTENCES[finding.law, finding.difference.kind].format(
        function=finding.difference.function,
        side=finding.case.side,
        expected=abridge(finding.difference.expected),
        got=abridge(finding.difference.got),
        emits_expected=_describe_outputs(finding.difference.expected),
        emits_got=_describe_outputs(finding.difference.got),
        first=event_types[0] if event_types else "",
        second=("the other " if len(set(event_types)) < len(event_types) else "") + event_types[-1]
        if event_types
        else "",
    )


def _describe_outputs(outcome: Any) -> str:
    if isinstance(outcome, Raised):
        return repr(outcome)
    if not isinstance(outcome, tuple):
        return f"is {abridge(outcome)}"
    return f"emits {', '.join(map(abridge, outcome))}" if outcome else "emits nothing"


def locate_finding(
    finding: FailingCase, program: Program, state_type: StateType
) -> Location | None:
    """Return the line of the user's code to look at first."""
    role, case = finding.difference.function, finding.case
    if role in ("update", "output"):
        event = case.events[-1 if finding.difference.kind == "output of second" else 0]
        handler = state_type.handlers[type(event.data)]
        function = getattr(handler, role) or handler.update or handler.output
        return _locate(function) or handler.where or program.where
    name = state_type.name
    fork = program.find_fork(name, name, name) if case.cut is None else case.cut.fork
    assert fork is not None
    declared = program.where if len(program.state_types) == 1 else fork.where
    return _locate(_written(fork, role, state_type)) or declared


def _written(fork: ForkJoin, role: str, state_type: StateType) -> Any:
    """Return the user's own function, inside the entries and lanes that wrap it."""
    function = getattr(fork, role)
    shape: Any = state_type.shape
    while getattr(function, "__self__", None) is shape:
        inner = getattr(shape, "inner", None)
        if inner is None:
            break
        shape, function = inner, getattr(inner, role)
    return function


def _locate(function: Any) -> Location | None:
    code = getattr(function, "__code__", None)
    # A ready-made state is not the user's code.
    if code is None or os.path.abspath(code.co_filename).startswith(_PACKAGE):
        return None
    return locate_function(function)
