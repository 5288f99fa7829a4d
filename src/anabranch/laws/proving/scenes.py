"""Scenes: the states, events and two sides of a law's statement, known or unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from anabranch.laws.proving import terms
from anabranch.laws.proving.forms import Form, build_record, build_value, list_names, list_sorts
from anabranch.laws.proving.symbolic import Trace
from anabranch.laws.proving.symbols import Opaque, UnknownSlices, read_term, wrap
from anabranch.laws.proving.terms import BOOL, INT, Term
from anabranch.model.events import EventType, field_types
from anabranch.model.slices import Slices

_SORTS = {int: INT, bool: BOOL}


@dataclass(frozen=True)
class Scene:
    """The states and events of a law's statement; `call` calls a user's function on them."""

    call: Callable[..., Any]
    states: tuple[Any, ...]
    events: tuple[Any, ...]
    left: Slices
    right: Slices


@dataclass(frozen=True)
class SceneForms:
    """The structure of a scene: the forms of its states, the event types of its events.

    `keys` are fields that have one value in all events. `held` is whether both sides of a fork
    get events of that key; None leaves it open.
    """

    forms: tuple[Form, ...]
    event_types: tuple[EventType, ...] = ()
    keys: tuple[str, ...] = ()
    held: bool | None = None

    def variables(self) -> list[Term]:
        """Return the numbers of all states, in order."""
        return [leaf for place in range(len(self.forms)) for leaf in self.leaves(place)]

    def leaves(self, place: int) -> list[Term]:
        """Return the numbers of one state."""
        form = self.forms[place]
        names = list_names(form, f"s{place}")
        return [terms.variable(n, s) for n, s in zip(names, list_sorts(form), strict=True)]

    def fields(self, place: int) -> dict[str, Term | str]:
        """Return the fields of one event: a variable, or the name of an opaque value."""
        event_type = self.event_types[place]
        found: dict[str, Term | str] = {}
        for name, kind in field_types(event_type).items():
            where = name if name in self.keys else f"e{place}.{name}"
            sort = _SORTS.get(kind)
            found[name] = (
                f"{event_type.__name__}.{name}" if sort is None else terms.variable(where, sort)
            )
        return found

    def imagine(self, trace: Trace) -> Scene:
        """Return the scene with every number unknown."""
        return self._build(trace.call, lambda term: wrap(term, trace), trace)

    def realise(self, values: Mapping[str, Any], rng: Random | None = None) -> Scene:
        """Return the scene with these numbers, and real functions called on them."""
        coin = _Coin(rng or Random(0))

        def give(term: Term) -> Any:
            value = values[term.args[0]]
            return bool(value) if term.sort == BOOL else value

        return self._build(lambda function, *args: function(*args), give, coin)

    def _build(self, call: Callable[..., Any], give: Callable[[Term], Any], trace: Any) -> Scene:
        states = tuple(
            build_value(form, [give(leaf) for leaf in self.leaves(place)])
            for place, form in enumerate(self.forms)
        )
        # One key is one object, of any type.
        shared = {name: Opaque(name) for name in self.keys}
        events = []
        for place, event_type in enumerate(self.event_types):
            parts = [
                give(field) if isinstance(field, Term) else shared.get(name, Opaque(field))
                for name, field in self.fields(place).items()
            ]
            events.append(build_record(event_type, parts))
        left, right = (UnknownSlices(side, trace, held=self.held) for side in ("left", "right"))
        return Scene(call, states, tuple(events), left, right)

    def guess(self, rng: Random, near: Sequence[int]) -> dict[str, Any]:
        """Return random numbers for a scene: small ones, and those that the program contains."""
        found: dict[str, Any] = {}
        wanted = self.variables()
        for place in range(len(self.event_types)):
            wanted += [field for field in self.fields(place).values() if isinstance(field, Term)]
        for term in wanted:
            low = rng.choice((3, 3, 50, 10**6))
            guess = rng.choice((rng.randint(-low, low), *near))
            found[term.args[0]] = rng.random() < 0.5 if term.sort == BOOL else guess
        return found


class _Coin:
    """A decider with random answers, the same each time for the same question."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._answers: dict[Term, bool] = {}

    def decide(self, term: Term) -> bool:
        return self._answers.setdefault(term, self._rng.random() < 0.5)

    def stop(self, reason: str) -> BaseException:
        return ValueError(reason)


def equal_fields(setting: SceneForms, names: Sequence[str]) -> Term:
    """Return the term that the first two events of a scene agree in these fields."""
    first, second = setting.fields(0), setting.fields(1)
    return terms.conjoin(_equal(name, first[name], second[name], setting) for name in names)


def _equal(name: str, a: Term | str, b: Term | str, setting: SceneForms) -> Term:
    if name in setting.keys:
        return terms.TRUE
    if isinstance(a, Term) and isinstance(b, Term):
        return terms.apply("==", terms.count(a), terms.count(b))
    # The field is opaque, so the two may be equal or not.
    return terms.variable(f"same {name}", BOOL)


def read_goals(goals: Sequence[Any]) -> Term:
    """Return the term that all truth values of a list hold."""
    found = []
    for goal in goals:
        term = read_term(goal)
        zero = terms.constant(0)
        found.append(term if term.sort == BOOL else terms.negate(terms.apply("==", term, zero)))
    return terms.conjoin(found)
