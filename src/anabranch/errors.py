"""Errors that Anabranch raises.

Each message has the same parts: what is wrong; where (the user's own file and line); what was expected;
what was found; what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Location:
    """A file and line of the user's source code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class AnabranchError(Exception):
    """The base class of all errors of Anabranch."""

    def __init__(
        self,
        what: str,
        *,
        where: Location | str | None = None,
        expected: str | None = None,
        got: str | None = None,
        cure: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.cure = cure
        super().__init__(self._compose())

    def _compose(self) -> str:
        rows = [("at", self.where), ("expected", self.expected), ("got", self.got)]
        lines = [self.what, *(f"  {label + ':':<10}{text}" for label, text in rows if text)]
        if self.cure:
            lines.append(f"  {'to do:':<10}{self.cure}")
        return "\n".join(lines)


class ProgramError(AnabranchError, ValueError):
    """A program is invalid. Raised when it is built."""


class PlanError(AnabranchError, ValueError):
    """A plan is not a tree of plan nodes, or is not valid for its program."""


class InputError(AnabranchError, ValueError):
    """An input file, a channel declaration or an event could not be used."""


class TargetError(AnabranchError, LookupError):
    """A target such as `file.py:name` does not lead to a program."""


class ConservationError(AnabranchError, AssertionError):
    """The ledger does not balance: events are missing or were counted twice.

    This is a bug in the runtime, never in the program. The run stops.
    """


class RejectionError(AnabranchError, RuntimeError):
    """More events were rejected than `most_rejected` allows. The rejected events are published."""


class StateTooLargeError(AnabranchError, ValueError):
    """An event would make a state larger than its limit. The event is rejected, or the run stops.

    `key` is the path to the state: the values of the fields by which it has entries, outermost first.
    """

    def __init__(
        self, size: int, most: int, unit: str, *, stops: bool = False, key: tuple[Any, ...] = ()
    ) -> None:
        self.size, self.most, self.unit, self.stops, self.key = size, most, unit, stops, key
        of = f" of {', '.join(map(repr, key))}" if key else ""
        super().__init__(
            f"the state{of} would grow to {size} {unit}; its limit is {most}",
            cure="keep less, raise the limit of Limited(...), "
            + (
                "or reject such events with on_overflow='reject'" if stops else "or check the event"
            ),
        )

    def within(self, key: Any) -> StateTooLargeError:
        """Return the same error for a state that is the entry of a key."""
        keys = (key, *self.key)
        return StateTooLargeError(self.size, self.most, self.unit, stops=self.stops, key=keys)


class OutputTypeError(AnabranchError, TypeError):
    """An output does not have the type that its program declares. The event is rejected."""


class MissingExtraError(AnabranchError, ImportError):
    """An optional library that a feature needs is not installed."""


class Stopped(KeyboardInterrupt):
    """A command received a signal to stop.

    A caught plain KeyboardInterrupt may still end Python by SIGINT, whatever the exit code, if it passed
    through code that was compiled from text, such as the code of named tuples.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
