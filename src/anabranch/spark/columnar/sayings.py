"""Sayings: the rows of outputs, made of columns; what `said.describe_output` says, without one event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.kernels.columns import Columns, Strings
from anabranch.kernels.layouts import (
    BOOL,
    FLOAT,
    INT,
    STR,
    Constant,
    Fields,
    Layout,
    Leaf,
    Option,
    part_names,
)
from anabranch.spark.said import Said, encode_json

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def write_texts(columns: Columns) -> list[str]:
    """Return each value of columns as `encode_json` writes it."""
    return _write(columns.layout, iter(columns.arrays), columns.length, columns.strings)


def describe_outputs(
    tag: str,
    rank: int,
    events: Columns,
    order: tuple[Sequence[int], Sequence[str], Sequence[int]],
    said: tuple[Sequence[int], Sequence[str]],
) -> Iterator[Said]:
    """Yield the rows of outputs of one tag: one event for each.

    `order` holds the events' times, sources and sequences, `said` the numbers of the outputs and their
    texts.
    """
    names = {source: encode_json(source) for source in set(order[1])}
    for text, time, source, seq, index, value in zip(
        write_texts(events), *order, *said, strict=True
    ):
        identity = f"[{time},{rank},{names[source]},{seq}]#{index}"
        yield Said("output", identity, time, tag, source, seq, index, value, text, None)


def _write(layout: Layout, arrays: Iterator[Array], count: int, strings: Strings) -> list[str]:
    if isinstance(layout, Leaf):
        return _write_leaf(layout.kind, next(arrays).tolist(), strings)
    if isinstance(layout, Constant):
        return [encode_json(layout.value)] * count
    if isinstance(layout, Option):
        there = next(arrays).tolist()
        inner = _write(layout.inner, arrays, count, strings)
        return [text if given else "null" for text, given in zip(inner, there, strict=True)]
    assert isinstance(layout, Fields)
    if not layout.parts:
        return [encode_json(layout.cls())] * count
    parts = [_write(part, arrays, count, strings) for part in layout.parts]
    if layout.cls is tuple:
        return [f"[{','.join(row)}]" for row in zip(*parts, strict=True)]
    named = sorted(zip(part_names(layout), parts, strict=True))
    frame = ",".join(f"{encode_json(name)}:%s" for name, _ in named)
    return [f"{{{frame}}}" % row for row in zip(*(part for _, part in named), strict=True)]


def _write_leaf(kind: str, values: list[Any], strings: Strings) -> list[str]:
    if kind == INT:
        return list(map(str, values))
    if kind == BOOL:
        return ["true" if value else "false" for value in values]
    if kind == STR:
        texts = {code: encode_json(strings[code]) for code in set(values)}
        return [texts[code] for code in values]
    if kind == FLOAT:
        # Only numbers are their own repr in JSON: NaN and the infinities have names there.
        return [repr(value) if value - value == 0 else encode_json(value) for value in values]
    return list(map(encode_json, values))
