"""As-of joins: each event with the latest event of another type at or before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.model.dependence import depends
from anabranch.model.events import FOREVER, EventType
from anabranch.model.handlers import Handler
from anabranch.model.handlers import on as handle
from anabranch.model.locations import locate_caller
from anabranch.model.program import Program
from anabranch.model.shapes import Shape, WrittenShape
from anabranch.model.values.durations import SpanInput
from anabranch.model.values.event_times import time_of
from anabranch.model.values.value_types import read_type
from anabranch.query.join_pairs import (
    LEFT,
    Pairing,
    Select,
    check_key,
    check_sides,
    check_word,
    find_outputs,
    make_timer,
    read_pairing,
    read_time_span,
)
from anabranch.state.collections import MapOf, Replicated

TIES = ("right_first", "left_first")


def asof_join(
    left: EventType,
    right: EventType,
    /,
    *,
    on: str,
    how: str = "inner",
    within: SpanInput | None = None,
    ties: str = "right_first",
    select: Select | None = None,
    name: str = "program",
) -> Program:
    """Join each left event with the latest right event of equal `on` at or before it.

    The output is emitted on the left event: `Matched(left, right)`, or the result of `select(left, right)` if
    that is not None. With how="left", a left event without a match is emitted with None. At equal times
    the right event is first, and matches; with ties="left_first" it does not. Of several right events
    with one time, the last in the order of channels and their sequences matches.

    A right event is a marker of its key and left ones are free, so the left events of one key can be
    processed in parallel. With `within`, a right event matches for that long only, and is then removed;
    the timer that removes it keeps all events of a key on one node.
    """
    where = locate_caller()
    check_sides("asof_join", left, right, where)
    check_key("asof_join", on, (left, right), where)
    check_word("asof_join", "ties", ties, TIES, where)
    pairing = read_pairing("asof_join", how, select, where, hows=("inner", "left"))
    timers: list[Handler] = []
    state: Shape = Replicated()
    if within is not None:
        span = read_time_span("within of asof_join", within, right, where, least=0)
        memory = Memory(span)
        timer = make_timer(left, right, on)
        timers.append(handle(timer, due=memory.find_due, update=_forget))
        state = WrittenShape(None)
    return Program(
        handle(left, output=AsOfJoin(pairing).emit),
        handle(right, update=_remember),
        *timers,
        depends(right, left, right, same=on),
        state=MapOf(state, by=on, sparse=True),
        rank=(right, left) if ties == "right_first" else (left, right),
        outputs=find_outputs(pairing, read_type(left), read_type(right)),
        name=name,
    )


@dataclass(frozen=True)
class AsOfJoin:
    """The output of an as-of join on a left event. The state of a key is the latest right event."""

    pairing: Pairing

    def emit(self, latest: Any, event: Any) -> list[Any]:
        """Return the output for a left event and the latest right event."""
        if latest is None and not self.pairing.keeps(LEFT):
            return []
        return self.pairing.list_outputs([(event, latest)])


@dataclass(frozen=True)
class Memory:
    """How long a right event is kept."""

    within: int

    def find_due(self, latest: Any) -> int | None:
        """Return the time at which the right event is removed: after all events that may match it."""
        return None if latest is None else min(time_of(latest) + self.within, FOREVER - 1)


def _remember(latest: Any, event: Any) -> Any:
    return event


def _forget(latest: Any, timer: Any) -> None:
    return None
