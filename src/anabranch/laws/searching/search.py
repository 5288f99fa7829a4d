"""The search: for each law, find a reachable case on which it fails, and reduce it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hypothesis import find
from hypothesis.errors import Flaky, NoSuchExample, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from anabranch.errors import InputError, ProgramError
from anabranch.laws.laws import FUNCTIONS_ARE_PURE, INDEPENDENT_UPDATES_COMMUTE, LAWS, Law
from anabranch.laws.reports import Counterexample, LawResult, Report
from anabranch.laws.searching.case_sources import Ground
from anabranch.laws.searching.cases import (
    Subject,
    explain_absence,
    list_subjects,
    make_cases,
    name_subject,
)
from anabranch.laws.searching.counterexamples import FailingCase, describe_finding
from anabranch.laws.searching.equations import Inequality, try_law
from anabranch.laws.searching.generators import Strategy, make_settings
from anabranch.laws.searching.raising import find_raising
from anabranch.laws.searching.reachable import Case
from anabranch.laws.searching.reductions import reduce_case
from anabranch.model.dependence import write_depends
from anabranch.model.events import EventType
from anabranch.model.program import Program

Progress = Callable[[str, int, int], None]

TRIED_LANES = 4
"""The number of lanes with which the cure of rounding is tried."""


def check(
    program: Program,
    *,
    cases: int = 300,
    seed: int = 0,
    events: Mapping[EventType, Strategy] | None = None,
    laws: Iterable[str] | None = None,
    progress: Progress | None = None,
    target: str | None = None,
) -> Report:
    """Search for a counterexample to each law on reachable states; the same one for the same seed.

    Functions that raise on every event are reported beside the laws, which such events can't break.

    `events` gives a Hypothesis strategy for the events of an event type, in place of one made from its
    field types. `laws` names the laws to check (default: all). `progress(law, done, cases)` is called at
    intervals. `target` (`file.py:name`) is the place from which printed counterexamples load the program.
    """
    chosen = _choose_laws(laws)
    _check_arguments(program, cases, events)
    search = Search(program, cases, seed, dict(events or {}), target, progress)
    results: list[LawResult] = []
    for law in chosen:
        impure = any(r.verdict == "broken" and r.law == FUNCTIONS_ARE_PURE.name for r in results)
        results += search.check_law(law, impure=impure)
    raising = find_raising(search.ground, seed=seed, target=target)
    return Report(program.name, tuple(results), seed, cases, program.lanes, raising)


def _choose_laws(names: Iterable[str] | None) -> tuple[Law, ...]:
    if names is None:
        return LAWS
    wanted = [names] if isinstance(names, str) else list(names)
    known = {law.name for law in LAWS}
    for name in wanted:
        if name not in known:
            raise InputError(
                f"there is no law {name!r}",
                expected=f"some of {', '.join(law.name for law in LAWS)}",
                got=repr(name),
            )
    return tuple(law for law in LAWS if law.name in wanted)


def _check_arguments(
    program: Program, cases: int, events: Mapping[EventType, Strategy] | None
) -> None:
    if not isinstance(program, Program):
        raise InputError(
            "check() takes a program",
            expected="check(program, cases=300)",
            got=f"a {type(program).__name__}",
        )
    if not isinstance(cases, int) or cases < 1:
        raise InputError("cases is not a number of cases", expected="1 or more", got=repr(cases))
    for event_type, strategy in (events or {}).items():
        if event_type not in program.event_types or not isinstance(strategy, SearchStrategy):
            raise InputError(
                f"events names {getattr(event_type, '__name__', event_type)!r} with {strategy!r}",
                expected="event types of the program, each with a Hypothesis strategy",
                got=f"the program has {', '.join(known.__name__ for known in program.event_types)}",
            )


@dataclass(frozen=True)
class Search:
    """The options of a check."""

    program: Program
    cases: int
    seed: int
    events: dict[EventType, Strategy]
    target: str | None = None
    progress: Progress | None = None
    without_lanes: bool = False

    @cached_property
    def ground(self) -> Ground:
        """Return the ground from which cases are drawn."""
        return Ground(self.program, self.events)

    def check_law(self, law: Law, *, impure: bool = False) -> list[LawResult]:
        """Return the results of a law, for each of its state types or forks."""
        if impure:
            reason = f"{FUNCTIONS_ARE_PURE.name} is broken, so no other result would be reliable"
            return [LawResult(law.name, law.title, "skipped", 0, reason=reason)]
        subjects = list_subjects(law.name, self.program)
        if not subjects:
            reason = explain_absence(law.name, self.program)
            return [LawResult(law.name, law.title, "skipped", 0, reason=reason)]
        return [self.check_subject(law, subject) for subject in subjects]

    def check_subject(self, law: Law, subject: Subject) -> LawResult:
        """Return the result of a law for one state type or fork."""
        strategy = make_cases(self.ground, law.name, subject)
        if isinstance(strategy, str):
            name = name_subject(subject)
            return LawResult(law.name, law.title, "skipped", 0, reason=strategy, subject=name)
        hunt = Hunt(self, law, name_subject(subject))
        result = hunt.find_break(strategy)
        if result.verdict == "broken":
            return result
        if hunt.rounded is not None:
            return replace(
                result,
                verdict="rounding",
                counterexample=self.describe(hunt.find_rounding(strategy)),
                reason=self._find_cure(law, subject),
            )
        return self._check_without_lanes(law, subject, result)

    def describe(self, finding: FailingCase) -> Counterexample:
        """Return a finding as a counterexample for the user."""
        return describe_finding(
            finding,
            self.program,
            seed=self.seed,
            target=self.target,
            without_lanes=self.without_lanes,
        )

    def _check_without_lanes(self, law: Law, subject: Subject, result: LawResult) -> LawResult:
        """Return a kept law's result, or its failure if it holds only because of lanes.

        Lanes fix the order of float additions. They must not hide that a state can't be forked at
        all: so the program without them must keep the law up to rounding.
        """
        if self.program.lanes is None:
            return result
        bare = replace(self, program=self.program.changed(lanes=None), without_lanes=True)
        found = bare.find_break(law, name_subject(subject))
        if found is None:
            return result
        reason = "without its lanes the program breaks this law, and not by rounding"
        return replace(found, reason=f"{reason}; {found.reason}" if found.reason else reason)

    def find_break(self, law: Law, name: str) -> LawResult | None:
        """Return how a law is broken other than by rounding, for the subject with that name."""
        for subject in list_subjects(law.name, self.program):
            if name_subject(subject) == name:
                strategy = make_cases(self.ground, law.name, subject)
                if not isinstance(strategy, str):
                    result = Hunt(self, law, name).find_break(strategy)
                    return result if result.verdict == "broken" else None
        return None

    def _find_cure(self, law: Law, subject: Subject) -> str:
        """Return what cures rounding: lanes if they do, and exact accumulators in any case."""
        what = "the sides differ only by float rounding; "
        exact = "keep floats in ExactSum, ExactMean or ExactVariance, which do not round"
        if self.program.lanes is not None:
            return what + exact
        try:
            laned = self.program.changed(lanes=TRIED_LANES)
        except ProgramError as error:
            return f"{what}{exact} (lanes= does not apply: {error.what})"
        search = replace(self, program=laned, cases=min(self.cases, 100), progress=None)
        if search.keeps(law, name_subject(subject)):
            return (
                f"{what}add lanes=8 to the program (checked with lanes={TRIED_LANES}), or {exact}"
            )
        return f"{what}{exact} (lanes={TRIED_LANES} was tried, and does not cure it)"

    def keeps(self, law: Law, name: str) -> bool:
        """Return whether no case breaks a law, even by rounding, for the subject with that name."""
        for subject in list_subjects(law.name, self.program):
            if name_subject(subject) == name:
                strategy = make_cases(self.ground, law.name, subject)
                if not isinstance(strategy, str):
                    hunt = Hunt(self, law, name)
                    return hunt.find_break(strategy).verdict == "kept" and hunt.rounded is None
        return True


class Hunt:
    """A search for one law and one subject. It counts cases, and records rounding."""

    def __init__(self, search: Search, law: Law, subject: str) -> None:
        self._search = search
        self._law = law
        self._subject = subject
        self._ran = 0
        self._found: FailingCase | None = None
        self.rounded: FailingCase | None = None

    def find_break(self, strategy: Strategy) -> LawResult:
        """Return the law as kept, or as broken by the smallest case that differs by more than rounding."""
        found = self._find(strategy, lambda difference: not difference.rounding)
        law = self._law
        kept = LawResult(law.name, law.title, "kept", self._ran, subject=self._subject)
        if found is None:
            return kept
        shown = self._search.describe(found)
        return replace(
            kept,
            verdict="broken",
            counterexample=shown,
            reason=_advise(self._search.program, self._subject, found),
        )

    def find_rounding(self, strategy: Strategy) -> FailingCase:
        """Return the smallest case in which the sides of the law round differently."""
        assert self.rounded is not None
        return self._find(strategy, lambda difference: difference.rounding) or self.rounded

    def _find(
        self, strategy: Strategy, accepts: Callable[[Inequality], bool]
    ) -> FailingCase | None:
        search = self._search
        self._found, self._ran = None, 0
        dice = random.Random(f"{search.seed} {self._law.name} {self._subject}")
        try:
            find(
                strategy,
                lambda case: self._try(case, accepts),
                settings=make_settings(search.cases),
                random=dice,
            )
        except (NoSuchExample, Unsatisfiable):
            return None
        except Flaky:
            # A function that is not pure may fail once and never again: once is enough.
            return self._found
        assert self._found is not None
        reduce_case(search.ground, self._found.case, lambda case: self._try_seeded(case, accepts))
        return self._found

    def _try_seeded(self, case: Case, accepts: Callable[[Inequality], bool]) -> bool:
        """Try a case as Hypothesis does: with the random generators seeded the same each time."""
        before = random.getstate()
        random.seed(0)
        try:
            return self._try(case, accepts)
        finally:
            random.setstate(before)

    def _try(self, case: Case, accepts: Callable[[Inequality], bool]) -> bool:
        if self._found is None:
            self._ran += 1
            self._report_progress()
        difference = try_law(self._law.name, self._search.program, case)
        if difference is None:
            return False
        finding = FailingCase(self._law.name, case, difference)
        if difference.rounding and self.rounded is None:
            self.rounded = finding
        if not accepts(difference):
            return False
        self._found = finding
        return True

    def _report_progress(self) -> None:
        progress, cases = self._search.progress, self._search.cases
        if progress is not None and (self._ran % 20 == 0 or self._ran == cases):
            progress(self._law.name, min(self._ran, cases), cases)


def _advise(program: Program, subject: str, finding: FailingCase) -> str:
    """Return what to do about a broken law, if that is known."""
    if finding.law != INDEPENDENT_UPDATES_COMMUTE.name:
        return ""
    event_types = [type(event.data) for event in finding.case.events]
    keys = program.state_type(subject).list_shared_keys(*event_types)
    return f"declare {write_depends(*event_types, same=keys)}, or make the two commute"
