"""Forms: the structure of a value without its numbers.

`(3, True, None)` and `(x, b, None)` have one form: a tuple of an int, a bool and None. A proof treats
the forms that a state can take one by one, and z3 quantifies over the numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum
from typing import Any

from anabranch.laws.proving import terms
from anabranch.laws.proving.terms import BOOL, INT, Term

Form = tuple[Any, ...]
"""A nested tuple; the first item is the kind."""

_INT: Form = (INT,)
_BOOL: Form = (BOOL,)


class NumberTerm:
    """A number that is given as a term."""

    __slots__ = ("term", "trace")

    term: Term
    trace: Any


class FixedPart:
    """A part that is not a number, and is a constant of the form."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if type(other) is not FixedPart or type(self.value) is not type(other.value):
            return False
        # By repr, since 0.0 == -0.0 and nan != nan. Objects of a user's own class only by
        # identity: their `==` could do anything.
        return self.value is other.value or (
            type(self.value) in (str, bytes, float, int, bool) and repr(self) == repr(other)
        )

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def read_form(value: Any) -> Form:
    """Return the form of a value."""
    kind = type(value)
    if issubclass(kind, NumberTerm):
        return (value.term.sort,)
    if kind is bool:
        return _BOOL
    if kind is int:
        return _INT
    if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return ("tuple", kind, tuple(read_form(part) for part in value))
    if kind is list:
        return ("list", list, tuple(read_form(part) for part in value))
    if kind is dict and not any(issubclass(type(key), NumberTerm) for key in value):
        return ("dict", tuple(map(FixedPart, value)), tuple(read_form(v) for v in value.values()))
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        parts = [read_form(getattr(value, field.name)) for field in dataclasses.fields(kind)]
        return ("data", kind, tuple(parts))
    return ("fixed", FixedPart(value), ())


def list_terms(value: Any) -> list[Term]:
    """Return the numbers in a value as terms, in the order of its form."""
    kind = type(value)
    if issubclass(kind, NumberTerm):
        return [value.term]
    if kind in (bool, int):
        return [terms.constant(value)]
    form = read_form(value)
    if form[0] in ("tuple", "list"):
        parts = list(value)
    elif form[0] == "dict":
        parts = list(value.values())
    elif form[0] == "data":
        parts = [getattr(value, field.name) for field in dataclasses.fields(kind)]
    else:
        parts = []
    return [term for part in parts for term in list_terms(part)]


def list_sorts(form: Form) -> list[str]:
    """Return the sorts of the numbers in a form."""
    if form in (_INT, _BOOL):
        return [form[0]]
    return [sort for part in form[2] for sort in list_sorts(part)]


def list_names(form: Form, name: str = "s") -> list[str]:
    """Return a readable name for each number in a form: `s.total`, `s[0]`."""
    if form in (_INT, _BOOL):
        return [name]
    if form[0] == "dict":
        steps = [f"[{key!r}]" for key in form[1]]
    elif form[0] == "data":
        steps = [f".{field.name}" for field in dataclasses.fields(form[1])]
    elif form[0] == "tuple" and form[1] is not tuple:
        steps = [f".{field}" for field in form[1]._fields]
    else:
        steps = [f"[{place}]" for place in range(len(form[2]))]
    parts = zip(steps, form[2], strict=True)
    return [found for step, part in parts for found in list_names(part, name + step)]


def build_value(form: Form, numbers: list[Any]) -> Any:
    """Return a value of a form with these numbers."""
    return _build(form, iter(numbers))


def _build(form: Form, numbers: Iterator[Any]) -> Any:
    if form in (_INT, _BOOL):
        return next(numbers)
    if form[0] == "fixed":
        return form[1].value
    parts = [_build(part, numbers) for part in form[2]]
    if form[0] == "tuple":
        # Without the user's __new__: the parts were in such a value already.
        return tuple.__new__(form[1], parts)
    if form[0] == "dict":
        return {key.value: part for key, part in zip(form[1], parts, strict=True)}
    if form[0] == "data":
        return build_record(form[1], parts)
    return parts


def build_record(kind: Any, parts: list[Any]) -> Any:
    """Return an instance of a frozen dataclass or NamedTuple, without running a user's check."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, parts)
    record = object.__new__(kind)
    for field, part in zip(dataclasses.fields(kind), parts, strict=True):
        object.__setattr__(record, field.name, part)
    return record


def find_unsupported(form: Form) -> Any:
    """Return a part that a state in a proof can't have, such as a float; None if there is none."""
    if form in (_INT, _BOOL):
        return None
    if form[0] in ("dict", "list"):
        return form[0]
    if form[0] == "fixed":
        value = form[1].value
        known = value is None or isinstance(value, str | bytes | Enum) or value is ABSENT
        return None if known else type(value).__name__
    return next((found for part in form[2] if (found := find_unsupported(part))), None)


class _NoEntry:
    """The entry of a key that a map does not have."""

    def __repr__(self) -> str:
        return "(no entry)"


ABSENT = _NoEntry()
