"""Result rows of complete windows, as columns, without Python objects.

They are the rows that `result_rows.describe_output` would make of the program's own outputs. To get their form,
one such row is made with numbers that occur nowhere else, and is the pattern of all rows.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from anabranch.eventtime.timers import TIMERS
from anabranch.microbatch.columns.string_columns import (
    join_texts,
    pick_texts,
    repeat_text,
    write_numbers,
)
from anabranch.microbatch.columns.window_slices import Closed
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_output, encode_json
from anabranch.microbatch.job.window_plan import WindowPlan
from anabranch.model.events import Event
from anabranch.model.order import order_key
from anabranch.model.values.event_times import to_moment
from anabranch.query.window_outputs import Result

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

_STRANGE = 7_777_770_000_000_000
"""Numbers from here on are placeholders in the pattern."""


def describe_windows(plan: WindowPlan, rank: int, closed: Closed) -> pa.Table:
    """Return the rows of windows, in the columns of `ResultRow`."""
    import pyarrow as pa

    ends = closed.ends
    times = pa.array(ends - 1)
    texts: dict[str, pa.Array] = {
        "time": write_numbers(ends - 1),
        "start": _write_edges(plan, closed.starts),
        "end": _write_edges(plan, ends),
        "last": _write_edges(plan, ends - 1),
    }
    for name, places in plan.results:
        texts[f"={name}"] = _write_result([closed.parts[place] for place in places])
    plain, quoted = _write_keys(plan, closed)
    pattern = _make_pattern(plan, rank)
    count = len(ends)
    return pa.table(
        {
            "kind": repeat_text("output", count),
            "id": _fill(pattern.id, {**texts, "key": quoted}),
            "time": times,
            "type": repeat_text(plan.timer.__name__, count),
            "channel": repeat_text(TIMERS, count),
            "seq": pa.nulls(count, pa.int64()),
            "index": pa.repeat(pa.scalar(0, pa.int32()), count),
            "value": _fill(pattern.value or "", {**texts, "key": plain}),
            "event": pa.nulls(count, pa.string()),
            "reason": pa.nulls(count, pa.string()),
            "op": pa.repeat(pa.scalar(1, pa.int32()), count),
            "distance": pa.nulls(count, pa.int64()),
            "form": pa.repeat(pa.scalar(0, pa.int32()), count),
        }
    )


def _make_pattern(plan: WindowPlan, rank: int) -> ResultRow:
    """Return the pattern: the row of a window whose numbers are placeholders."""
    holes = dict(zip(_list_holes(plan), range(_STRANGE, _STRANGE + 1000), strict=False))
    time, key = holes["time"], holes["key"] if plan.key is not None else None
    fields = {"time": time} if plan.key is None else {"time": time, plan.key: key}
    event = Event(plan.timer(**fields), TIMERS)
    value = {name: holes[f"={name}"] for name, _ in plan.results}
    start, end, last = holes["start"], holes["end"], holes["last"]
    result = Result(key, start, end, value, last, "on_time", 0, 0, first=True, last=True)
    row = describe_output(result, event, 0, order_key(event, {plan.timer: rank}))
    names = {str(number): name for name, number in holes.items()}
    marked = re.compile("|".join(names))

    def mark(text: str | None) -> str:
        return marked.sub(lambda found: f"\0{names[found[0]]}\0", text or "")

    return row._replace(id=mark(row.id), value=mark(row.value))


def _list_holes(plan: WindowPlan) -> list[str]:
    return ["time", "key", "start", "end", "last", *(f"={name}" for name, _ in plan.results)]


def _fill(pattern: str, texts: dict[str, pa.Array]) -> pa.Array:
    """Return a text for each row: the pattern, with the row's own texts in place of placeholders."""
    pieces = enumerate(pattern.split("\0"))
    return join_texts(*(texts[piece] if place % 2 else piece for place, piece in pieces))


def _write_result(parts: list[Array]) -> pa.Array:
    """Return numbers as JSON; a pair of them is a sum and a count, for their quotient."""
    import pyarrow as pa

    if len(parts) == 1:
        return write_numbers(parts[0])
    pairs = zip(*(part.tolist() for part in parts), strict=True)
    return pa.array([repr(total / count) for total, count in pairs], pa.string())


def _write_edges(plan: WindowPlan, times: Array) -> pa.Array:
    """Return times as JSON, as in the output of a window: integers, or timestamps."""
    import numpy as np

    if not plan.timestamped:
        return write_numbers(times)
    used, places = np.unique(times, return_inverse=True)
    return pick_texts([encode_json(to_moment(time)) for time in used.tolist()], places)


def _write_keys(plan: WindowPlan, closed: Closed) -> tuple[pa.Array, pa.Array]:
    """Return each window's key as JSON, and as in the repr of an event within JSON."""
    import numpy as np

    if closed.strings is None:
        texts = write_numbers(closed.keys)
        return texts, texts
    used, places = np.unique(closed.keys, return_inverse=True)
    keys = [closed.strings[code] for code in used.tolist()]
    plain = pick_texts([encode_json(key) for key in keys], places)
    return plain, pick_texts([json.dumps(repr(key))[1:-1] for key in keys], places)
