"""Failures: call a user's function, and turn whatever it raises into a reason.

Every place that calls a function of a user's and goes on when it raises does so by `attempt`, so that
one rule holds on every runtime (`docs/decisions/failures.md`):

* An exception is an outcome: the event is rejected, with the reason. So is `SystemExit`, and every other
  exception that is not an `Exception`: `sys.exit()` in an update must not end a run as if all were well.
* `RecursionError` and `MemoryError` are outcomes too: `1 << event.n` raises the latter on a large number,
  and one such event must not stop a stream.
* `KeyboardInterrupt`, `GeneratorExit` and errors of Anabranch that are to stop the run go on as they are.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, ParamSpec, TypeVar

from anabranch.errors import AnabranchError, Location
from anabranch.model.events import Event

P = ParamSpec("P")
T = TypeVar("T")

MOST_CHARACTERS = 500
"""How much of an exception's message goes into a reason."""


class Passing(BaseException):
    """Something that passes through a user's function and is none of its outcomes."""


_PASSING = (KeyboardInterrupt, GeneratorExit, Passing)


class Failed(NamedTuple):
    """What a user's function raised: the exception, and in words, with the user's file and line."""

    error: BaseException
    reason: str

    @property
    def kind(self) -> str:
        """Return the name of the exception's type."""
        return type(self.error).__name__

    def describe(self, event: Event) -> str:
        """Return the reason for which an event is rejected."""
        return f"on {type(event.data).__name__}: {self.reason}"


def attempt(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failed:
    """Call a function; return its result, or what it raised.

    >>> attempt(int, "7"), attempt(int, "x").kind
    (7, 'ValueError')
    """
    try:
        return function(*args, **kwargs)
    except _PASSING:
        raise
    except BaseException as error:
        if isinstance(error, AnabranchError) and getattr(error, "stops", False):
            raise
        failed = Failed(error, explain(error))
        # The frames would keep the states of a batch alive for as long as the reason.
        error.__traceback__ = None
        return failed


def explain(error: BaseException) -> str:
    """Return an exception in words: its type, its message, and the user's file and line."""
    where = locate(error.__traceback__) or _read_place(error)
    place = "" if where is None else f" ({where})"
    return f"{type(error).__name__}: {read_message(error)}{place}"


def _read_place(error: BaseException) -> str | None:
    """Return the place that an error of ours names itself: it is raised for a function that has returned."""
    where = error.where if isinstance(error, AnabranchError) else None
    return f"{Path(where.file).name}:{where.line}" if isinstance(where, Location) else None


def read_message(error: BaseException) -> str:
    """Return the message of an exception, of a bounded length; its `__str__` may raise as well.

    >>> class Silent(Exception):
    ...     def __str__(self):
    ...         raise RuntimeError
    >>> read_message(Silent()), read_message(ValueError("no such key"))
    ('(its __str__ raises RuntimeError)', 'no such key')
    """
    try:
        text = error.what if isinstance(error, AnabranchError) else str(error)
    except _PASSING:
        raise
    except BaseException as second:  # noqa: BLE001 - a message is not worth a run
        return f"(its __str__ raises {type(second).__name__})"
    most = MOST_CHARACTERS
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def locate(trace: TracebackType | None) -> str | None:
    """Return the innermost place of a traceback that is the user's: `file.py:line`.

    The folder is left out, so that a reason is the same on every machine.
    """
    found = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_list_libraries()):
            found = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


@cache
def _list_libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    own = str(Path(__file__).parents[1])
    others = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (own, *sorted(others), "<frozen ")
