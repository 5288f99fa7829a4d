"""Changes that a program declares, so that state of an older version can be migrated to it.

    Program(..., changes=(Rename("Stats", "count", "seen"), Drop("Stats", "old")))

A savepoint records the changes of the program that made it, so that none is applied twice: they may stay
in the program as long as older savepoints are in use. A change with a function is identified by the
function's code, or by its `name`.
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
"""The identity of a change in a savepoint: the kind of change, its target, and its function."""


@dataclass(frozen=True)
class Rename:
    """A field has a new name: `Rename("Stats", "count", "seen")`.

    With two arguments, a record or an enum has a new name: `Rename("Stats", "Statistics")`. Members of
    enums are renamed like fields.
    """

    record: str
    old: str
    new: str | None = None

    @property
    def identity(self) -> Identity:
        """Return the identity that a savepoint records."""
        return ("rename", self.record, self.old, self.new or "")


@dataclass(frozen=True)
class Drop:
    """A field is removed."""

    record: str
    field: str

    @property
    def identity(self) -> Identity:
        """Return the identity that a savepoint records."""
        return ("drop", self.record, self.field)


@dataclass(frozen=True)
class Default:
    """The value of a new field in records that did not have it."""

    record: str
    field: str
    value: Any

    @property
    def identity(self) -> Identity:
        """Return the identity that a savepoint records."""
        return ("default", self.record, self.field)


@dataclass(frozen=True)
class Retype:
    """The value of a field, under its new name, becomes `function(value)`."""

    record: str
    field: str
    function: Callable[[Any], Any]
    name: str = ""

    @property
    def identity(self) -> Identity:
        """Return the identity that a savepoint records."""
        return ("retype", self.record, self.field, _name_function(self.function, self.name))


@dataclass(frozen=True)
class Reshape:
    """A whole entry becomes `function(entry)`: `Reshape(lambda n: Stats(n, None))`."""

    function: Callable[[Any], Any]
    name: str = ""

    @property
    def identity(self) -> Identity:
        """Return the identity that a savepoint records."""
        return ("reshape", "", "", _name_function(self.function, self.name))


@dataclass(frozen=True)
class Rekey:
    """A key becomes `function(key)`, or `function(key, entry)` with the new entry.

    The key of a state with several key fields is a tuple, that of a state without entries is None. Entries
    that get the same key are joined by the state's join.
    """

    function: Callable[..., Any]
    name: str = ""

    @property
    def identity(self) -> Identity:
        """Return the identity that a savepoint records."""
        return ("rekey", "", "", _name_function(self.function, self.name))

    @property
    def sees_entry(self) -> bool:
        """Return whether the function takes the entry too."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):  # Some builtins have no signature.
            return False
        return sum(one.default is one.empty and one.kind in _PLACED for one in parameters) > 1


Change = Rename | Drop | Default | Retype | Reshape | Rekey
NAMED = "name "
"""The start of the last part of an identity if the user gave a name."""


def find_pending(
    done: set[Identity], changes: tuple[Change, ...]
) -> tuple[tuple[Change, ...], list[tuple[str, str, str]]]:
    """Return the changes that the older program did not have, and those for which that is unclear."""
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
            what = f"already has a {slot[0]} by another function, which is not declared any more"
            cure = 'declare that one too; or give this one name="...", if it is applied after it'
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
