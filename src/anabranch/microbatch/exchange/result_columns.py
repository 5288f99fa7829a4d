"""Result rows of outputs as columns: the same as `result_rows.describe_output`, without Python events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.kernels.column_layouts import (
    BOOL,
    DAY,
    FLOAT,
    INT,
    MOMENT,
    STR,
    ColumnLayout,
    Constant,
    Fields,
    Leaf,
    OptionalColumn,
    part_names,
)
from anabranch.kernels.numpy_columns import Columns, Strings, lift_calendar
from anabranch.kernels.output_layouts import find_type
from anabranch.microbatch.columns.event_tables import EventTable
from anabranch.microbatch.columns.string_columns import (
    join_texts,
    pick_texts,
    repeat_text,
    write_numbers,
)
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.model.values.output_types import OutputTypes

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]


def write_texts(columns: Columns) -> pa.Array:
    """Return each value of columns as `encode_json` writes it."""
    return _write(columns.layout, iter(columns.arrays), columns.length, columns.strings)


def write_values(values: Sequence[Columns], forms: Array) -> pa.Array:
    """Return the outputs of a kernel as JSON, in order: the next value of the form of each output."""
    import numpy as np
    import pyarrow as pa

    texts = [write_texts(columns) for columns in values]
    if len(texts) == 1:
        return texts[0]
    places = np.empty(len(forms), np.int64)
    places[np.argsort(forms, kind="stable")] = np.arange(len(forms))
    return pa.concat_arrays(texts).take(pa.array(places))


def write_outputs(
    types: OutputTypes, values: Sequence[Columns], forms: Array
) -> tuple[pa.Array, Array]:
    """Return the outputs of a kernel, in order: as JSON, and the number of each output's type."""
    return write_values(values, forms), number_types(types, values, forms)


def number_types(types: OutputTypes, values: Sequence[Columns], forms: Array) -> Array:
    """Return the number of the type of each output of a kernel."""
    import numpy as np

    found = np.zeros(len(forms), np.int32)
    if len(types.types) < 2:
        return found
    for form, columns in enumerate(values):
        known = find_type(types, columns.layout)
        found[forms == form] = (
            [types.find(value) for value in columns.unpack()] if known is None else known
        )
    return found


def describe_outputs(
    events: EventTable,
    rank: int,
    names: Sequence[str],
    indexes: Array,
    values: pa.Array,
    types: Array,
) -> pa.Table:
    """Return the rows of outputs of one event type, in the columns of `ResultRow`.

    There is one event for each output; `indexes` are the places of the outputs among those of their event,
    `values` the outputs as JSON, and `types` the numbers of their types. `names` are the channels in order.
    """
    import pyarrow as pa

    layout: Any = events.columns.layout
    count = len(events)
    times, seqs = write_numbers(events.times), write_numbers(events.seqs)
    channels = pick_texts([encode_json(name) for name in names], events.channels)
    numbers = write_numbers(indexes)
    return pa.table(
        {
            "kind": repeat_text("output", count),
            "id": join_texts("[", times, f",{rank},", channels, ",", seqs, "]#", numbers),
            "time": pa.array(events.times),
            "type": repeat_text(layout.cls.__name__, count),
            "channel": pick_texts(list(names), events.channels),
            "seq": pa.array(events.seqs),
            "index": pa.array(indexes, pa.int32()),
            "value": values,
            "event": pa.nulls(count, pa.string()),
            "reason": pa.nulls(count, pa.string()),
            "op": pa.repeat(pa.scalar(1, pa.int32()), count),
            "distance": pa.nulls(count, pa.int64()),
            "form": pa.array(types, pa.int32()),
        }
    )


def _write(layout: ColumnLayout, arrays: Iterator[Array], count: int, strings: Strings) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(layout, Leaf):
        return _write_leaf(layout.kind, next(arrays), strings)
    if isinstance(layout, Constant):
        return repeat_text(encode_json(layout.value), count)
    if isinstance(layout, OptionalColumn):
        there = pa.array(next(arrays))
        return pc.if_else(there, _write(layout.inner, arrays, count, strings), "null")
    assert isinstance(layout, Fields)
    if not layout.parts:
        return repeat_text(encode_json(layout.cls()), count)
    parts = [_write(part, arrays, count, strings) for part in layout.parts]
    if layout.cls is tuple:
        return _join_all("[", [("", part) for part in parts], "]")
    named = sorted(zip(part_names(layout), parts, strict=True), key=lambda pair: pair[0])
    return _join_all("{", [(f"{encode_json(name)}:", part) for name, part in named], "}")


def _join_all(opening: str, parts: list[tuple[str, pa.Array]], closing: str) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for name, part in parts:
        pieces += [f"{',' if pieces else opening}{name}", part]
    return join_texts(*pieces, closing)


def _write_leaf(kind: str, values: Array, strings: Strings) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    if kind in (INT, BOOL):
        return write_numbers(values)
    if kind == STR:
        used, places = np.unique(values, return_inverse=True)
        return pick_texts([encode_json(strings[code]) for code in used.tolist()], places)
    if kind == FLOAT:
        # Only finite numbers are their own repr in JSON: NaN and the infinities have names there.
        texts = [repr(v) if v - v == 0 else encode_json(v) for v in values.tolist()]
        return pa.array(texts, pa.string())
    if kind in (MOMENT, DAY):
        used, places = np.unique(values, return_inverse=True)
        return pick_texts([encode_json(v) for v in lift_calendar(kind, used.tolist())], places)
    return pa.array(list(map(encode_json, values)), pa.string())
