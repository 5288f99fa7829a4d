"""Result rows: one row for each output, late or rejected event, and operator's counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER, Event, EventType, field_names
from anabranch.model.order import OrderKey
from anabranch.model.values.event_times import time_of
from anabranch.model.values.fields import encode_value
from anabranch.model.values.output_types import UNKNOWN, OutputTypes

COLUMNS = (
    "kind string, id string, time long, type string, channel string, seq long, index int, "
    "value string, event string, reason string, op int, distance long, form int"
)
"""The columns of result rows inside a query. `value` and `event` are JSON; `id` is the same on any replay;
`op` is -1 for a retraction in speculative mode, and else 1; `distance` is how far behind a late event is, and
`form` the number of an output's type. `output_columns.py` and `event_columns.py` make the user's columns."""

RAW_CHARACTERS = 2_000
"""Limit of the length of a raw value or a reason, so that the row of a very large event is not as large."""

OWN = "its channel's watermark"
"""The default reason of a late event: the bound that it is behind."""

_SHORT = 200
_NUMBERED = 4
"""The length of the order key of an event with a sequence number."""

_SCALARS = (bool, int, float, str, Enum, type)

# Made once: `json.dumps` with arguments makes an encoder on every call.
_PLAIN = json.JSONEncoder(separators=(",", ":")).encode
_SORTED = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
_quote = lru_cache(maxsize=1024)(_PLAIN)


class ResultRow(NamedTuple):
    """A row of the result. Kinds: `output`, `late`, `rejected`, `ledger`."""

    kind: str
    id: str
    time: int | None
    type: str | None
    channel: str | None
    seq: int | None
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    value: str | None
    event: str | None
    reason: str | None
    op: int = 1
    distance: int | None = None
    form: int = 0


def describe_output(
    value: Any, event: Event, index: int, key: OrderKey, types: OutputTypes = UNKNOWN
) -> ResultRow:
    """Return the row of an output, with the number of its type among `types`."""
    data, channel, seq = event
    return ResultRow(
        "output",
        f"{identify(key)}#{index}",
        time_of(data),
        type(data).__name__,
        channel,
        seq,
        index,
        encode_json(value),
        None,
        None,
        1,
        None,
        types.find(value) if len(types.types) > 1 else 0,
    )


def describe_late(
    event: Event, distance: int, *, waived: bool = False, joined: bool = False
) -> ResultRow:
    """Return the row of a late event: its distance, and whether its channel was silent or had not joined."""
    reason = "the watermark at which its channel joined" if joined else OWN
    reason = "the watermark, which advanced while its channel was silent" if waived else reason
    row = describe_event("late", event, f"{distance} behind {reason}")
    # The distance of two times may need more than 63 bits.
    return row._replace(distance=min(distance, FOREVER))


def describe_event(kind: str, event: Event, reason: str) -> ResultRow:
    """Return the row of an event that was not processed; that of a rejected one may be truncated."""
    fields = encode_json(event.data)
    return ResultRow(
        kind,
        name_row(kind, event.channel, event.seq, fields),
        event.time if isinstance(event.time, int) else None,
        type(event.data).__name__,
        event.channel,
        event.seq,
        0,
        None,
        clip(fields) if kind == "rejected" else fields,
        clip(reason),
    )


def name_row(kind: str, channel: str | None, seq: int | None, text: str) -> str:
    """Return the id of a row that is not an output, from its contents."""
    return f"{kind}:{_abridge(str(channel))}:{seq}:{_abridge(text)}"


def _abridge(text: str) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return data.decode() if len(text) <= _SHORT else hashlib.sha256(data).hexdigest()[:32]


def clip(text: str, most: int = RAW_CHARACTERS) -> str:
    r"""Return a text of limited length that can be encoded as UTF-8.

    >>> clip("abcdef", 4), clip("a" + chr(0xD800))
    ('abcd… (6 characters)', 'a\\ud800')
    """
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def describe_ledger(operator: str, number: int, ledger: Ledger, more: dict[str, Any]) -> ResultRow:
    """Return the row of an operator's counts since the start of the run."""
    counts = encode_json({**ledger._asdict(), **more})
    name = f"{operator}:{number}"
    return ResultRow("ledger", f"ledger:{name}", None, None, None, None, 0, counts, None, name)


def identify(key: OrderKey) -> str:
    """Return an order key as a text that is unique, but does not sort as the key does."""
    if len(key) == _NUMBERED and type(key[0]) is type(key[3]) is int:
        time, rank, channel, seq = key
        return f"[{time},{rank},{_quote(channel)},{seq}]"
    return _PLAIN(key)


def encode_json(value: Any) -> str:
    """Return a value as JSON, the same for equal values."""
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is None:
        writer = _WRITERS[kind] = _prepare_writer(kind)
    return writer(value)


def _prepare_writer(kind: type[Any]) -> Callable[[Any], str]:
    """Return a function that writes values of a class as JSON; the fields of a record are found once."""
    if issubclass(kind, _SCALARS) or not (is_dataclass(kind) or hasattr(kind, "_fields")):
        return _write_any
    event_type: EventType = kind
    names = sorted(field_names(event_type))
    if not names:
        return _write_any
    read = attrgetter(*names)
    # Names are identifiers, so that none contains a percent sign.
    template = "{" + ",".join(f"{_PLAIN(name)}:%s" for name in names) + "}"
    if len(names) == 1:
        return lambda value: template % encode_json(read(value))
    return lambda value: template % tuple(map(encode_json, read(value)))


def _write_any(value: Any) -> str:
    return _SORTED(encode_value(value))


# Exact types only: an instance of a subclass may be written differently.
_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _PLAIN,
    int: repr,
    type(None): lambda value: "null",
    datetime: lambda value: f'"{value.isoformat()}"',
    Decimal: lambda value: f'"{value}"',
}
