"""Tables: events of one type in columns, with their places in the total order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import AnabranchError
from anabranch.kernels.column_layouts import (
    CARRIED,
    CODED,
    OBJECT,
    STR,
    ColumnLayout,
    Fields,
    list_columns,
)
from anabranch.kernels.numpy_columns import DTYPES, Columns, Strings, pack
from anabranch.microbatch.columns.allocator import pause_collection
from anabranch.model.events import Event, field_names
from anabranch.model.values.event_times import time_field
from anabranch.state.durable.codec import Codec

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]


class OutgrownStateError(AnabranchError, OverflowError):
    """A state no longer fits its columns."""


@dataclass(frozen=True, eq=False)
class EventTable:
    """Events of one event type.

    `type` is the event type's number in the program. `channels` are codes: the places of the channels' names
    in their order, so that codes compare as names do.
    """

    event_type: int
    channels: Array
    seqs: Array
    columns: Columns

    def __len__(self) -> int:
        return self.columns.length

    @property
    def times(self) -> Array:
        """Return the time of each event."""
        assert isinstance(self.columns.layout, Fields)
        return self.field(time_field(self.columns.layout.cls))

    def field(self, name: str) -> Array:
        """Return the column of a field; for an optional field, that of its values."""
        assert isinstance(self.columns.layout, Fields)
        return self.columns.arrays[_find_places(self.columns.layout)[name]]

    def is_text(self, name: str) -> bool:
        """Return whether a field is a text."""
        assert isinstance(self.columns.layout, Fields)
        return self.columns.columns[_find_places(self.columns.layout)[name]].kind == STR

    def take(self, rows: Array | slice) -> EventTable:
        """Return some of the events, by a mask, by places, or by a slice."""
        columns = self.columns.take(rows)
        return EventTable(self.event_type, self.channels[rows], self.seqs[rows], columns)

    def events(self, names: Sequence[str]) -> list[Event]:
        """Return the events as objects for handlers; `names` are the channels' names in order."""
        return [
            Event(data, names[channel], seq)
            for data, channel, seq in zip(
                self.columns.unpack(), self.channels.tolist(), self.seqs.tolist(), strict=True
            )
        ]


@cache
def _find_places(layout: Fields) -> dict[str, int]:
    """Return the place of each field's column: an optional field has one more column before it."""
    places: dict[str, int] = {}
    count = 0
    for name, part in zip(field_names(layout.cls), layout.parts, strict=True):
        count += len(list_columns(part))
        places[name] = count - 1
    return places


def make_table(
    event_type: int, layout: Fields, events: Sequence[Event], codes: dict[str, int]
) -> EventTable:
    """Return events in columns; raise `Unfit` if one of them does not fit."""
    import numpy as np

    columns = pack(layout, [event.data for event in events])
    channels = np.fromiter((codes[event.channel] for event in events), np.int64, len(events))
    seqs = np.fromiter((event.seq for event in events), np.int64, len(events))
    return EventTable(event_type, channels, seqs, columns)


def concatenate(tables: Sequence[EventTable], strings: Strings) -> EventTable:
    """Return the events of several tables of one event type, with the codes of one list of texts."""
    import numpy as np

    joined = concatenate_columns([table.columns for table in tables], strings)
    if len(tables) == 1:
        return replace(tables[0], columns=joined)
    channels = np.concatenate([table.channels for table in tables])
    seqs = np.concatenate([table.seqs for table in tables])
    return EventTable(tables[0].event_type, channels, seqs, joined)


def concatenate_columns(several: Sequence[Columns], strings: Strings) -> Columns:
    """Return the values of several columns of one layout, with the codes of one list of texts."""
    import numpy as np

    columns = [one.recode(strings) for one in several]
    if len(columns) == 1:
        return columns[0]
    arrays = tuple(
        np.concatenate(parts) for parts in zip(*(c.arrays for c in columns), strict=True)
    )
    return Columns(columns[0].layout, arrays, sum(c.length for c in columns), strings)


