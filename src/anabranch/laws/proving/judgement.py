"""The judgement of one obligation: proved, or not proved and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from anabranch.laws.proving import terms
from anabranch.laws.proving.forms import Form
from anabranch.laws.proving.invariants import Atom, InvariantKind, Known, suppose
from anabranch.laws.proving.obligations import Obligation
from anabranch.laws.proving.scenes import Scene, SceneForms, read_goals
from anabranch.laws.proving.solver import Assignment, Solver, Values
from anabranch.laws.proving.symbolic import Trace
from anabranch.laws.proving.symbols import Stop
from anabranch.laws.proving.terms import Term
from anabranch.model.failures import Failed, attempt

TRIALS = 40
"""How many real runs a proof must pass, in case a symbol behaves differently from a number."""


@dataclass(frozen=True)
class Judgement:
    """Whether an obligation is proved; if not, why; if so, the conditions assumed of the states."""

    met: bool
    reason: str = ""
    supposed: tuple[str, ...] = ()


def judge(obligation: Obligation, known: Known, solver: Solver, constants: list[int]) -> Judgement:
    """Return the judgement of an obligation for all values that fulfil the known conditions."""
    keys = [[key for key in known if key[0] == kind] for kind in obligation.kinds]
    supposed: dict[str, None] = {}
    for chosen in product(*keys):
        setting = SceneForms(
            tuple(form for _, form in chosen),
            obligation.event_types,
            obligation.keys,
            obligation.held,
        )
        assumed = [obligation.assume(setting)]
        claims = suppose(known, chosen, setting)
        try:
            failures = list_failures(obligation.goal, setting)
        except Stop as stop:
            return Judgement(False, f"stops at {obligation.about}: {stop}")
        reason = _find_failure(obligation, setting, failures, [*assumed, *claims], solver)
        reason = reason or _try_for_real(obligation, setting, [*assumed, *claims], constants)
        if reason:
            return Judgement(False, reason)
        texts = [atom.text for key in chosen for atom in known[key]]
        supposed |= dict.fromkeys(_list_needed(texts, claims, failures, assumed, solver))
    return Judgement(True, supposed=tuple(supposed))


Failures = list[tuple[Term, Exception | None]]
"""The condition under which a goal fails, path by path, and the exception raised there."""


def _find_failure(
    obligation: Obligation,
    setting: SceneForms,
    failures: Failures,
    assumed: list[Term],
    solver: Solver,
) -> str:
    for condition, error in failures:
        found = solver.find([*assumed, condition])
        if found is None:
            return f"z3 reached no result in time, for {obligation.about}"
        if found is not False:
            case = describe_scene(setting, found)
            if error is not None:
                return f"{type(error).__name__} may be raised, with {case}"
            return f"z3 has a counterexample for {obligation.about}: {case}"
    return ""


def _list_needed(
    texts: list[str],
    claims: list[Term],
    failures: Failures,
    assumed: list[Term],
    solver: Solver,
) -> list[str]:
    """Return the parts of an invariant without which a proof fails."""
    needed = list(zip(texts, claims, strict=True))
    for candidate in list(needed):
        fewer = [pair for pair in needed if pair is not candidate]
        enough = [*assumed, *(claim for _, claim in fewer)]
        if all(solver.find([*enough, condition]) is False for condition, _ in failures):
            needed = fewer
    return [text for text, _ in needed]


def list_failures(goal: Callable[[Scene], Any], setting: SceneForms) -> Failures:
    """Return the conditions under which a goal fails, path by path, and the exceptions raised there."""
    trace = Trace()
    scene = setting.imagine(trace)
    failures: Failures = []
    for case in trace.watch(lambda: trace.explore(lambda: goal(scene))):
        if case.error is not None:
            failures.append((case.condition, case.error))
        else:
            missed = terms.negate(read_goals(case.value))
            failures.append((terms.conjoin((case.condition, missed)), None))
    return failures


def _try_for_real(
    obligation: Obligation, setting: SceneForms, assumed: Iterable[Term], constants: list[int]
) -> str:
    """Run the law on real numbers; return how Python contradicts the proof, or an empty text."""
    rng = Random(0)
    whole = terms.conjoin(assumed)
    for _ in range(TRIALS):
        values = Assignment(setting.guess(rng, constants))
        if terms.evaluate(whole, values) and miss_for_real(obligation.goal, setting, values, rng):
            return f"Python disagrees with z3 on {describe_scene(setting, values)}"
    return ""


def miss_for_real(
    goal: Callable[[Scene], Any], setting: SceneForms, values: Values, rng: Random
) -> bool:
    """Return whether a goal fails on real numbers."""
    try:
        met = attempt(lambda: all(goal(setting.realise(values, rng))))
    except Stop:
        return False
    return isinstance(met, Failed) or not met


def describe_scene(setting: SceneForms, values: Values) -> str:
    """Return the states and events of a case as text."""
    scene = setting.realise(values)
    parts = [f"s{place or ''}={state!r}" for place, state in enumerate(scene.states)]
    return ", ".join([*parts, *(f"{event!r}" for event in scene.events)])


def forget_numbers(forms: dict[InvariantKind, tuple[Form, ...]]) -> Known:
    """Return the forms without any condition on their numbers."""
    nothing: tuple[Atom, ...] = ()
    return {(kind, form): nothing for kind, found in forms.items() for form in found}
