"""The items of a block, read in bulk: the same that `read_row` returns for each row, in the same order.

`read_row` defines the meaning of a row. Here a block is read column by column, and events are made of the lists.
Rows for which this is not certain to give the same item are *odd*; `read_row` reads them, and only them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from anabranch.eventtime.channels import NEVER, find_fault, fits
from anabranch.microbatch.ingest.block_columns import Block, open_block, select_lines
from anabranch.microbatch.ingest.row_reader import Reading, find_excess, read_row
from anabranch.microbatch.job.job import Job
from anabranch.model.events import FOREVER, Event, EventType, Item, field_types
from anabranch.model.values.event_times import time_field
from anabranch.model.values.field_lists import Records, read_records, stores_fields
from anabranch.model.values.fields import MISSING, SCALARS, list_defaults, strip_none
from anabranch.sources.arrow_tables import read_batch
from anabranch.sources.event_limits import find_large_number
from anabranch.sources.raw_rows import is_blank
from anabranch.state.durable.codec import CodecError

if TYPE_CHECKING:
    import pyarrow as pa

_make_event = partial(tuple.__new__, Event)


def read_block(job: Job, reading: Reading, batch: pa.RecordBatch) -> list[Item | None]:
    """Return the item of each row of a block; None for an empty line."""
    items: list[Item | None] = [None] * batch.num_rows
    block = open_block(job, reading, batch) if batch.num_rows else None
    odd = {*range(batch.num_rows)} if block is None else _read_plain(job, reading, block, items)
    if odd:
        places = sorted(odd)
        for place, row in zip(places, list_rows(reading, batch, places), strict=True):
            blank = is_blank(row, reading.json_column)
            items[place] = None if blank else read_row(job, reading, row)
    return items


def list_rows(
    reading: Reading, batch: pa.RecordBatch, places: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield some rows of a block, as the row reader takes them."""
    import pyarrow as pa

    lines = select_lines(reading, batch)
    whole = len(places) == batch.num_rows
    yield from read_batch(lines if whole else lines.take(pa.array(places, pa.int64())))


def _read_plain(job: Job, reading: Reading, block: Block, items: list[Item | None]) -> set[int]:
    """Set the items of plain events; return the places of all other rows."""
    odd = {*block.odd}
    channels = _find_channels(job, reading, block, odd)
    seqs = _find_seqs(reading, block, odd)
    if reading.heartbeat is not None:
        beats = block.beside(reading.heartbeat) or ()
        odd.update(place for place, beat in enumerate(beats) if beat is not None)
    if len(odd) == block.count:
        return odd
    for event_type, places in _find_types(job, reading, block, odd):
        times = _list_times(block, reading.time_column(event_type), event_type)
        if times is None or _is_number_already(reading, event_type):
            odd.update(places)
            continue
        timed = [place for place in places if times[place] is not None]
        odd.update({*places}.difference(timed) if len(timed) < len(places) else ())
        read = _read_events(job, reading, block, event_type, times, timed)
        names = repeat(str(reading.channel)) if channels is None else _pick(channels, timed)
        numbers = repeat(None) if seqs is None else _pick(seqs, timed)
        events = list(map(_make_event, zip(read.values, names, numbers, strict=False)))
        if len(events) == block.count:
            items[:] = events
        else:
            for place, event in zip(timed, events, strict=True):
                items[place] = event
        odd.update(timed[place] for place in read.odd)
    return odd


def _pick(values: list[Any], places: Sequence[int]) -> list[Any]:
    """Return the values at rising places."""
    return values if len(places) == len(values) else [values[place] for place in places]


def _find_channels(job: Job, reading: Reading, block: Block, odd: set[int]) -> list[str] | None:
    """Return the channel of each row; None if it is the same for all."""
    found = block.beside(reading.channel_column) if reading.channel_column else None
    if found is None:
        if str(reading.channel) not in job.channels:
            odd.update(range(block.count))
        return None
    named = [reading.channel if name is None else name for name in found]
    odd.update(
        place
        for place, name in enumerate(named)
        if type(name) is not str or name not in job.channels
    )
    return named  # type: ignore[return-value]


def _find_seqs(reading: Reading, block: Block, odd: set[int]) -> list[int] | None:
    """Return the sequence number of each row; None if there is none."""
    if reading.seq is None:
        return None
    found = block.beside(reading.seq)
    if found is None:
        odd.update(range(block.count))
        return None
    odd.update(_find_strange(found, NEVER, FOREVER))
    return found


