"""Failures: call a user's function, and turn what it raises into the reason of a rejected event.

Code that calls a user's function and continues when it raises uses `attempt`, so that one rule holds on
every runtime (`docs/decisions/failures.md`):

* An exception is an outcome: the event is rejected, with the reason. So is `SystemExit`, and every other
  exception that is not an `Exception`: `sys.exit()` in an update must not end a run as if it had succeeded.
* `RecursionError` and `MemoryError` are outcomes too: `1 << event.n` raises the latter on a large number,
  and one such event must not stop a stream.
* `KeyboardInterrupt`, `GeneratorExit` and errors of Anabranch that stop the run are raised unchanged.
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
"""The number of characters of an exception's message that a reason contains."""


RAISED = "on "
"""The start of the reason of an event on which a function of the program raised; the event type follows."""

_WHERE = "_anabranch_where"


class Passing(BaseException):
    """An exception that passes through a user's function and is not an outcome of it."""


_PASSING = (KeyboardInterrupt, GeneratorExit, Passing)


class Failed(NamedTuple):
    """An exception that a user's function raised, and its description with the user's file and line."""

    error: BaseException
    reason: str
    place: str | None = None

    @property
    def kind(self) -> str:
        """Return the name of the exception's type."""
        return type(self.error).__name__

    @property
    def message(self) -> str:
        """Return the message of the exception, cut to a maximum length."""
        return read_message(self.error)

    def describe(self, event: Event) -> str:
        """Return the reason for which an event is rejected."""
        return f"{RAISED}{type(event.data).__name__}: {self.reason}"


def attempt(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failed:
    """Call a function; return its result, or a `Failed` with the exception that it raised.

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
        failed = Failed(error, explain(error), _find_place(error))
        # The frames of the traceback would keep the states of a batch in memory.
        error.__traceback__ = None
        return failed


def explain(error: BaseException) -> str:
    """Return the description of an exception: its type, its message, and the user's file and line."""
    where = _find_place(error)
    place = "" if where is None else f" ({where})"
    return f"{type(error).__name__}: {read_message(error)}{place}"


def note_place(error: BaseException, where: Location | None) -> None:
    """Set on an exception the location where the user declared the function that raised it.

    A reason names this location if no line of the user's own code was running, as in `on(Txn, update=max)`.
    """
    if where is not None and not hasattr(error, _WHERE):
        setattr(error, _WHERE, f"{Path(where.file).name}:{where.line}")


def _find_place(error: BaseException) -> str | None:
    return locate(error.__traceback__) or _read_place(error) or getattr(error, _WHERE, None)


def was_raised(reason: str, event_type: str | None) -> bool:
    """Return whether the reason of a rejected event of a type is that a function raised.

    >>> was_raised("on Txn: KeyError: 7 (app.py:3)", "Txn"), was_raised("no such event type", "Txn")
    (True, False)
    """
    return event_type is not None and reason.startswith(f"{RAISED}{event_type}: ")


def _read_place(error: BaseException) -> str | None:
    """Return the location in an error of Anabranch, which is raised after the user's function has returned."""
    where = error.where if isinstance(error, AnabranchError) else None
    return f"{Path(where.file).name}:{where.line}" if isinstance(where, Location) else None


def read_message(error: BaseException) -> str:
    """Return the message of an exception, cut to a maximum length; its `__str__` may raise as well.

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
    """Return the innermost location of a traceback in the user's code: `file.py:line`.

    The folder is left out, so that a reason is the same on every machine.
    """
    found, generated = None, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file == "<string>":  # A dataclass's own methods, unless the user runs `python -c`.
            generated = f"{file}:{trace.tb_lineno}"
        elif file.startswith(_EXAMPLES) or not file.startswith(_list_libraries()):
            found = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found or generated


_PACKAGE = Path(__file__).parents[1]
_EXAMPLES = str(_PACKAGE / "_examples")


@cache
def _list_libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    others = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (str(_PACKAGE), *sorted(others), "<frozen ")
