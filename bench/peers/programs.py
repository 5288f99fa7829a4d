"""The programs that Anabranch is measured with: ordinary ones, as a user would write them.

`Ask` reads a key's state: the other contenders emit what has changed in each batch, Anabranch emits what
it is asked for. Values are never below 0, so a maximum starts from -1.
"""

from typing import Any, NamedTuple

from anabranch import Program, depends, on
from anabranch.state import Count, MapOf, Replicated, Sum
from anabranch.windows import Sliding, Tumbling, aggregate

ALPHA = 0.1


class Reading(NamedTuple):
    time: int
    key: int
    value: float


class Ask(NamedTuple):
    time: int
    key: int


class Value(NamedTuple):
    time: int
    value: int


class Barrier(NamedTuple):
    time: int


class View(NamedTuple):
    time: int
    page: int


class Update(NamedTuple):
    time: int
    page: int
    version: int


class Bid(NamedTuple):
    time: int
    auction: int
    price: int


class Stats(NamedTuple):
    """The largest value of a key, and how many there were."""

    top: float
    seen: int


class Known(NamedTuple):
    """What is known of a page, and how many views have seen it."""

    version: int
    seen: int


class Standing(NamedTuple):
    """What is read of a key in w1."""

    key: int
    top: float
    seen: int


class Viewed(NamedTuple):
    """How often a version of a page was viewed, in w3."""

    page: int
    version: int
    seen: int


class Smoothed(NamedTuple):
    """What is read of a key in w5: no average if it was never read."""

    key: int
    average: float | None


class StatsState:
    """A key's entry: both sides of a fork have the largest value, one has the count.

    It is exact: floats are compared, never added.
    """

    by = None
    exact = True
    init = zero = Stats(-1.0, 0)

    def fork(self, state: Stats, left: Any, right: Any) -> tuple[Stats, Stats]:
        """Leave the count on the left."""
        return state, Stats(state.top, 0)

    def join(self, a: Stats, b: Stats) -> Stats:
        """Take the larger, add the counts."""
        return Stats(max(a.top, b.top), a.seen + b.seen)

    def same(self, a: Stats, b: Stats) -> bool:
        """Compare exactly."""
        return a == b


class KnownState:
    """A page's entry: every side of a fork has the version, and counts the views that it saw."""

    by = None
    init = zero = Known(-1, 0)

    def fork(self, state: Known, left: Any, right: Any) -> tuple[Known, Known]:
        """Leave the count on the left."""
        return state, Known(state.version, 0)

    def join(self, a: Known, b: Known) -> Known:
        """Add the counts."""
        return Known(a.version, a.seen + b.seen)

    def same(self, a: Known, b: Known) -> bool:
        """Compare exactly."""
        return a == b


keyed_fold = Program(
    on(
        Reading,
        update=lambda stats, reading: Stats(max(stats.top, reading.value), stats.seen + 1),
    ),
    on(Ask, output=lambda stats, ask: Standing(ask.key, stats.top, stats.seen)),
    depends(Ask, Reading, Ask, same="key"),
    state=MapOf(StatsState(), by="key"),
    outputs=Standing,
    name="keyed_fold",
)
value_barrier = Program(
    on(Value, update=lambda total, value: total + value.value),
    on(Barrier, output=lambda total, barrier: total, update=lambda total, barrier: 0),
    depends(Barrier, Value, Barrier),
    state=Sum(),
    outputs=int,
    name="value_barrier",
)
page_view = Program(
    on(View, update=lambda known, view: Known(known.version, known.seen + 1)),
    on(
        Update,
        output=lambda known, update: Viewed(update.page, known.version, known.seen),
        update=lambda known, update: Known(update.version, 0),
    ),
    depends(Update, View, Update, same="page"),
    state=MapOf(KnownState(), by="page"),
    outputs=Viewed,
    name="page_view",
)


def smooth(last: float | None, reading: Reading) -> float:
    """Return the average after a reading."""
    return reading.value if last is None else ALPHA * reading.value + (1 - ALPHA) * last


ewma = Program(
    on(Reading, update=smooth),
    on(Ask, output=lambda last, ask: Smoothed(ask.key, last)),
    depends(Reading, Reading, Ask, same="key"),
    depends(Ask, Ask, same="key"),
    state=MapOf(Replicated(), by="key"),
    outputs=Smoothed,
    name="ewma",
)
# An average is its sum and its count, so that it is exact.
hopping_average = aggregate(
    Bid,
    Sliding(100_000, every=1_000),
    per="auction",
    total=(Sum(), "price"),
    seen=Count(),
    name="hopping_average",
)
tumbling_average = aggregate(
    Bid,
    Tumbling(100_000),
    per="auction",
    total=(Sum(), "price"),
    seen=Count(),
    name="tumbling_average",
)

PROGRAMS: dict[str, tuple[Program, dict[str, str]]] = {
    "fold": (keyed_fold, {"readings": "Reading", "asks": "Ask"}),
    "ewma": (ewma, {"readings": "Reading", "asks": "Ask"}),
    "barrier": (value_barrier, {"values": "Value", "barriers": "Barrier"}),
    "pages": (page_view, {"views": "View", "updates": "Update"}),
    "w4": (hopping_average, {"bids": "Bid"}),
    "w4-tumbling": (tumbling_average, {"bids": "Bid"}),
}
"""By kind; of windows, which are part of a program, by workload."""


def find_program(kind: str, workload: str) -> tuple[Program, dict[str, str]]:
    """Return the program of a kind of workload, and the event type of each channel."""
    return PROGRAMS[workload if kind == "windows" else kind]