def write_columns(
    columns: Columns, more: dict[str, Array], note: dict[str, Any], codec: Codec | None = None
) -> bytes:
    """Return columns, and additional arrays, as Arrow IPC with a note.

    Integers in a small range are written as differences from their minimum. Objects are encoded, and read back
    as carried values.
    """
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    bases: dict[str, int] = {}
    for name, array in more.items():
        _write_numbers(name, array, arrays, bases)
    for number, (column, array) in enumerate(zip(columns.columns, columns.arrays, strict=True)):
        if column.kind in CODED:
            arrays[f"c{number}"] = _write_texts(array, columns.strings)
        elif column.kind in (OBJECT, CARRIED):
            arrays[f"c{number}"] = _write_carried(column.kind, array, codec)
        else:
            _write_numbers(f"c{number}", array, arrays, bases)
    note = {**note, "rows": columns.length, "bases": bases, "more": list(more)}
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in arrays.items()],
        metadata={"note": json.dumps(note)},
    )
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _write_numbers(
    name: str, array: Array, arrays: dict[str, pa.Array], bases: dict[str, int]
) -> None:
    import pyarrow as pa

    if array.dtype == "int64" and len(array):
        low, high = int(array.min()), int(array.max())
        bases[name] = low
        if low == high:
            return
        width = next((bits for bits in (8, 16, 32) if high - low < 1 << bits), None)
        if width is not None:
            arrays[name] = pa.array((array - low).astype(f"uint{width}"))
            return
        del bases[name]
    arrays[name] = pa.array(array)


class Read(NamedTuple):
    """Columns, the additional arrays by name, and the note."""

    columns: Columns
    more: dict[str, Array]
    note: dict[str, Any]


def read_columns(
    choose: Callable[[dict[str, Any]], ColumnLayout], data: bytes, strings: Strings | None = None
) -> Read:
    """Return the data that `write_columns` wrote; its layout is in the note."""
    import pyarrow as pa

    strings = Strings() if strings is None else strings
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        note = json.loads(reader.schema.metadata[b"note"])
        batch = reader.read_next_batch()
    layout = choose(note)
    rows, bases, names = note.pop("rows"), note.pop("bases"), note.pop("more")
    more = {name: _read_numbers(batch, name, rows, bases) for name in names}
    arrays = [
        read_array(batch.column(f"c{number}"), column.kind, strings)
        if column.kind in CODED
        else _read_numbers(batch, f"c{number}", rows, bases)
        for number, column in enumerate(list_columns(layout))
    ]
    return Read(Columns(layout, tuple(arrays), rows, strings), more, note)


def _read_numbers(batch: pa.RecordBatch, name: str, rows: int, bases: dict[str, int]) -> Array:
    import numpy as np

    if name not in bases:
        return np.ascontiguousarray(batch.column(name).to_numpy(zero_copy_only=False))
    if name not in batch.schema.names:
        return np.full(rows, bases[name], np.int64)
    return batch.column(name).to_numpy().astype(np.int64) + bases[name]  # type: ignore[no-any-return]


def read_array(array: pa.Array, kind: str, strings: Strings) -> Array:
    """Return an Arrow array without nulls as the array of a column; texts become codes."""
    import numpy as np
    import pyarrow as pa

    if kind not in CODED:
        found = array.to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(found, dtype=DTYPES[kind])
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = strings.codes(array.dictionary.to_pylist())
    places = array.indices.to_numpy(zero_copy_only=False)
    return codes[places] if len(codes) else np.empty(0, np.int64)


def _write_carried(kind: str, values: Array, codec: Codec | None) -> pa.Array:
    import pyarrow as pa

    if kind == CARRIED:
        return pa.array(values, pa.binary())
    assert codec is not None, "objects are written with a codec"
    with pause_collection():
        return pa.array(list(codec.encode_each(values.tolist())), pa.binary())


def _write_texts(codes: Array, strings: Strings) -> pa.Array:
    """Return codes as a dictionary array of the texts that occur."""
    import numpy as np
    import pyarrow as pa

    distinct, places = np.unique(codes, return_inverse=True)
    texts = pa.array([strings[code] for code in distinct.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), texts)
