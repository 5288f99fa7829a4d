"""Triggers: when a window speaks. Each is frozen data; `firing` says how it runs.

The words are Beam's, and so is what they mean. A trigger that *finishes* lets its window say
nothing more, so an event that comes after it is lost. `find_loss` says which triggers can do that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from anabranch.errors import ProgramError
from anabranch.eventtime.windows.window_types import check_whole
from anabranch.model.values.durations import SpanField


@dataclass(frozen=True)
class DefaultTrigger:
    """Fire when the watermark passes the window's end, and again with each late bundle."""


@dataclass(frozen=True)
class Always:
    """Fire with every bundle of events."""


@dataclass(frozen=True)
class Never:
    """Never fire: what a window holds is said when the window is closed."""


@dataclass(frozen=True)
class AfterCount:
    """Fire once the window has seen `n` events, and finish."""

    n: int

    def __post_init__(self) -> None:
        check_whole("the count of a trigger", self.n, least=1)


@dataclass(frozen=True)
class AfterProcessingTime:
    """Fire once the clock is `delay` past the window's first event, and finish.

    The clock is the recorded one, in its own unit: a replay fires at the same places.
    """

    delay: SpanField[NoReturn] = SpanField("the delay of a trigger", least=0)


@dataclass(frozen=True)
class AfterWatermark:
    """Fire when the watermark passes the window's end.

    Until then `early` may fire, again and again; from then on `late` may. Without `late` the
    trigger finishes.
    """

    early: Trigger | None = None
    late: Trigger | None = None

    def __post_init__(self) -> None:
        for name in ("early", "late"):
            part = getattr(self, name)
            if part is not None:
                _check_triggers("AfterWatermark", part)
                # Early and late parts start anew each time they fire.
                object.__setattr__(
                    self, name, part if isinstance(part, Repeatedly) else Repeatedly(part)
                )


@dataclass(frozen=True)
class Repeatedly:
    """Fire as the inner trigger does, and start it anew when it finishes."""

    inner: Trigger

    def __post_init__(self) -> None:
        _check_triggers("Repeatedly", self.inner)


@dataclass(frozen=True, init=False)
class AfterAny:
    """Fire when one of several would; finish when one that fires finishes."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        _set_parts(self, parts)


@dataclass(frozen=True, init=False)
class AfterAll:
    """Fire when all of several would; finish when all of them finish."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        _set_parts(self, parts)


@dataclass(frozen=True, init=False)
class AfterEach:
    """Fire as the first of several does until it finishes, then as the next; finish with the last."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        _set_parts(self, parts)


@dataclass(frozen=True)
class OrFinally:
    """Fire as `main` does, until `until` fires: that is the last time."""

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

    What a window still holds when it is closed is said then, so a condition that is never met
    loses nothing; only finishing does.

    >>> find_loss(AfterCount(3), 0)
    'AfterCount(n=3) finishes when it fires, and what comes later is lost'
    >>> find_loss(Repeatedly(AfterCount(3)), 0)
    """
    match trigger:
        case AfterCount() | AfterProcessingTime():
            return f"{trigger} finishes when it fires, and what comes later is lost"
        case AfterWatermark(late=None) if lateness:
            return (
                f"AfterWatermark without `late` finishes when it fires, "
                f"and what comes later, within the lateness of {lateness}, is lost"
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
    """Say whether a window is asked when the watermark passes its end, and then has a pane on time."""
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
    """Say whether a trigger looks at the recorded clock."""
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
    """Return what is lost if all ends when a trigger fires first, finished or not."""
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
    return f"OrFinally finishes when {until} fires, and what comes later is lost"


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
                f"{name} is made of what is no trigger",
                expected="a trigger, such as AfterCount(10) or AfterWatermark()",
                got=repr(part),
            )
