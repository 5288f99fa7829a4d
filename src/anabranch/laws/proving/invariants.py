"""Invariants: properties of every state that a run can reach, found by guessing and pruning.

Candidates are `x >= c`, `x <= c`, `x <= y` between the numbers of a state, and the same between
two siblings of a fork. All are assumed at first; candidates that a transition from assumed states
breaks are dropped, until none is broken. The remaining ones hold at the start and are kept by every
transition, so they hold for all reachable states: an induction, each step of which z3 has checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, NamedTuple

from anabranch.laws.proving import terms
from anabranch.laws.proving.forms import (
    Form,
    find_unsupported,
    list_names,
    list_sorts,
    list_terms,
    read_form,
)
from anabranch.laws.proving.scenes import Scene, SceneForms
from anabranch.laws.proving.solver import Solver
from anabranch.laws.proving.symbolic import Trace
from anabranch.laws.proving.symbols import Stop
from anabranch.laws.proving.terms import BOOL, Term
from anabranch.model.events import EventType

MAX_FORMS = 12
MAX_ATOMS = 160


class InvariantKind(NamedTuple):
    """The kind of a reachable value.

    A state of the type `name`; or with `split`, two siblings of the fork `name`, or with `delta` a
    whole state and a delta folded from zero. The last two are pairs.
    """

    name: str
    split: int | None = None
    delta: bool = False

    def list_names(self, form: Form) -> list[str]:
        """Return a readable name for each number of a value of this kind."""
        if self.split is None:
            return list_names(form, "s")
        return [*list_names(form[2][0], "s1"), *list_names(form[2][1], "s2")]

    def compares(self, form: Form, a: int, b: int) -> bool:
        """Return whether two numbers are compared: across a pair, only the same part of both."""
        if self.split is None:
            return True
        left, right = (len(list_sorts(side)) for side in form[2])
        return (a < left) == (b < left) or (left == right and b - a == left)


@dataclass(frozen=True)
class StateMove:
    """A transition from reachable values to another: an update, a fork, a join, or the start."""

    name: str
    channels: tuple[InvariantKind, ...]
    target: InvariantKind
    run: Callable[[Scene], Any]
    event_types: tuple[EventType, ...] = ()
    keys: tuple[str, ...] = ()
    held: bool | None = None


@dataclass(frozen=True)
class Atom:
    """A candidate: a condition on the numbers of a value."""

    text: str
    read: Callable[[list[Term]], Term]


@dataclass(frozen=True)
class Move:
    """One case of a transition between given forms."""

    setting: SceneForms
    condition: Term
    form: Form
    leaves: list[Term]


Known = Mapping[tuple[InvariantKind, Form], tuple[Atom, ...]]
"""The forms of each kind of value, and the conditions known to hold for its numbers."""


class Reach:
    """The transitions of a program, each followed once for given forms."""

    def __init__(self, transitions: Iterable[StateMove]) -> None:
        self.transitions = tuple(transitions)
        self._moves: dict[tuple[int, tuple[Form, ...]], list[Move]] = {}

    def close_forms(self) -> dict[InvariantKind, tuple[Form, ...]]:
        """Return every form that each kind of value can take, for any numbers."""
        known: dict[InvariantKind, dict[Form, None]] = {}
        grown = True
        while grown:
            grown = False
            for place, transition in enumerate(self.transitions):
                for forms in list(product(*(known.get(k, {}) for k in transition.channels))):
                    for move in self._follow(place, forms):
                        own = known.setdefault(transition.target, {})
                        grown = grown or move.form not in own
                        own[move.form] = None
                        if len(own) > MAX_FORMS:
                            raise Stop(f"the state takes more than {MAX_FORMS} forms")
        return {kind: tuple(forms) for kind, forms in known.items()}

    def _follow(self, place: int, forms: tuple[Form, ...]) -> list[Move]:
        if (place, forms) not in self._moves:
            transition = self.transitions[place]
            setting = SceneForms(forms, transition.event_types, transition.keys, transition.held)
            trace = Trace()
            scene = setting.imagine(trace)
            cases = trace.watch(lambda: trace.explore(lambda: transition.run(scene)))
            moves = []
            for case in cases:
                if case.error is None:
                    form = read_form(case.value)
                    _refuse_strangers(form, transition)
                    moves.append(Move(setting, case.condition, form, list_terms(case.value)))
            self._moves[place, forms] = moves
        return self._moves[place, forms]

    def find_invariants(self, solver: Solver, constants: Iterable[int], given: Known) -> Known:
        """Return the conditions that hold for all reachable values, given the known ones."""
        named = tuple(dict.fromkeys(constants))
        known = dict(given)
        grown = True
        while grown:
            grown = False
            for place, transition in enumerate(self.transitions):
                for keys in _choose_channels(known, transition.channels):
                    for move in self._follow(place, tuple(form for _, form in keys)):
                        supposed = [move.condition, *suppose(known, keys, move.setting)]
                        at = (transition.target, move.form)
                        grown = _absorb(known, at, move, supposed, solver, named) or grown
        return known


def _refuse_strangers(form: Form, transition: StateMove) -> None:
    unsupported = find_unsupported(form)
    if unsupported is not None:
        raise Stop(f"{transition.name} gives a state with a {unsupported}")


def _choose_channels(
    known: Known, kinds: tuple[InvariantKind, ...]
) -> list[tuple[tuple[InvariantKind, Form], ...]]:
    return list(product(*([key for key in known if key[0] == kind] for kind in kinds)))


def suppose(
    known: Known, keys: Iterable[tuple[InvariantKind, Form]], setting: SceneForms
) -> list[Term]:
    """Return the known conditions on the states of a scene."""
    return [
        atom.read(setting.leaves(place)) for place, key in enumerate(keys) for atom in known[key]
    ]


def _absorb(
    known: dict[tuple[InvariantKind, Form], tuple[Atom, ...]],
    at: tuple[InvariantKind, Form],
    move: Move,
    supposed: list[Term],
    solver: Solver,
    named: tuple[int, ...],
) -> bool:
    """Add the values that a move reaches; return whether they were new."""
    grown = False
    if at not in known:
        if solver.find(supposed) is False:
            return False
        known[at] = tuple(list_atoms(at[0], move.form, named))
        grown = True
    while True:
        claims = [atom.read(move.leaves) for atom in known[at]]
        # One counterexample usually drops many candidates.
        found = solver.find([*supposed, terms.negate(terms.conjoin(claims))])
        if found is False:
            return grown
        if found is None:
            kept = [
                a for a, c in zip(known[at], claims, strict=True) if _holds(supposed, c, solver)
            ]
        else:
            truth = [terms.evaluate(claim, found) for claim in claims]
            kept = [atom for atom, true in zip(known[at], truth, strict=True) if true]
        known[at] = tuple(kept)
        grown = True


def _holds(supposed: list[Term], claim: Term, solver: Solver) -> bool:
    return solver.find([*supposed, terms.negate(claim)]) is False


def list_atoms(kind: InvariantKind, form: Form, constants: tuple[int, ...]) -> Iterator[Atom]:
    """Yield the candidates for a value of some kind and form."""
    names = kind.list_names(form)
    sorts = list_sorts(form)
    numbers = [place for place, sort in enumerate(sorts) if sort != BOOL]
    found: list[Atom] = []
    for place, sort in enumerate(sorts):
        if sort == BOOL:
            found += [_truth(names[place], place, True), _truth(names[place], place, False)]
    for place in numbers:
        for value in constants:
            found += [_below(names, place, value), _above(names, place, value)]
    for a, b in combinations(numbers, 2):
        if kind.compares(form, a, b):
            found += [_ordered(names, a, b), _ordered(names, b, a)]
    yield from found[:MAX_ATOMS]


def _truth(name: str, place: int, positive: bool) -> Atom:  # noqa: FBT001 - one of two atoms
    def read(leaves: list[Term]) -> Term:
        return leaves[place] if positive else terms.negate(leaves[place])

    return Atom(name if positive else f"not {name}", read)


def _below(names: list[str], place: int, value: int) -> Atom:
    limit = terms.constant(value)
    return Atom(
        f"{names[place]} <= {value}", lambda leaves: terms.apply("<=", leaves[place], limit)
    )


def _above(names: list[str], place: int, value: int) -> Atom:
    limit = terms.constant(value)
    return Atom(
        f"{names[place]} >= {value}", lambda leaves: terms.apply("<=", limit, leaves[place])
    )


def _ordered(names: list[str], a: int, b: int) -> Atom:
    return Atom(f"{names[a]} <= {names[b]}", lambda leaves: terms.apply("<=", leaves[a], leaves[b]))
