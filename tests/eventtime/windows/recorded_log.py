"""A recorded log of one key: bundles of events, watermarks, readings of the clock, and the end."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from anabranch.eventtime.windows.panes import StepOutcome, Windowing, WindowState
from anabranch.eventtime.windows.trigger_machine import take_clock, take_elements, take_watermark
from anabranch.model.events import FOREVER


class Elements(NamedTuple):
    """A bundle of events, as pairs of time and value; one is the normal case."""

    pairs: tuple[tuple[int, Any], ...]


class Watermark(NamedTuple):
    """The promise that no event at or before `time` will come, but for late ones."""

    time: int


class Clock(NamedTuple):
    """A reading of the clock, recorded."""

    time: int


class End(NamedTuple):
    """The end of the input: everything is said."""


Step = Elements | Watermark | Clock | End


def replay(windowing: Windowing, steps: Iterable[Step]) -> Iterator[StepOutcome]:
    """Fold a log from the start, and yield what each step comes to."""
    state = WindowState()
    for step in steps:
        emitted = take(windowing, state, step)
        yield emitted
        state = emitted.state


def take(windowing: Windowing, state: WindowState, step: Step) -> StepOutcome:
    """Return what a step comes to."""
    match step:
        case Elements(pairs):
            return take_elements(windowing, state, pairs)
        case Watermark(time):
            return take_watermark(windowing, state, time)
        case Clock(time):
            return take_clock(windowing, state, time)
        case End():
            return take_watermark(windowing, state, FOREVER)
