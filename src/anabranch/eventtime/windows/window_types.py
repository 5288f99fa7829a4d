"""Window types: how events are assigned to intervals of time, or of positions.

Times are integers, in any unit. Sizes are integers in the same unit, or durations such as "10 min" if
times are microseconds. A window is half open: it includes `start` and excludes `end`. Windows of
positions count the events of one key from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Never, Protocol

from anabranch.errors import InputError, Location, ProgramError
from anabranch.eventtime.channels import NEVER
from anabranch.model.events import FOREVER
from anabranch.model.values.durations import SpanField
from anabranch.model.values.event_times import to_time


class Window(NamedTuple):
    """An interval from `start`, inclusive, to `end`, exclusive."""

    start: int
    end: int

    @property
    def last(self) -> int:
        """Return the last time in the window, which is complete when the watermark reaches it."""
        return self.end - 1

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


ALL_TIME = Window(NEVER, FOREVER)
"""The window of all times that an event can have."""


FAR = 1 << 61
"""Windows and sessions accept times between -FAR and FAR, so that their ends fit into 64 bits."""


def check_reach(time: int) -> None:
    """Raise if a time is out of range for windows; the event is rejected with this reason."""
    if not -FAR < time < FAR:
        raise InputError(
            f"time {time} is out of range for a window",
            expected=f"a time between {-FAR} and {FAR}, in the unit of your event times",
            got=str(time),
        )


class Assigner(Protocol):
    """The interface of window types: assigns events to windows.

    Overlapping windows of a `merging` assigner become one. A `counted` assigner uses the position of the
    event within its key, any other assigner uses its time.
    """

    @property
    def merging(self) -> bool: ...

    @property
    def counted(self) -> bool: ...

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        """Return the windows of an event, earliest first."""
        ...


@dataclass(frozen=True)
class Tumbling:
    """Windows of a fixed size without gaps or overlap; one of them starts at `offset`.

    >>> [str(window) for window in Tumbling(10).assign(25, None, 0)]
    ['[20, 30)']
    """

    size: SpanField[Never] = SpanField("the size of a tumbling window", least=1)
    _: KW_ONLY
    offset: SpanField[Never] = SpanField("the offset of a tumbling window", default=0)

    merging: ClassVar[bool] = False
    counted: ClassVar[bool] = False

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        check_reach(time)
        start = time - (time - self.offset) % self.size
        return [Window(start, start + self.size)]


@dataclass(frozen=True)
class Sliding:
    """Overlapping windows of a fixed size, one starting at `offset` and at each multiple of `every` from it.

    >>> [str(window) for window in Sliding(10, every=5).assign(12, None, 0)]
    ['[5, 15)', '[10, 20)']
    """

    size: SpanField[Never] = SpanField("the size of a sliding window", least=1)
    every: SpanField[Never] = SpanField("the distance of sliding windows", least=1)
    _: KW_ONLY
    offset: SpanField[Never] = SpanField("the offset of a sliding window", default=0)

    merging: ClassVar[bool] = False
    counted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_no_gaps(self.size, self.every)

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        check_reach(time)
        first = find_first_start(time, self.size, self.every, self.offset)
        return [Window(start, start + self.size) for start in range(first, time + 1, self.every)]


@dataclass(frozen=True)
class Sessions:
    """Session windows: events less than `gap` apart are in the same window, which ends `gap` after the last.

    >>> [str(window) for window in Sessions(10).assign(3, None, 0)]
    ['[3, 13)']
    """

    gap: SpanField[Never] = SpanField("the gap between sessions", least=1)

    merging: ClassVar[bool] = True
    counted: ClassVar[bool] = False

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        check_reach(time)
        return [Window(time, time + self.gap)]


@dataclass(frozen=True)
class Global:
    """One window for all events; it is complete when the input ends."""

    merging: ClassVar[bool] = False
    counted: ClassVar[bool] = False

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        return [ALL_TIME]


@dataclass(frozen=True)
class CountTumbling:
    """Windows of `n` consecutive events of a key, without overlap, in the order of processing.

    >>> [str(window) for window in CountTumbling(3).assign(99, None, 4)]
    ['[3, 6)']
    """

    n: int

    merging: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("the number of events in a window", self.n, least=1)

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        start = position - position % self.n
        return [Window(start, start + self.n)]


@dataclass(frozen=True)
class CountSliding:
    """Overlapping windows of `n` consecutive events of a key, one starting at every `every`-th event.

    >>> [str(window) for window in CountSliding(3, every=2).assign(99, None, 2)]
    ['[0, 3)', '[2, 5)']
    """

    n: int
    every: int

    merging: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("the number of events in a window", self.n, least=1)
        check_whole("the distance of windows, in events", self.every, least=1)
        _check_no_gaps(self.n, self.every)

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        first = max(find_first_start(position, self.n, self.every, 0), 0)
        return [Window(start, start + self.n) for start in range(first, position + 1, self.every)]


Assign = Callable[[int, Any], Iterable[tuple[int, int]]]


@dataclass(frozen=True)
class Custom:
    """Windows from a user's function of an event's time and value.

    The function returns pairs of start and end, each of which must include the time. With
    `merging=True`, overlapping windows become one, as sessions do, so a gap may depend on the value.

    >>> [str(window) for window in Custom(lambda time, size: [(time, time + size)]).assign(3, 7, 0)]
    ['[3, 10)']
    """

    function: Assign
    _: KW_ONLY
    merging: bool = False

    counted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ProgramError(
                "a custom window needs a function",
                expected="a function of (time, value) that returns pairs (start, end)",
                got=repr(self.function),
            )

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        return sorted({_read_window(pair, time) for pair in self.function(time, value)})


def find_first_start(place: int, size: int, every: int, offset: int) -> int:
    """Return the start of the earliest window of a grid that includes a place or is after it.

    The earliest window that is open at a watermark is that of the place after the watermark. Kernels
    compile this function too, so its arguments are numbers.

    >>> find_first_start(12, size=10, every=5, offset=0)
    5
    """
    start = place - size + 1
    return start + (offset - start) % every


def merge_windows(windows: Iterable[Window]) -> list[tuple[Window, list[Window]]]:
    """Return the windows after merging overlapping ones, each with the windows that it consists of.

    Adjacent windows are not merged: their events are a whole gap apart.

    >>> merge_windows([Window(5, 15), Window(0, 10), Window(15, 20)])[0][0]
    Window(start=0, end=15)
    """
    merged: list[tuple[Window, list[Window]]] = []
    for window in sorted(set(windows)):
        if merged and window.start < merged[-1][0].end:
            whole, parts = merged[-1]
            merged[-1] = (Window(whole.start, max(whole.end, window.end)), [*parts, window])
        else:
            merged.append((window, [window]))
    return merged


def is_expired(window: Window, watermark: int, lateness: int) -> bool:
    """Return whether a window is closed at a watermark, and accepts no more events.

    >>> [is_expired(Window(0, 10), watermark, 5) for watermark in (9, 13, 14)]
    [False, False, True]
    """
    return watermark >= FOREVER or watermark >= window.last + lateness


def check_whole(
    what: str, value: object, least: int | None = None, where: Location | None = None
) -> None:
    """Raise if a value is not an integer, or is below `least`."""
    if type(value) is not int or (least is not None and value < least):
        raise ProgramError(
            f"{what} is not valid",
            where=where,
            expected="an integer" if least is None else f"an integer of {least} or more",
            got=repr(value),
        )


def _check_no_gaps(size: int, every: int) -> None:
    if every > size:
        raise ProgramError(
            "events between two windows would be lost",
            expected=f"windows of {size} that start at most {size} apart",
            got=f"every={every}",
            cure="make the windows larger, or filter out the unwanted events before",
        )


def _read_window(pair: Any, time: int) -> Window:
    try:
        start, end = pair
    except (TypeError, ValueError):
        start = end = None
    start, end = to_time(start), to_time(end)
    if type(start) is not int or type(end) is not int or not start <= time < end:
        raise InputError(
            "a custom window does not include the time of its event",
            expected=f"integers (start, end) with start <= {time} < end",
            got=repr(pair),
        )
    return Window(start, end)
