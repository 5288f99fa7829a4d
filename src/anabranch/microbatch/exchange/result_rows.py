"""Result rows: one row for each output, late or rejected event, and operator's counts."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER, Event
from anabranch.model.order import OrderKey
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

# Made once: `json.dumps` with arguments makes an encoder on every call.
_PLAIN = json.JSONEncoder(separators=(",", ":")).encode
_SORTED = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


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
    return ResultRow(
        "output",
        f"{identify(key)}#{index}",
        event.time,
        type(event.data).__name__,
        event.channel,
        event.seq,
        index,
        encode_json(value),
        None,
        None,
        form=types.find(value) if len(types.types) > 1 else 0,
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
    return _PLAIN(key)


def encode_json(value: Any) -> str:
    """Return a value as JSON, the same for equal values."""
    return _SORTED(encode_value(value))
