"""Triggers: when a window emits panes. Each is frozen data; `trigger_states` runs them.

Names and semantics are those of Beam. After a trigger *finishes*, its window emits no more panes, so
later events are lost. `find_loss` finds the triggers that can lose events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from anabranch.errors import ProgramError
from anabranch.eventtime.windows.window_types import check_whole
from anabranch.model.values.durations import SpanField


@dataclass(frozen=True)
class DefaultTrigger:
    """Fire when the watermark passes the window's end, and again on each bundle of late events."""


@dataclass(frozen=True)
class Always:
    """Fire on each bundle of events."""


@dataclass(frozen=True)
class Never:
    """Never fire: the window emits its only pane when it is closed."""


@dataclass(frozen=True)
class AfterCount:
    """Fire when the window has `n` events, and finish."""

    n: int

    def __post_init__(self) -> None:
        check_whole("the count of a trigger", self.n, least=1)


@dataclass(frozen=True)
class AfterProcessingTime:
    """Fire when the clock is `delay` past the window's first event, and finish.

    The clock is a recorded one, in its own unit, so a replay fires at the same points.
    """

    delay: SpanField[NoReturn] = SpanField("the delay of a trigger", least=0)


@dataclass(frozen=True)
class AfterWatermark:
    """Fire when the watermark passes the window's end.

    Before that, `early` may fire repeatedly; after it, `late` may. Without `late` the trigger then
    finishes.
    """

    early: Trigger | None = None
    late: Trigger | None = None

    def __post_init__(self) -> None:
        for name in ("early", "late"):
            part = getattr(self, name)
            if part is not None:
                _check_triggers("AfterWatermark", part)
                # Early and late parts restart each time they fire.
                object.__setattr__(
                    self, name, part if isinstance(part, Repeatedly) else Repeatedly(part)
                )


@dataclass(frozen=True)
class Repeatedly:
    """Fire when the inner trigger fires, and restart it when it finishes."""

    inner: Trigger

    def __post_init__(self) -> None:
        _check_triggers("Repeatedly", self.inner)


@dataclass(frozen=True, init=False)
class AfterAny:
    """Fire when one of several triggers would fire; finish when one that fires finishes."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        _set_parts(self, parts)


@dataclass(frozen=True, init=False)
class AfterAll:
    """Fire when all of several triggers would fire; finish when all of them finish."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        _set_parts(self, parts)


@dataclass(frozen=True, init=False)
class AfterEach:
    """Fire as the first of several triggers until it finishes, then as the next; finish with the last."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        _set_parts(self, parts)


@dataclass(frozen=True)
class OrFinally:
    """Fire when `main` fires, until `until` fires once, and finish."""

    main: Trigger
    until: Trigger

    def __post_init__(self) -> None:
        _check_triggers("OrFinally", self.main, self.until)


Trigger = (
    DefaultTrigger
    | Always
    | Never
    | AfterCount
    | AfterProcessingTime
    | AfterWatermark
    | Repeatedly
    | AfterAny
    | AfterAll
    | AfterEach
    | OrFinally
)


def find_loss(trigger: Trigger, lateness: int) -> str | None:
    """Return how a trigger may lose events that are not late, or None if it can't.

    A window that is closed emits its remaining events in a last pane, so a condition that is never met
    loses nothing; only a trigger that finishes does.

    >>> find_loss(AfterCount(3), 0)
    'AfterCount(n=3) finishes when it fires, and later events are lost'
    >>> find_loss(Repeatedly(AfterCount(3)), 0)
    """
    match trigger:
        case AfterCount() | AfterProcessingTime():
            return f"{trigger} finishes when it fires, and later events are lost"
        case AfterWatermark(late=None) if lateness:
            return (
                f"AfterWatermark without `late` finishes when it fires, "
                f"and later events, within the allowed lateness of {lateness}, are lost"
            )
        case AfterWatermark(late=Repeatedly() as late) if lateness:
            return find_loss(late, lateness)
        case AfterAny(parts):
            return next(filter(None, (find_loss(part, lateness) for part in parts)), None)
        case AfterAll(parts) | AfterEach(parts):
            losses = [find_loss(part, lateness) for part in parts]
            return losses[-1] if all(losses) else None
        case OrFinally(main, until):
            return find_loss(main, lateness) or _find_final_loss(until, lateness)
    return None


def names_watermark(trigger: Trigger) -> bool:
    """Return whether a trigger is evaluated when the watermark passes the window's end, for an on-time pane."""
    match trigger:
        case DefaultTrigger() | AfterWatermark():
            return True
        case Repeatedly(inner):
            return names_watermark(inner)
        case AfterAny(parts) | AfterAll(parts) | AfterEach(parts):
            return any(map(names_watermark, parts))
        case OrFinally(main, until):
            return names_watermark(main) or names_watermark(until)
    return False


def names_clock(trigger: Trigger) -> bool:
    """Return whether a trigger reads the recorded clock."""
    match trigger:
        case AfterProcessingTime():
            return True
        case AfterWatermark(early, late):
            return any(part is not None and names_clock(part) for part in (early, late))
        case Repeatedly(inner):
            return names_clock(inner)
        case AfterAny(parts) | AfterAll(parts) | AfterEach(parts):
            return any(map(names_clock, parts))
        case OrFinally(main, until):
            return names_clock(main) or names_clock(until)
    return False


def _find_final_loss(until: Trigger, lateness: int) -> str | None:
    """Return how events are lost if the first firing of a trigger ends the window, finished or not."""
    match until:
        case DefaultTrigger() | AfterWatermark(early=None):
            return find_loss(AfterWatermark(), lateness)
        case Repeatedly(inner):
            return _find_final_loss(inner, lateness)
        case Never():
            return None
        case AfterAll(parts):
            losses = [_find_final_loss(part, lateness) for part in parts]
            return losses[-1] if all(losses) else None
    return f"OrFinally finishes when {until} fires, and later events are lost"


def _set_parts(trigger: Any, parts: tuple[Trigger, ...]) -> None:
    name = type(trigger).__name__
    if not parts:
        raise ProgramError(f"{name} has no parts", expected="one trigger or more", got="none")
    _check_triggers(name, *parts)
    object.__setattr__(trigger, "parts", parts)


def _check_triggers(name: str, *parts: object) -> None:
    for part in parts:
        if not isinstance(part, Trigger):
            raise ProgramError(
                f"a part of {name} is not a trigger",
                expected="a trigger, such as AfterCount(10) or AfterWatermark()",
                got=repr(part),
            )
