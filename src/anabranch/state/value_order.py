"""One order for all values: that of the bytes they are written as, whatever they are.

Where a state keeps things of any kind in an order of their own, the order must not depend on who came
first. Values that compare as equal and are written apart (1, 1.0 and True) are told apart here.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from anabranch.state.durable.codec import Codec
from anabranch.state.durable.durable_names import is_record


class _Writer(Codec):
    """Write any record: nothing is read back, so no record has to be known beforehand."""

    def _lower(self, value: Any) -> Any:
        if is_record(type(value)) or isinstance(value, Enum):
            self._learn(type(value))
        return super()._lower(value)


def write_canonically(value: Any) -> bytes:
    """Return a value's durable bytes; equal values of equal types give equal bytes.

    >>> write_canonically({"a", "b"}) == write_canonically({"b", "a"})
    True
    """
    return _Writer().encode(value)


def is_written_alike(a: Any, b: Any) -> bool:
    """Say whether two values are the same, NaN and all."""
    return bool(a == b) or write_canonically(a) == write_canonically(b)
