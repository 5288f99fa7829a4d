"""Proofs of the laws, for programs that are simple enough.

A check tries cases; a proof covers all of them. `prove` runs the program's own functions on unknown
numbers and searches with z3 for numbers that break a law. If there are none, the law holds.

A law is proved for all states of the forms that the program can reach, with any numbers. Where that
is too strong, because the law fails on numbers that no run reaches, it is proved under an invariant,
which the proof names. A counterexample that a run reaches within one event is run in Python and
reported as `refuted`; any other leaves the law `unknown`.

A proof assumes: events have values of their annotated types; functions are pure
(`functions_are_pure` is checked, not proved); integers are unbounded, as Python's are.

It does not cover the following, and reports so:

- Values other than ints and bools. A float, a string, a set, a list or a dict that a law depends on is
    not supported; one that is only passed on is. A state is a number, or a tuple, NamedTuple or frozen
    dataclass of numbers, None and constants, or a `MapOf` of such, taken key by key.
  - A handler that sees a whole map, lanes, and forks of a map other than its own.
  - Loops over an unknown number, and functions of more than 256 paths.
  - A product or quotient of two unknown numbers may take z3 longer than the timeout.
  - Exceptions: a law is proved only where no side of it raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from anabranch.laws.proving.forms import Form
from anabranch.laws.proving.invariants import InvariantKind, Known, Reach
from anabranch.laws.proving.judgement import Judgement, forget_numbers, judge
from anabranch.laws.proving.obligations import (
    Obligation,
    list_constants,
    list_obligations,
    list_pair_transitions,
    list_transitions,
)
from anabranch.laws.proving.refutation import refute
from anabranch.laws.proving.solver import Solver
from anabranch.laws.proving.state_functions import ForkView, view_program
from anabranch.laws.proving.symbols import Stop
from anabranch.laws.reports import LawResult, Report
from anabranch.model.program import Program


@dataclass(frozen=True)
class Proof:
    """The result of the attempt to prove one law for one state type or fork."""

    law: str
    subject: str
    verdict: Literal["proved", "unknown", "refuted"]
    reason: str

    def __str__(self) -> str:
        return f"{self.verdict:<9}{self.law} [{self.subject}]: {self.reason}"


def prove(program: Program, *, timeout_ms: int = 2000) -> tuple[Proof, ...]:
    """Return the proofs of the laws of a program, as far as they succeed.

    Each query to z3 gets `timeout_ms` milliseconds, and all of them together fifteen times as much.
    A law that takes longer is `unknown`.
    """
    solver = Solver(timeout_ms, 15 * timeout_ms)
    try:
        attempt = _Attempt(program, solver)
    except Stop as stop:
        return _give_up(program, f"not supported: {stop}")
    proofs = []
    for (law, subject), group in groupby(attempt.obligations, lambda o: (o.law, o.subject)):
        proofs.append(attempt.prove(law, subject, list(group)))
    return tuple(proofs)


def _give_up(program: Program, reason: str) -> tuple[Proof, ...]:
    forks = [f"{fork.parent} -> {fork.left}, {fork.right}" for fork in program.forks]
    pairs = [
        (law, fork) for law in ("update_passes_through_join", "join_undoes_fork") for fork in forks
    ]
    pairs += [("independent_updates_commute", kind.name) for kind in program.state_types]
    pairs += [("join_has_identity", kind.name) for kind in program.state_types]
    pairs += [("join_is_associative", fork) for fork in forks]
    return tuple(Proof(law, subject, "unknown", reason) for law, subject in pairs)


class _Attempt:
    """The attempt to prove one program: its forms are found first, its invariants when needed."""

    def __init__(self, program: Program, solver: Solver) -> None:
        self._solver = solver
        self._views, self._forks = view_program(program)
        states = tuple(self._views.values())
        self._transitions = list(list_transitions(states, self._forks))
        self._constants = list_constants(program, states)
        self._anything = self._list_forms()
        self._invariants: dict[bool, Known | None] = {}
        self.obligations: tuple[Obligation, ...] = tuple(
            sorted(list_obligations(program, self._views, self._forks), key=_by_law)
        )

    def _list_forms(self) -> Known:
        forms = Reach(self._transitions).close_forms()
        for fork in self._forks:
            pairs = _pair_forms(forms, fork)
            for place in range(len(fork.splits)):
                forms[InvariantKind(fork.name, place)] = pairs
                forms[InvariantKind(fork.name, place, delta=True)] = pairs
        return forget_numbers(forms)

    def _find_invariants(self, *, pairs: bool) -> Known | None:
        """Return the conditions on reachable states, and on reachable pairs if `pairs`."""
        if pairs not in self._invariants:
            given = self._find_invariants(pairs=False) if pairs else {}
            moves = list_pair_transitions(self._forks) if pairs else self._transitions
            self._invariants[pairs] = None
            if given is not None:
                with suppress(Stop):
                    self._invariants[pairs] = Reach(moves).find_invariants(
                        self._solver, self._constants, given
                    )
        return self._invariants[pairs]

    def prove(self, law: str, subject: str, obligations: Sequence[Obligation]) -> Proof:
        """Try a proof for all states, then for reachable states, then search a counterexample among these."""
        supposed: list[str] = []
        for obligation in obligations:
            judgement = self._judge(obligation)
            if not judgement.met:
                found = refute(obligation, self._views, self._forks, self._solver)
                if found:
                    return Proof(law, subject, "refuted", f"{obligation.about}: {found}")
                return Proof(law, subject, "unknown", judgement.reason)
            if judgement.supposed:
                known = " and ".join(_pair_bounds(judgement.supposed))
                supposed.append(f"{known} (for {obligation.about})")
        where = (
            f"on reachable states, where {', '.join(supposed)}" if supposed else "for all states"
        )
        return Proof(law, subject, "proved", where)

    def _judge(self, obligation: Obligation) -> Judgement:
        first = judge(obligation, self._anything, self._solver, self._constants)
        if first.met or first.reason.startswith("stops"):
            return first
        known = self._find_invariants(
            pairs=any(kind.split is not None for kind in obligation.kinds)
        )
        if known is None:
            return first
        second = judge(obligation, known, self._solver, self._constants)
        if second.met:
            return second
        return Judgement(False, f"holds only on reachable states, if at all: {second.reason}")


def _pair_forms(forms: dict[InvariantKind, tuple[Form, ...]], fork: ForkView) -> tuple[Form, ...]:
    lefts, rights = (
        forms.get(InvariantKind(fork.left.name), ()),
        forms.get(InvariantKind(fork.right.name), ()),
    )
    return tuple(("tuple", tuple, (a, b)) for a in lefts for b in rights)


def _pair_bounds(texts: Iterable[str]) -> list[str]:
    """Return the texts with `a <= b` and `b <= a` as one equation."""
    found = list(texts)
    for text in found[:]:
        left, _, right = text.partition(" <= ")
        for other in (f"{right} <= {left}", f"{left} >= {right}"):
            if right and text in found and other in found:
                found[found.index(text)] = f"{left} == {right}"
                found.remove(other)
    return found


def _by_law(obligation: Obligation) -> tuple[str, str]:
    return obligation.law, obligation.subject


def attach(report: Report, proofs: Iterable[Proof]) -> Report:
    """Return a report in which a law that was kept, and is proved, counts as proved.

    Where the proof stopped, the reason names the place.
    """
    known = list(proofs)
    return replace(report, results=tuple(_attach_one(result, known) for result in report.results))


def _attach_one(result: LawResult, proofs: Sequence[Proof]) -> LawResult:
    mine = [p for p in proofs if p.law == result.law and p.subject == result.subject]
    if result.verdict != "kept" or not mine:
        return result
    if all(proof.verdict == "proved" for proof in mine):
        return replace(result, verdict="proved", reason=_add(result.reason, mine[0].reason))
    stopped = next(proof for proof in mine if proof.verdict != "proved")
    why = f"not proved: {stopped.reason}"
    if stopped.verdict == "refuted":
        # The check may use given strategies of events; a proof covers all events of their types.
        why = f"does not hold for all events of their types: {stopped.reason}"
    return replace(result, reason=_add(result.reason, why))


def _add(reason: str, more: str) -> str:
    return f"{reason}; {more}" if reason else more