def _find_strange(values: list[Any], low: int, high: int) -> list[int]:
    """Return the places of values that are not integers in a range."""
    if set(map(type, values)) <= {int}:
        return _find_outside(values, low, high)
    return [
        place
        for place, value in enumerate(values)
        if type(value) is not int or not low <= value <= high
    ]


def _find_types(
    job: Job, reading: Reading, block: Block, odd: set[int]
) -> list[tuple[EventType, list[int]]]:
    """Return the rows of each event type; rows of an unknown one are odd."""
    known: dict[str, EventType] = {}
    for event_type in job.program.inputs:
        known.setdefault(event_type.__name__, event_type)
    found = block.beside(reading.type_column) if reading.type_column else None
    if found is None:
        given = known.get(str(reading.event_type))
        if given is None:
            odd.update(range(block.count))
            return []
        return [(given, list(range(block.count)))]
    groups: dict[Any, list[int]] = {}
    for place, name in enumerate(found):
        key = reading.event_type if name is None else name
        groups.setdefault(key if type(key) is str else None, []).append(place)
    for name, places in groups.items():
        if name not in known:
            odd.update(places)
    return [(known[name], places) for name, places in groups.items() if name in known]


def _is_number_already(reading: Reading, event_type: EventType) -> bool:
    """Return whether the cell of an event's time was read as a number, because it is a sequence too."""
    numbers = (reading.seq, reading.heartbeat)
    return reading.line_column is not None and reading.time_column(event_type) in numbers


def _list_times(block: Block, column: str, event_type: EventType) -> list[Any] | None:
    """Return the time of each row, or None where there is none."""
    if not block.sparse:
        return block.beside(column)
    found = block.fields(column, field_types(event_type)[time_field(event_type)])
    if found is None or type(MISSING) not in set(map(type, found)):
        return found
    return [None if value is MISSING else value for value in found]


def _read_events(
    job: Job,
    reading: Reading,
    block: Block,
    event_type: EventType,
    times: list[Any],
    places: list[int],
) -> Records:
    """Return the events of a type in some rows, without their channels."""
    field = time_field(event_type)
    columns = {field: _pick(times, places)}
    texts = {field} if reading.time_column(event_type) in block.texts else set()
    for name, annotation in field_types(event_type).items():
        found = None if name == field else block.fields(name, annotation)
        if found is not None:
            columns[name] = _pick(found, places)
            texts |= {name} & block.texts
    read = read_records(
        event_type, columns, len(places), texts=frozenset(texts), sparse=block.sparse
    )
    strange = _find_faults(job, reading, block, event_type, read)
    return read._replace(odd=sorted({*read.odd, *strange})) if strange else read


def _find_faults(
    job: Job, reading: Reading, block: Block, event_type: EventType, read: Records
) -> set[int]:
    """Return the places of events that are invalid for the program, or might be."""
    time, kinds = time_field(event_type), field_types(event_type)
    too_large = block.size + _measure_defaults(job, event_type) > reading.max_bytes
    if too_large or not stores_fields(event_type) or kinds[time] not in (int, datetime):
        good = {*range(len(read.values))}.difference(read.odd)
        return {place for place in good if _is_wrong(job, reading, read.values[place])}
    strange: set[int] = set()
    for name, values in read.columns.items():
        kind = strip_none(kinds[name])
        if kind is int:
            inside = 1 if name == time else 0
            strange.update(_find_outside(values, NEVER + inside, FOREVER - inside))
        elif kind not in SCALARS:
            strange.update(place for place, value in enumerate(values) if _is_large(value))
    return strange


def _is_wrong(job: Job, reading: Reading, data: Any) -> bool:
    event = Event(data)
    return (
        find_fault(event, job.program.inputs)
        or find_large_number(event)
        or find_excess(job, event, reading.max_bytes)
    ) is not None


def _find_outside(values: list[Any], low: int, high: int) -> list[int]:
    """Return the places of integers outside a range."""
    try:
        if not values or (low <= min(values) and max(values) <= high):
            return []
    except TypeError:
        pass  # Some are None.
    return [
        place
        for place, value in enumerate(values)
        if value is not None and not low <= value <= high
    ]


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not fits(value)


def _measure_defaults(job: Job, event_type: EventType) -> int:
    """Return the bytes of the defaults of an event type, or more than any limit if they are not known."""
    defaults = list(list_defaults(event_type).values())
    if not defaults:
        return 0
    try:
        return sys.maxsize if MISSING in defaults else len(job.codec.encode(defaults))
    except (CodecError, ValueError):
        return sys.maxsize
