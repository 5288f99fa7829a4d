"""Changes that a program declares, so that state of an older one can be carried into it.

    Program(..., changes=(Rename("Stats", "count", "seen"), Drop("Stats", "old")))

A savepoint notes the changes of the program that made it, so that none is done twice: they may stay in
the program for as long as older savepoints are about. One that has a function is known by the function's
code, or by a `name` of its own.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Identity = tuple[str, ...]
"""What a savepoint notes of a change: which change, of what, and by which function."""


@dataclass(frozen=True)
class Rename:
    """A field is called otherwise: `Rename("Stats", "count", "seen")`.

    With two names, the record itself is, or an enum: `Rename("Stats", "Statistics")`. Members of enums
    are renamed as fields are.
    """

    record: str
    old: str
    new: str | None = None

    @property
    def identity(self) -> Identity:
        """Return what a savepoint notes of it."""
        return ("rename", self.record, self.old, self.new or "")


@dataclass(frozen=True)
class Drop:
    """A field is not kept any more."""

    record: str
    field: str

    @property
    def identity(self) -> Identity:
        """Return what a savepoint notes of it."""
        return ("drop", self.record, self.field)


@dataclass(frozen=True)
class Default:
    """What a new field starts as in records that did not have it."""

    record: str
    field: str
    value: Any

    @property
    def identity(self) -> Identity:
        """Return what a savepoint notes of it."""
        return ("default", self.record, self.field)


@dataclass(frozen=True)
class Retype:
    """A field, under its new name, becomes `function` of what it was."""

    record: str
    field: str
    function: Callable[[Any], Any]
    name: str = ""

    @property
    def identity(self) -> Identity:
        """Return what a savepoint notes of it."""
        return ("retype", self.record, self.field, _name_function(self.function, self.name))


@dataclass(frozen=True)
class Reshape:
    """A whole entry becomes `function` of what it was: `Reshape(lambda n: Stats(n, None))`."""

    function: Callable[[Any], Any]
    name: str = ""

    @property
    def identity(self) -> Identity:
        """Return what a savepoint notes of it."""
        return ("reshape", "", "", _name_function(self.function, self.name))


@dataclass(frozen=True)
class Rekey:
    """A key becomes `function(key)`, or `function(key, entry)` of the new entry.

    A state that is keyed twice over has tuples as keys, one without entries has None. Entries that meet
    under one key are joined, by the state's own join.
    """

    function: Callable[..., Any]
    name: str = ""

    @property
    def identity(self) -> Identity:
        """Return what a savepoint notes of it."""
        return ("rekey", "", "", _name_function(self.function, self.name))

    @property
    def sees_entry(self) -> bool:
        """Say whether the function looks at the entry too."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):  # Some functions of Python's own have none.
            return False
        return sum(one.default is one.empty and one.kind in _PLACED for one in parameters) > 1


Change = Rename | Drop | Default | Retype | Reshape | Rekey
NAMED = "name "
"""How the last part of an identity begins if the user gave it."""


def find_pending(
    done: set[Identity], changes: tuple[Change, ...]
) -> tuple[tuple[Change, ...], list[tuple[str, str, str]]]:
    """Return the changes that the older program did not know, and those of which nobody can tell."""
    given = {change.identity for change in changes}
    pending = tuple(change for change in changes if change.identity not in done)
    unclear: list[tuple[str, str, str]] = []
    for change in pending:
        if not isinstance(change, Retype | Reshape | Rekey) or change.name:
            continue
        slot = change.identity[:3]
        lost = [one for one in done - given if one[:3] == slot and not one[3].startswith(NAMED)]
        if lost:
            place = ".".join(part for part in slot[1:] if part) or slot[0]
            what = f"has a {slot[0]} already, by another function, which is declared no more"
            cure = 'keep that one too; or give this one name="...", if it is to be done after that'
            unclear.append((place, what, f"{cure}; or leave it out, if it is the same"))
    return pending, unclear


def _name_function(function: Callable[..., Any], name: str) -> str:
    if name:
        return f"{NAMED}{name}"
    if isinstance(function, partial):
        inner = _name_function(function.func, "")
        return f"{inner} of {function.args!r} {sorted(function.keywords.items())!r}"
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if code is None:
        return f"function {getattr(function, '__qualname__', repr(type(function)))}"
    return f"code {hashlib.sha256(_spell(code).encode()).hexdigest()[:16]}"


def _spell(constant: Any) -> str:
    if isinstance(constant, CodeType):
        names = (constant.co_names, constant.co_varnames)
        return f"{constant.co_code.hex()} {names!r} {list(map(_spell, constant.co_consts))!r}"
    if isinstance(constant, frozenset):  # Its order differs from process to process.
        return repr(sorted(map(_spell, constant)))
    if isinstance(constant, tuple):
        return repr(list(map(_spell, constant)))
    return repr(constant)
