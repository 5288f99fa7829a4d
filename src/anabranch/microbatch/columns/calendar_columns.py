"""Columns of timestamps and dates, or of their texts, as microseconds UTC and as days since 1970."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from anabranch.kernels.column_layouts import DAY

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_HOUR = "([01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE = f"(Z|[+-]{_HOUR})"
_PLAIN_DAY = f"^{_DATE}$"
_PLAIN_MOMENT = rf"^{_DATE}[T ]{_HOUR}:[0-5][0-9](\.[0-9]{{1,6}})?{_ZONE}?$"
"""The texts that Arrow and Python parse alike. All others are left to Python."""


def read_calendar(kind: str, column: pa.Array) -> pa.Array | None:
    """Return timestamps or dates, or texts of them, as integers; None if the rows must be read one by one.

    A timestamp without a zone is UTC. A text that is not plain becomes null.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = column.type
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        try:
            return _parse_days(column) if kind == DAY else _parse_moments(column)
        except pa.ArrowInvalid:
            return None
    if kind == DAY:
        fits = pa.types.is_date32(found)
        return column.cast(pa.int32()).cast(pa.int64()) if fits else None
    fits = pa.types.is_timestamp(found) and found.unit == "us"
    return column.cast(pa.int64()) if fits else None


def _parse_days(texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = _find_plain(texts, _PLAIN_DAY)
    days = pc.if_else(plain, texts, pa.scalar(None, texts.type)).cast(pa.date32())
    return days.cast(pa.int32()).cast(pa.int64())


def _parse_moments(texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = _find_plain(texts, _PLAIN_MOMENT)
    zoned = pc.match_substring_regex(texts, f"{_ZONE}$")
    whole = pc.binary_join_element_wise(texts, pa.scalar("Z", texts.type), "")
    whole = pc.if_else(zoned, texts, whole)
    whole = pc.if_else(plain, whole, pa.scalar(None, texts.type))
    return whole.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def _find_plain(texts: pa.Array, pattern: str) -> pa.Array:
    """Return which texts match a pattern, and begin with a valid date: not the 30th of February."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # There are few distinct dates, however many texts there are.
    days = pc.utf8_slice_codeunits(texts, 0, 10).dictionary_encode()
    known = pa.array([_is_day(day) for day in days.dictionary.to_pylist()], pa.bool_())
    return pc.and_(pc.match_substring_regex(texts, pattern), known.take(days.indices))


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
