"""Panes: what a window says, how a stream is cut into windows, and what a key keeps for that.

Everything a key keeps is plain, immutable data in a few records, so that it can be stored:
`Codec(RECORDS)` writes and reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, NamedTuple, Never, Protocol

from anabranch.errors import ProgramError
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.windows.trigger_states import Running
from anabranch.eventtime.windows.triggers import (
    AfterWatermark,
    DefaultTrigger,
    Trigger,
    find_loss,
    names_clock,
    names_watermark,
)
from anabranch.eventtime.windows.window_types import (
    Assigner,
    CountSliding,
    Sliding,
    Window,
)
from anabranch.model.values.durations import SpanField

ACCUMULATIONS = ("discarding", "accumulating", "retracting")
OUTPUT_TIMES = ("end", "earliest", "latest")
CLOSINGS = ("if_new", "always", "never")


class Folding(Protocol):
    """How values become one: a `Fold`, or a ready-made state such as `Sum()`."""

    @property
    def zero(self) -> Any: ...

    @property
    def add(self) -> Callable[[Any, Any], Any]: ...

    @property
    def join(self) -> Callable[[Any, Any], Any] | None: ...


@dataclass(frozen=True)
class Fold:
    """A fold by the user's own functions; `join` is needed where windows merge.

    `add` returns a new value and leaves the old one as it is. `join(a, b)` must give what adding
    b's values to a gives.
    """

    zero: Any
    add: Callable[[Any, Any], Any]
    join: Callable[[Any, Any], Any] | None = None


VALUES = Fold((), lambda values, value: (*values, value), lambda a, b: (*a, *b))
"""The fold that keeps the values themselves."""


@dataclass(frozen=True)
class Windowing:
    """How a stream is cut into windows, and when and how each speaks.

    `accumulation`: a pane holds what is new since the last one (discarding), or everything
    (accumulating), or everything after the last one is taken back (retracting).
    `lateness`: how far the watermark may pass the end of a window before the window is closed.
    `output_time`: the time of a pane: the window's last, or that of its earliest or latest event.
    `closing`: whether a window that is closed says what it has not said yet. With "always" it
    speaks in any case; with "never" that is lost, and reported.
    `may_lose`: take a trigger or a closing that may lose events. What is lost is reported.
    `share`: let sliding windows share what they have in common, where the fold can join. The
    answer is the same if the fold does not look at the order of values.
    """

    window: Assigner
    trigger: Trigger = DefaultTrigger()  # noqa: RUF009 - frozen, so one for all will do
    _: KW_ONLY
    accumulation: str = "accumulating"
    lateness: SpanField[Never] = SpanField("the lateness of a windowing", least=0, default=0)
    output_time: str = "end"
    closing: str = "if_new"
    fold: Folding = VALUES
    may_lose: bool = False
    share: bool = True

    def __post_init__(self) -> None:
        _check_kind("the window", self.window, callable(getattr(self.window, "assign", None)))
        _check_kind("the trigger", self.trigger, isinstance(self.trigger, Trigger))
        is_fold = callable(getattr(self.fold, "add", None)) and hasattr(self.fold, "zero")
        _check_kind("the fold", self.fold, is_fold)
        _check_name("accumulation", self.accumulation, ACCUMULATIONS)
        _check_name("output_time", self.output_time, OUTPUT_TIMES)
        _check_name("closing", self.closing, CLOSINGS)
        if self.window.counted and self.lateness:
            raise ProgramError(
                "no event is late for a window that counts",
                expected="lateness=0 with CountTumbling or CountSliding",
                got=f"lateness={self.lateness}",
            )
        if self.window.merging and self.fold.join is None:
            raise ProgramError(
                "windows that merge need a fold that can join",
                expected="a `join` of two folded values",
                got=repr(self.fold),
                cure="give Fold(zero, add, join)",
            )
        if not self.may_lose:
            _refuse_loss(self)

    @cached_property
    def asks_at_end(self) -> bool:
        """Say whether a window is asked when the watermark passes its end."""
        return names_watermark(self.trigger)

    @cached_property
    def asks_clock(self) -> bool:
        """Say whether a window waits for readings of the clock."""
        return names_clock(self.trigger)

    @cached_property
    def asks_clock_late(self) -> bool:
        """Say whether it still does when it has spoken on time."""
        if isinstance(self.trigger, AfterWatermark):
            return self.trigger.late is not None and names_clock(self.trigger.late)
        return self.asks_clock

    @cached_property
    def shares(self) -> bool:
        """Say whether windows share slices: they must overlap, and be silent until their end."""
        return (
            self.share
            and isinstance(self.window, Sliding | CountSliding)
            and self.fold.join is not None
            and _is_silent_before_the_end(self.trigger)
        )

    def join_times(self, times: Iterable[int | None]) -> int | None:
        """Return the time of a pane of several events, or None if that is the window's end."""
        known = [time for time in times if time is not None]
        if not known or (self.output_time == "end" and not self.window.counted):
            return None
        # Positions have no end in time, so a window that counts ends with its latest event.
        return min(known) if self.output_time == "earliest" else max(known)


