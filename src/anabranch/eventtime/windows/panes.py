"""Panes: the outputs of windows, the options of windowing, and the window state of a key.

The window state of a key is plain, immutable data in a few records, so that it can be stored:
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
    """The interface of folds: a `Fold`, or a ready-made state such as `Sum()`."""

    @property
    def zero(self) -> Any: ...

    @property
    def add(self) -> Callable[[Any, Any], Any]: ...

    @property
    def join(self) -> Callable[[Any, Any], Any] | None: ...


@dataclass(frozen=True)
class Fold:
    """A fold of the user's own functions; `join` is needed for windows that merge.

    `add` returns a new value and does not change the old one. `join(a, b)` must equal `a` after adding
    the values of `b`.
    """

    zero: Any
    add: Callable[[Any, Any], Any]
    join: Callable[[Any, Any], Any] | None = None


VALUES = Fold((), lambda values, value: (*values, value), lambda a, b: (*a, *b))
"""The fold that collects the values in a tuple."""


@dataclass(frozen=True)
class Windowing:
    """The window type, the trigger and the options of windowed aggregation.

    `accumulation`: a pane contains the events since the last pane ("discarding"), or all events
    ("accumulating"), or all events after a retraction of the last pane ("retracting").
    `allowed_lateness`: how far the watermark may pass the end of a window before the window is closed.
    `output_time`: the time of a pane: the last time of the window ("end"), or the time of its "earliest"
    or "latest" event.
    `closing`: whether a window that is closed emits a last pane: if it has new events ("if_new"), "always",
    or "never", in which case new events are lost, and reported.
    `may_lose`: allow a trigger or a closing that may lose events. Lost events are reported.
    `share`: let sliding windows share partial results, if the fold has a join. The result is the same if
    the fold does not depend on the order of values.
    """

    window: Assigner
    trigger: Trigger = DefaultTrigger()  # noqa: RUF009 - frozen, so one for all will do
    _: KW_ONLY
    accumulation: str = "accumulating"
    allowed_lateness: SpanField[Never] = SpanField(
        "the allowed lateness of a windowing", least=0, default=0
    )
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
        if self.window.counted and self.allowed_lateness:
            raise ProgramError(
                "count windows have no late events",
                expected="allowed_lateness=0 with CountTumbling or CountSliding",
                got=f"allowed_lateness={self.allowed_lateness}",
            )
        if self.window.merging and self.fold.join is None:
            raise ProgramError(
                "windows that merge need a fold with a join",
                expected="a `join` of two folded values",
                got=repr(self.fold),
                cure="give Fold(zero, add, join)",
            )
        if not self.may_lose:
            _refuse_loss(self)

    @cached_property
    def asks_at_end(self) -> bool:
        """Return whether the trigger is evaluated when the watermark passes the end of a window."""
        return names_watermark(self.trigger)

    @cached_property
    def asks_clock(self) -> bool:
        """Return whether the trigger depends on the clock."""
        return names_clock(self.trigger)

    @cached_property
    def asks_clock_late(self) -> bool:
        """Return whether the trigger still depends on the clock after the on-time pane."""
        if isinstance(self.trigger, AfterWatermark):
            return self.trigger.late is not None and names_clock(self.trigger.late)
        return self.asks_clock

    @cached_property
    def shares(self) -> bool:
        """Return whether windows share slices: they must overlap, and have no early panes."""
        return (
            self.share
            and isinstance(self.window, Sliding | CountSliding)
            and self.fold.join is not None
            and not _may_fire_early(self.trigger)
        )

    def join_times(self, times: Iterable[int | None]) -> int | None:
        """Return the time of a pane with these event times, or None if it is the window's end."""
        known = [time for time in times if time is not None]
        if not known or (self.output_time == "end" and not self.window.counted):
            return None
        # Positions have no end in time, so a count window ends with its latest event.
        return min(known) if self.output_time == "earliest" else max(known)


class Pane(NamedTuple):
    """One output of a window.

    `timing` is early, on_time or late. `index` counts the panes of the window from 0, and
    `nonspeculative_index` those that are not early; it is -1 for an early pane. `op` is -1 for a
    retraction.
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


NOT_EMITTED = "not emitted"
"""The reason of a window value that was dropped when its window was closed."""


class Dropped(NamedTuple):
    """An event that no window accepted, or a window value that was never emitted.

    Both are reported, so that nothing vanishes. `reason` is "expired" (the window was closed), "finished"
    (its trigger had finished), "no window" (the assigner returned none), or "not emitted" (the window was
    closed before `events` events were emitted; then `value` is the window's value).
    """

    value: Any
    time: int
    window: Window | None
    reason: str
    events: int = 1


class WindowEntry(NamedTuple):
    """The state of one window of a key.

    `fresh` counts the events since its last pane, `panes` all its panes, and `nonspeculative` those that
    are not early. `hold` is the time of its next pane, None if that is the end. `emitted` are the panes
    that the next one retracts.
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
    """A slice of time that overlapping windows share: its events, folded once."""

    start: int
    value: Any
    events: int
    hold: int | None


class Stacks(NamedTuple):
    """Slices joined in advance, so that a window costs a few joins however many slices it has.

    `front` has, for each slice from some place on, the join of it and all following ones up to
    `middle`, earliest slice last; `back` is the join of the slices from `middle` to `end`.
    """

    front: tuple[WindowSlice, ...] = ()
    middle: int = NEVER
    back: WindowSlice | None = None
    end: int = NEVER


class WindowState(NamedTuple):
    """The window state of a key: watermark, clock, and windows in the order of their ends."""

    watermark: int = NEVER
    clock: int | None = None
    seen: int = 0
    windows: tuple[WindowEntry, ...] = ()
    slices: tuple[WindowSlice, ...] = ()
    stacks: Stacks = Stacks()


class StepOutcome(NamedTuple):
    """The result of a step: the state after it, the panes, and the dropped events."""

    state: WindowState
    panes: tuple[Pane, ...] = ()
    dropped: tuple[Dropped, ...] = ()


RECORDS = (WindowState, WindowEntry, Pane, Window, WindowSlice, Stacks)
"""The records in a stored window state."""


def _may_fire_early(trigger: Trigger) -> bool:
    return trigger != DefaultTrigger() and not (
        isinstance(trigger, AfterWatermark) and trigger.early is None
    )


def _refuse_loss(windowing: Windowing) -> None:
    loss = find_loss(windowing.trigger, windowing.allowed_lateness)
    if windowing.closing == "never":
        loss = loss or 'with closing="never", a closed window loses the events since its last pane'
    if loss:
        raise ProgramError(
            "this windowing may lose events",
            expected="a trigger that does not finish before its window is closed",
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
            f"{what} of a windowing is not valid", expected=examples[what], got=repr(value)
        )


def _check_name(what: str, value: object, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ProgramError(
            f"{what} of a windowing is not known",
            expected=f"one of {', '.join(names)}",
            got=repr(value),
        )
