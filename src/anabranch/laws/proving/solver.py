"""The solver: z3, with one query at a time and a time limit on each."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Any, Literal

from anabranch.errors import MissingExtraError
from anabranch.laws.proving import terms
from anabranch.laws.proving.terms import BOOL, Term

Values = dict[str, Any]


class Solver:
    """Find numbers that make terms true; in total for no longer than `total_ms` milliseconds."""

    def __init__(self, timeout_ms: int, total_ms: int | None = None) -> None:
        self._z3 = _import_z3()
        self._timeout_ms = timeout_ms
        self._left_ms = float("inf") if total_ms is None else float(total_ms)
        self._memo: dict[Term, Any] = {}

    def find(self, wanted: Iterable[Term]) -> Values | Literal[False] | None:
        """Return numbers for which all terms hold; False if there are none, None if z3 can't decide.

        Irrelevant numbers are 0 and False.
        """
        whole = terms.conjoin(wanted)
        if whole.op == "const" and not whole.args[0]:
            return False
        if self._left_ms <= 0:
            return None
        solver = self._z3.Solver()
        solver.set("timeout", self._timeout_ms)
        solver.set("random_seed", 0)
        try:
            solver.add(terms.translate(whole, self._z3, self._memo))
        except RecursionError:
            return None
        before = monotonic()
        answer = solver.check()
        self._left_ms -= 1000 * (monotonic() - before)
        if answer == self._z3.unsat:
            return False
        if answer != self._z3.sat:
            return None
        return self._read(solver.model(), whole)

    def _read(self, model: Any, whole: Term) -> Values:
        values = Assignment()
        for variable in list_variables(whole):
            found = model.eval(terms.translate(variable, self._z3, self._memo), True)
            true = self._z3.is_true(found)
            values[variable.args[0]] = true if variable.sort == BOOL else found.as_long()
        return values


class Assignment(Values):
    """Values of variables, 0 for those that no term mentions."""

    def __missing__(self, name: str) -> int:
        return 0


def list_variables(term: Term) -> set[Term]:
    """Return the variables of a term."""
    seen: set[Term] = set()
    queue = [term]
    while queue:
        node = queue.pop()
        if node in seen or node.op == "const":
            continue
        seen.add(node)
        if node.op != "var":
            queue.extend(node.args)
    return {node for node in seen if node.op == "var"}


def _import_z3() -> Any:
    try:
        import z3
    except ImportError as error:
        raise MissingExtraError(
            "proofs need z3, which is not installed",
            expected="the package z3-solver",
            got=str(error),
            cure="pip install 'anabranch[proof]'",
        ) from error
    return z3
