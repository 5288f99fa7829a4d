"""Synthesis: find a fork and join for a program that has none.

Each part of the state gets a piece of a small grammar (`grammar`), and the first combination that
keeps the laws is returned. Quick trials reject most candidates; a survivor is checked in full, and
proved where possible. The result is text to paste, and exactly that text was checked.

Combinations with a zero are tried first, since leaves can then fold without waiting; among these the
simplest. A state of many parts is not searched in full: parts are changed one at a time, where the
trials show them wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any

from anabranch.errors import MissingExtraError
from anabranch.laws.laws import FUNCTIONS_ARE_PURE, INDEPENDENT_UPDATES_COMMUTE
from anabranch.laws.proving.proof import attach, prove
from anabranch.laws.reports import Report
from anabranch.laws.searching.search import check
from anabranch.laws.synthesis.grammar import Pair, Piece, StateParts, read_layout, write_pair
from anabranch.laws.synthesis.trials import OUTPUTS, TrialInputs, find_misses, prepare
from anabranch.model.program import Program
from anabranch.model.shapes import WrittenShape

MAX_PRODUCT = 3000
"""The most combinations that are all tried."""
MAX_CLIMBS = 60
"""The most changes of a part where there are more combinations."""
MAX_CHECKS = 4
"""The most survivors of the trials that are checked in full."""

Progress = Callable[[str, int, int], None]
Choice = tuple[Piece, ...]


@dataclass(frozen=True)
class Synthesis:
    """The result of a search for a fork and join.

    `code` can be pasted into the program. `report` is the check of that code; where nothing was found
    because a law is broken without any fork, it is the check that shows it.
    """

    found: bool
    code: str
    program: Program | None
    report: Report | None
    tried: int
    reason: str

    def __str__(self) -> str:
        if not self.found:
            return f"no fork and join found ({self.tried} tried): {self.reason}"
        return f"{self.code}\n\n{self.reason} ({self.tried} tried)\n{self.report}"


def synthesise(
    program: Program, *, cases: int = 200, seed: int = 0, progress: Progress | None = None
) -> Synthesis:
    """Return a fork, join and zero that keep the laws of a program, or the reason why none was found.

    `cases` is the number for each law in the full check. `progress(what, done, of)` is called at intervals.
    """
    refusal = _refuse(program)
    if refusal:
        return Synthesis(False, "", None, None, 0, refusal)
    alone = (FUNCTIONS_ARE_PURE.name, INDEPENDENT_UPDATES_COMMUTE.name)
    before = check(program, cases=cases, seed=seed, laws=alone, progress=progress)
    for result in before.results:
        if result.verdict == "broken":
            reason = f"{result.law} is broken already, so no fork and join can be right"
            return Synthesis(False, "", None, before, 0, f"{reason}; {result.reason}".rstrip("; "))
    material = prepare(program, 120, seed)
    if not material.trials:
        return Synthesis(
            False,
            "",
            None,
            before,
            0,
            "every two events depend on each other: nothing can run in parallel",
        )
    return _Search(material, cases, seed, progress).run()


def _refuse(program: Program) -> str:
    """Return why no fork and join is searched for a program, or an empty text."""
    if program.forks:
        return "the program has a fork and join already"
    if len(program.state_types) > 1:
        return "the program has several state types; declare by ForkJoin(...) which fork into which"
    if not isinstance(program.initial.shape, WrittenShape):
        return f"state={program.initial.shape!r} defines its own fork, or can't be forked"
    return ""


class _Search:
    """A search for one program."""

    def __init__(
        self, material: TrialInputs, cases: int, seed: int, progress: Progress | None
    ) -> None:
        self._material = material
        self._cases = cases
        self._seed = seed
        self._progress = progress
        self._layout = read_layout(material.states, material.constants, material.keys)
        self._names = _name_types(material.program.init)
        self._tried = 0
        self._stuck: set[str] | None = None

    def run(self) -> Synthesis:
        """Try candidates with a zero, then those without."""
        last = ""
        for pair in islice(self._list_survivors(), MAX_CHECKS):
            built = self._material.program.changed(**pair.build(self._names))
            report = check(built, cases=self._cases, seed=self._seed, progress=self._progress)
            broken = [result for result in report.results if result.verdict == "broken"]
            if not broken:
                return self._accept(pair, built, report)
            last = f"{pair.join} is the closest, and breaks {broken[0].law}"
        return Synthesis(False, "", None, None, self._tried, last or self._explain())

    def _accept(self, pair: Pair, built: Program, report: Report) -> Synthesis:
        with suppress(MissingExtraError):  # The check is valid without a proof.
            report = attach(report, prove(built))
        proved = sum(result.verdict == "proved" for result in report.results)
        rounding = next((r for r in report.results if r.verdict == "rounding"), None)
        reason = f"the laws were kept in {self._cases} cases each"
        reason += f", and {proved} of them proved" if proved else ""
        if rounding is not None:
            reason = (
                f"the laws were kept in {self._cases} cases each, up to rounding: {rounding.reason}"
            )
        return Synthesis(True, pair.code, built, report, self._tried, reason)

    def _list_survivors(self) -> Iterator[Pair]:
        for zero in (True, False):
            slots = [
                [piece for piece in slot.pieces if piece.zero is not None or not zero]
                for slot in self._layout.slots()
            ]
            # A part that leaves do not write needs no join: a copy is the simplest piece without a zero.
            if not zero:
                slots = [sorted(pieces, key=lambda piece: piece.name != "copy") for pieces in slots]
            if all(slots):
                full = prod(map(len, slots)) <= MAX_PRODUCT
                search = self._enumerate if full else self._climb
                yield from search(slots, zero=zero)

    def _enumerate(self, slots: Sequence[Sequence[Piece]], *, zero: bool) -> Iterator[Pair]:
        choices = product(*(range(len(pieces)) for pieces in slots))
        for places in sorted(choices, key=lambda places: (sum(places), places)):
            choice = tuple(pieces[place] for pieces, place in zip(slots, places, strict=True))
            pair = write_pair(self._layout, choice, zero=zero)
            if not self._list_wrong(pair, first_only=not self._wants_more()):
                yield pair

    def _wants_more(self) -> bool:
        # The first few candidates run all trials, to find the parts that are never right.
        return self._tried < 60

    def _climb(self, slots: Sequence[Sequence[Piece]], *, zero: bool) -> Iterator[Pair]:
        places = [0] * len(slots)
        paths = [slot.path for slot in self._layout.slots()]
        for _ in range(MAX_CLIMBS):
            choice = tuple(pieces[place] for pieces, place in zip(slots, places, strict=True))
            pair = write_pair(self._layout, choice, zero=zero)
            wrong = self._list_wrong(pair)
            if not wrong:
                yield pair
                return
            ready = [n for n, path in enumerate(paths) if path in wrong] or list(range(len(slots)))
            ready = [n for n in ready if places[n] + 1 < len(slots[n])]
            if not ready:
                return
            places[ready[0]] += 1

    def _list_wrong(self, pair: Pair, *, first_only: bool = False) -> set[str]:
        """Return the paths of the parts of the state (or outputs) that trials show wrong."""
        self._tried += 1
        if self._progress is not None and self._tried % 20 == 0:
            self._progress("trying forks and joins", self._tried, MAX_PRODUCT)
        built = pair.build(self._names)
        wrong: set[str] = set()
        for trial in self._material.trials:
            for expected, got, about in find_misses(self._material, built, trial):
                wrong |= {about} if about else _list_different(self._layout, expected, got)
            if wrong and first_only:
                return wrong
        parts = wrong - {OUTPUTS}
        if parts and not first_only:
            self._stuck = parts if self._stuck is None else self._stuck & parts
        return wrong

    def _explain(self) -> str:
        if self._stuck:
            parts = ", ".join(sorted(self._stuck))
            return f"nothing in the grammar joins {parts} as its updates change it"
        return "no combination in the grammar gives the same result as the fold without forks"


def _list_different(layout: StateParts, expected: Any, got: Any, path: str = "s") -> set[str]:
    """Return the paths of the slots in which two states differ."""
    if layout.slot is not None:
        return {path}
    found: set[str] = set()
    for step, part in zip(layout.steps, layout.parts, strict=True):
        try:
            one, two = (_follow(value, step) for value in (expected, got))
        except (AttributeError, IndexError, TypeError):
            return {slot.path for slot in layout.slots()}
        if one != two:
            found |= _list_different(part, one, two, path + step)
    return found


def _follow(value: Any, step: str) -> Any:
    return value[int(step[1:-1])] if step.startswith("[") else getattr(value, step[1:])


def _name_types(state: Any) -> Mapping[str, Any]:
    """Return the classes that the text of a fork and join names."""
    kind = type(state)
    found: dict[str, Any] = {} if kind.__module__ == "builtins" else {kind.__name__: kind}
    if dataclasses.is_dataclass(kind):
        parts: list[Any] = [getattr(state, field.name) for field in dataclasses.fields(kind)]
    elif isinstance(state, tuple):
        parts = list(state)
    elif isinstance(state, Mapping):
        parts = list(islice(state.values(), 3))
    else:
        parts = []
    for part in parts:
        found |= _name_types(part)
    return found
