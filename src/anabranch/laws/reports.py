"""The report of a check: one result per law and state or fork, with the smallest counterexample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from anabranch.errors import Location
from anabranch.laws.laws import find_law

Verdict = Literal["kept", "proved", "broken", "rounding", "skipped"]

_WORST_FIRST: tuple[Verdict, ...] = ("broken", "rounding", "kept", "proved", "skipped")


@dataclass(frozen=True)
class Counterexample:
    """The smallest case found in which a law does not hold.

    `code` is a Python program that builds the case and stops with an AssertionError.
    """

    law: str
    code: str
    description: str
    expected: Any
    got: Any
    seed: int
    where: Location | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data; states are shown by their repr."""
        return {
            "law": self.law,
            "description": self.description,
            "expected": repr(self.expected),
            "got": repr(self.got),
            "seed": self.seed,
            "where": None if self.where is None else str(self.where),
            "code": self.code,
        }

    def __str__(self) -> str:
        law = find_law(self.law)
        rows = [
            ("law", law.equation),
            ("at", self.where),
            ("expected", repr(self.expected)),
            ("got", repr(self.got)),
            ("seed", self.seed),
        ]
        lines = [f"{law}: {self.description}"]
        lines += [f"  {label + ':':<10}{text}" for label, text in rows if text is not None]
        return "\n".join([*lines, "", self.code])


@dataclass(frozen=True)
class LawResult:
    """The result of one law, for one state type or fork (`subject`).

    `reason` is why a law was skipped, how it was proved, or how to cure it.
    """

    law: str
    title: str
    verdict: Verdict
    cases: int
    counterexample: Counterexample | None = None
    reason: str = ""
    subject: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        found = self.counterexample
        return {
            "law": self.law,
            "title": self.title,
            "subject": self.subject,
            "verdict": self.verdict,
            "cases": self.cases,
            "reason": self.reason,
            "counterexample": None if found is None else found.to_json(),
        }

    def __str__(self) -> str:
        name = f"{self.law} ({self.title})" if self.title else self.law
        about = ", ".join(filter(None, [self.subject, _count_cases(self.cases)]))
        tail = f": {self.reason}" if self.reason else ""
        return f"{self.verdict:<9}{name}{f' [{about}]' if about else ''}{tail}"


def _count_cases(cases: int) -> str:
    return f"{cases} case{'s' if cases > 1 else ''}" if cases else ""


@dataclass(frozen=True)
class RaisingFunction:
    """A function of a program that raised in each of the `cases` it was called in.

    `where` is the user's `file.py:line`. `code` is a Python program that ends with the same exception.
    """

    function: str
    error: str
    where: str | None
    cases: int
    code: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "function": self.function,
            "error": self.error,
            "where": self.where,
            "cases": self.cases,
            "code": self.code,
        }

    def __str__(self) -> str:
        lines = [f"{self.function} raises in every case: {self.error}"]
        lines += [] if self.where is None else [f"  {'at:':<10}{self.where}"]
        return "\n".join([*lines, "", self.code])


@dataclass(frozen=True)
class Report:
    """The results of a check of one program; `raising` are the functions that always raise."""

    program: str
    results: tuple[LawResult, ...]
    seed: int
    cases: int
    lanes: int | None = field(default=None)
    raising: tuple[RaisingFunction, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether no law is broken and no function always raises.

        Rounding counts as broken unless the program has lanes.
        """
        bad = {"broken"} if self.lanes else {"broken", "rounding"}
        return not self.raising and not any(result.verdict in bad for result in self.results)

    def result(self, name: str) -> LawResult:
        """Return the result of a law: the worst one, if it was checked for several subjects."""
        found = [result for result in self.results if result.law == name]
        if not found:
            known = ", ".join(dict.fromkeys(result.law for result in self.results))
            raise KeyError(f"{name!r} was not checked; {known or 'nothing'} was")
        return min(found, key=lambda result: _WORST_FIRST.index(result.verdict))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "program": self.program,
            "ok": self.ok,
            "seed": self.seed,
            "cases": self.cases,
            "lanes": self.lanes,
            "results": [result.to_json() for result in self.results],
            "raising": [one.to_json() for one in self.raising],
        }

    def __str__(self) -> str:
        lines = [str(result) for result in self.results]
        for one in self.raising:
            lines += ["", str(one).rstrip()]
        for result in self.results:
            if result.counterexample is not None:
                lines += ["", str(result.counterexample).rstrip()]
        return "\n".join(lines)
