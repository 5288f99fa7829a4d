"""The order of arbitrary values by their durable bytes.

A state that sorts values of any type needs an order that does not depend on arrival. Values that compare
as equal but have different bytes (1, 1.0 and True) are distinct here.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

from anabranch.state.durable.codec import Codec
from anabranch.state.durable.durable_names import is_record


class _Writer(Codec):
    """A codec for any record: it only encodes, so records need not be registered."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[type] = set()

    def _lower(self, value: Any) -> Any:
        kind = type(value)
        if kind not in self._seen:
            if is_record(kind) or issubclass(kind, Enum):
                self._learn(kind)
            self._seen.add(kind)  # After `_learn`: another thread may read it.
        return super()._lower(value)


def write_canonically(value: Any) -> bytes:
    """Return a value's durable bytes; equal values of equal types give equal bytes.

    >>> write_canonically({"a", "b"}) == write_canonically({"b", "a"})
    True
    """
    return _make_writer().encode(value)


@cache
def _make_writer() -> _Writer:
    """Return the writer of this process: reading the annotations of a record costs more than to encode one."""
    return _Writer()


def is_written_alike(a: Any, b: Any) -> bool:
    """Return whether two values are equal, or have equal durable bytes, as NaN has."""
    return bool(a == b) or write_canonically(a) == write_canonically(b)