class Pane(NamedTuple):
    """One thing a window says.

    `timing` is early, on_time or late. `index` counts the panes of the window from 0, and
    `nonspeculative_index` those that are not early; it is -1 for an early one. `op` is -1 for a
    pane that is taken back.
    """

    window: Window
    value: Any
    time: int
    timing: str
    index: int  # type: ignore[assignment]  # a pane's, not the tuple's
    nonspeculative_index: int
    first: bool
    last: bool
    op: int = 1


class Dropped(NamedTuple):
    """What a window did not take, or never said: reported, so that nothing vanishes.

    `reason` is "expired" (the window was closed), "finished" (its trigger had finished),
    "no window" (the assigner gave none), or "unsaid" (closed before `events` events were said; then
    `value` is what the window held).
    """

    value: Any
    time: int
    window: Window | None
    reason: str
    events: int = 1


class WindowEntry(NamedTuple):
    """What a key keeps for one window.

    `fresh` counts the events since its last pane, `panes` and `nonspeculative` what it has said.
    `hold` is the time of its next pane, None if that is the end. `said` are the panes that the
    next one takes back.
    """

    window: Window
    value: Any
    running: Running
    fresh: int = 0
    hold: int | None = None
    panes: int = 0
    nonspeculative: int = 0
    finished: bool = False
    emitted: tuple[Pane, ...] = ()


class WindowSlice(NamedTuple):
    """What the windows that overlap a stretch share: its events, folded once."""

    start: int
    value: Any
    events: int
    hold: int | None


class Stacks(NamedTuple):
    """Slices joined ahead of time, so that a window costs a few joins however many slices it has.

    `front` holds, for each slice from some place on, the join of it and all that follow up to
    `middle`, the earliest slice last; `back` is the join of those from `middle` up to `end`.
    """

    front: tuple[WindowSlice, ...] = ()
    middle: int = NEVER
    back: WindowSlice | None = None
    end: int = NEVER


class WindowState(NamedTuple):
    """What a key keeps: how far it has come, and its windows, the first to end first."""

    watermark: int = NEVER
    clock: int | None = None
    seen: int = 0
    windows: tuple[WindowEntry, ...] = ()
    slices: tuple[WindowSlice, ...] = ()
    stacks: Stacks = Stacks()


class StepOutcome(NamedTuple):
    """What a step comes to: the state after it, what was said, and what was not taken."""

    state: WindowState
    panes: tuple[Pane, ...] = ()
    dropped: tuple[Dropped, ...] = ()


RECORDS = (WindowState, WindowEntry, Pane, Window, WindowSlice, Stacks)
"""The records that a stored state is made of."""


def _is_silent_before_the_end(trigger: Trigger) -> bool:
    return trigger == DefaultTrigger() or (
        isinstance(trigger, AfterWatermark) and trigger.early is None
    )


def _refuse_loss(windowing: Windowing) -> None:
    loss = find_loss(windowing.trigger, windowing.lateness)
    if windowing.closing == "never":
        loss = loss or "a window that is closed without a word loses what it has not said"
    if loss:
        raise ProgramError(
            "this windowing may lose events",
            expected="a trigger that goes on for as long as its window is kept",
            got=loss,
            cure="wrap it in Repeatedly(...), give AfterWatermark a `late`, or accept it: may_lose=True",
        )


def _check_kind(what: str, value: object, good: bool) -> None:  # noqa: FBT001 - a verdict
    if not good:
        examples = {
            "the window": "an assigner, such as Tumbling(60) or Sessions(30)",
            "the trigger": "a trigger, such as AfterWatermark() or Repeatedly(AfterCount(10))",
            "the fold": "a Fold(zero, add, join), or a ready-made state such as Sum()",
        }
        raise ProgramError(
            f"{what} of a windowing can't be used", expected=examples[what], got=repr(value)
        )


def _check_name(what: str, value: object, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ProgramError(
            f"{what} of a windowing is not known",
            expected=f"one of {', '.join(names)}",
            got=repr(value),
        )
