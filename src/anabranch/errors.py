"""Errors a user can meet, each written by one formula.

What is wrong; where (the user's own file and line); what was expected; what was found; what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Location:
    """A place in the user's channel."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class AnabranchError(Exception):
    """The root of every error that Anabranch raises on purpose."""

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
    """A program was refused when it was built: it contradicts itself."""


class PlanError(AnabranchError, ValueError):
    """A plan was refused: it is not a tree of workers, or it is not valid for its program."""


class InputError(AnabranchError, ValueError):
    """An input file, a channel declaration or an event could not be used."""


class TargetError(AnabranchError, LookupError):
    """A target such as `file.py:name` does not lead to a program."""


class ConservationError(AnabranchError, AssertionError):
    """Events went missing or were counted twice: the ledger does not balance.

    This is a defect of the runtime, never of the program. The run stops.
    """


class RejectionError(AnabranchError, RuntimeError):
    """More events were rejected than a run was told to bear. What was rejected is published."""


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
                "or set events aside with on_overflow='reject'" if stops else "or look at the event"
            ),
        )

    def within(self, key: Any) -> StateTooLargeError:
        """Return the same error, of a state that lies under a key."""
        keys = (key, *self.key)
        return StateTooLargeError(self.size, self.most, self.unit, stops=self.stops, key=keys)


class OutputTypeError(AnabranchError, TypeError):
    """An output is not of the type that its program declares. The event is rejected."""


class MissingExtraError(AnabranchError, ImportError):
    """An optional library is needed for what was asked, and is not installed."""


class Stopped(KeyboardInterrupt):
    """A signal asks a command to stop.

    A plain KeyboardInterrupt that was caught may still end Python by SIGINT, whatever the exit code, if it passed
    through code that was made of text, as that of named tuples is.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
