"""Symbolic execution: run a user's own functions on unknown numbers.

Where Python needs a truth value (`if`, `and`, `max`), the run takes one side, and the function is run
again for the other. No source code is read, so lambdas and builtins work alike. An unsupported
operation ends the run with `Stop`, never with a guess.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from operator import is_, is_not
from types import CodeType, FrameType
from typing import Any

from anabranch.laws.proving import terms
from anabranch.laws.proving.forms import Form, build_value, list_terms, read_form
from anabranch.laws.proving.symbols import Stop, wrap
from anabranch.laws.proving.terms import Term
from anabranch.model.failures import Failed, attempt

MAX_PATHS = 256
_TRUSTED = ("anabranch.laws.", "anabranch.model.", "anabranch.state.", "dataclasses", "enum")
"""Modules whose code checks types, but not the types of numbers."""
_SEES_TYPES = frozenset({"type", "id", "vars", "eval", "exec", "globals", "locals"})


@dataclass(frozen=True)
class CodePath:
    """One path through a function: its condition, and its result or exception."""

    condition: Term
    value: Any = None
    error: BaseException | None = None


class _Frame:
    """The decisions of one path through one function."""

    def __init__(self, prefix: tuple[tuple[Term, bool], ...]) -> None:
        self.prefix = prefix
        self.made: list[tuple[Term, bool]] = []

    def decide(self, term: Term) -> bool:
        place = len(self.made)
        if place < len(self.prefix):
            expected, answer = self.prefix[place]
            if expected != term:
                raise Stop("the function is not deterministic")
        else:
            answer = True
        self.made.append((term, answer))
        return answer

    def conditions(self) -> list[Term]:
        return [term if answer else terms.negate(term) for term, answer in self.made]


class Trace:
    """The decisions of a symbolic run, one frame for each function being explored."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = []
        self._stopped: Stop | None = None
        self._codes: set[CodeType] = set()

    def decide(self, term: Term) -> bool:
        """Return the side of a branch to take; the same term always gets the same side."""
        if term.op == "const":
            return bool(term.args[0])
        opposite = terms.negate(term)
        for frame in self._frames:
            for known, answer in frame.made:
                if known == term:
                    return answer
                if known == opposite:
                    return not answer
        if not self._frames:
            raise self.stop("a symbolic value was used outside a symbolic run")
        return self._frames[-1].decide(term)

    def stop(self, reason: str) -> Stop:
        """Return the exception that ends the run; a run that catches it is ended too."""
        self._stopped = Stop(reason)
        return self._stopped

    def explore(self, function: Callable[[], Any]) -> list[CodePath]:
        """Return every path through a function."""
        cases: list[CodePath] = []
        pending: list[tuple[tuple[Term, bool], ...]] = [()]
        while pending:
            if len(cases) + len(pending) > MAX_PATHS:
                raise self.stop(f"more than {MAX_PATHS} paths")
            frame = _Frame(pending.pop())
            self._frames.append(frame)
            try:
                case = self._run(function, frame)
            except RecursionError:
                raise self.stop("expressions grew too deep") from None
            finally:
                self._frames.pop()
            cases.append(case)
            for place in range(len(frame.prefix), len(frame.made)):
                term, answer = frame.made[place]
                pending.append((*frame.made[:place], (term, not answer)))
        return cases

    def _run(self, function: Callable[[], Any], frame: _Frame) -> CodePath:
        value: Any = attempt(function)
        error: BaseException | None = None
        if isinstance(value, Failed):
            value, error = None, value.error
        if isinstance(error, RecursionError):
            raise error
        if self._stopped is not None:
            raise self._stopped
        return CodePath(terms.conjoin(frame.conditions()), value, error)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function; return its results on all paths merged into one, as far as they have one form.

        Results of one form differ in numbers only, and these become conditional terms, so that
        two `max` in a row make one path and not four.
        """
        groups: dict[Any, list[CodePath]] = {}
        for case in self.explore(lambda: function(*args)):
            groups.setdefault(_group_key(case), []).append(case)
        for place, group in enumerate(groups.values()):
            last = place == len(groups) - 1
            if last or self.decide(terms.disjoin(case.condition for case in group)):
                return self._merge(group)
        raise AssertionError("a function has no path")

    def _merge(self, group: list[CodePath]) -> Any:
        error = group[0].error
        if error is not None:
            raise error
        merged = list_terms(group[-1].value)
        for case in reversed(group[:-1]):
            choices = zip(list_terms(case.value), merged, strict=True)
            merged = [terms.choose(case.condition, a, b) for a, b in choices]
        return self.build(read_form(group[0].value), merged)

    def build(self, form: Form, leaves: list[Term]) -> Any:
        """Return a value of a form with these terms as its numbers."""
        return build_value(form, [wrap(leaf, self) for leaf in leaves])

    def watch(self, function: Callable[[], Any]) -> Any:
        """Run a function; raise Stop if code that it ran could distinguish a symbol from a number."""
        before = sys.getprofile()
        seen: set[CodeType] = set()

        def note(frame: FrameType, event: str, called: Any) -> None:
            if event == "call" and not _is_trusted(frame):
                seen.add(frame.f_code)
            elif event == "c_call" and any(called is known for known in (is_, is_not)):
                self.stop("a function compares with `is`")

        sys.setprofile(note)
        try:
            result = function()
        finally:
            _resume(before)
        for code in seen - self._codes:
            refuse_code(code)
        self._codes |= seen
        return result


def _resume(profiler: Any) -> None:
    """Restore a profiler that was running."""
    sys.setprofile(None)
    if callable(profiler):
        sys.setprofile(profiler)
    elif profiler is not None:
        profiler.enable()  # cProfile's profiler can't be set, only enabled.


def _is_trusted(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_filename == "<string>" and code.co_name.startswith("__"):
        # The methods that `dataclass` writes compare the classes of records, not of numbers.
        return is_dataclass(type(frame.f_locals.get("self")))
    return str(frame.f_globals.get("__name__", "")).startswith(_TRUSTED)


def _group_key(case: CodePath) -> Any:
    return read_form(case.value) if case.error is None else ("raises", type(case.error))


def refuse_code(code: CodeType) -> None:
    """Raise Stop if a function checks the type or identity of a value, which no symbol can imitate."""
    before = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in _SEES_TYPES:
            raise Stop(f"{code.co_name} calls {step.argval}()")
        if step.opname == "IS_OP" and not (
            before is not None and before.opname == "LOAD_CONST" and before.argval is None
        ):
            raise Stop(f"{code.co_name} compares with `is`")
        before = step
