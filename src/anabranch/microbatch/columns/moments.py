"""Moments: columns of timestamps, or of texts that spell them, as microseconds UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?$"
"""The texts that Arrow and Python read alike. Any other is left to Python."""


def read_moments(column: pa.Array) -> pa.Array | None:
    """Return timestamps, or texts of them, as integers; None where rows have to be read one by one.

    A timestamp without a zone is taken as UTC, as everywhere. A text that is not plain gives null.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()) if kind.unit == "us" else None
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _parse(column)
    return None


def _parse(texts: pa.Array) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.match_substring_regex(texts, _PLAIN)
    zoned = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}:[0-9]{2})$")
    whole = pc.if_else(
        zoned, texts, pc.binary_join_element_wise(texts, pa.scalar("Z", texts.type), "")
    )
    whole = pc.if_else(plain, whole, pa.scalar(None, texts.type))
    try:
        return whole.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:
        return None  # Some text is no date, such as the 30th of February.
