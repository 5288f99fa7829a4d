"""Columns of texts, concatenated without Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]


def write_numbers(numbers: Array) -> pa.Array:
    """Return integers or bools as JSON texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pa.array(numbers), pa.string())


def pick_texts(texts: list[str], places: Array) -> pa.Array:
    """Return the text at each place."""
    import pyarrow as pa

    return pa.array(texts, pa.string()).take(pa.array(places))


def join_texts(*pieces: pa.Array | str) -> pa.Array:
    """Return a text for each row: the concatenation of the row's texts and of constant texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*columns, pa.scalar(""))


def repeat_text(text: str, count: int) -> pa.Array:
    """Return a column that repeats one text."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(text), count)
