"""The text of a value, to compare values that must be equal to the bit."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any


def write_exactly(value: Any) -> str:
    """Return a text that equal values of equal types share, and no others.

    `==` does not tell 0.0 from -0.0, 1 from True, or NaN from itself. `repr` does, but it depends on the order in which
    members came into a set.

    >>> write_exactly({"b": 1, "a": (True, frozenset({2, 1}))})
    "dict{'a': tuple(True, frozenset{1, 2}), 'b': 1}"
    """
    name = type(value).__name__
    if isinstance(value, Mapping):
        pairs = sorted(f"{write_exactly(k)}: {write_exactly(v)}" for k, v in value.items())
        return f"{name}{{{', '.join(pairs)}}}"
    if isinstance(value, AbstractSet):
        return f"{name}{{{', '.join(sorted(map(write_exactly, value)))}}}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = [f"{f.name}={write_exactly(getattr(value, f.name))}" for f in fields(value)]
        return f"{name}({', '.join(parts)})"
    if isinstance(value, (list, tuple)):
        return f"{name}({', '.join(map(write_exactly, value))})"
    return repr(value)
