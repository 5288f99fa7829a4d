"""Bids, windows over them, and what brute force makes of both: no code of ours decides here."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from anabranch import Event, Heartbeat
from anabranch.model.events import FOREVER, Item
from anabranch.sources import Channel
from anabranch.state import Count, Max, Sum
from anabranch.windows import (
    Calendar,
    CountSliding,
    CountTumbling,
    Custom,
    Global,
    Sessions,
    Sliding,
    Tumbling,
)

FOLDS = {"n": Count(), "total": (Sum(), "price"), "top": (Max(), "price")}
NEVER = -(2**63)


class Bid(NamedTuple):
    """A bid: `time` is when it came, `when` is when it was made."""

    time: int
    bidder: str
    price: int
    when: int = 0


Groups = dict[tuple[int, int], list[Bid]]
"""Bids by window."""


class Cut(NamedTuple):
    """A window, and how brute force groups bids by it. Bids come in the order of time."""

    window: Any
    group: Callable[[list[Bid]], Groups]


# --- brute force ----------------------------------------------------------------------------------


def group_by_spans(find: Callable[[Bid], list[tuple[int, int]]]) -> Callable[[list[Bid]], Groups]:
    def group(bids: list[Bid]) -> Groups:
        groups: Groups = defaultdict(list)
        for bid in bids:
            for span in find(bid):
                groups[span].append(bid)
        return groups

    return group


def slide(size: int, every: int, offset: int = 0) -> Callable[[Bid], list[tuple[int, int]]]:
    """Try every start there could be."""
    return lambda bid: [
        (start, start + size)
        for start in range(bid.time - size, bid.time + 1)
        if (start - offset) % every == 0 and start <= bid.time < start + size
    ]


def group_sessions(gap: Callable[[Bid], int]) -> Callable[[list[Bid]], Groups]:
    """Go through bids in order; one that lies at or after all ends so far starts a session."""

    def group(bids: list[Bid]) -> Groups:
        groups: Groups = {}
        start = end = None
        held: list[Bid] = []
        for bid in bids:
            if end is not None and bid.time >= end:
                groups[(start, end)] = held
                start, end, held = None, None, []
            start = bid.time if start is None else start
            end = max(bid.time + gap(bid), bid.time if end is None else end)
            held = [*held, bid]
        return groups | ({(start, end): held} if held else {})

    return group


def find_day(zone: str) -> Callable[[Bid], list[tuple[int, int]]]:
    """Return the local day of a time in seconds: from midnight to midnight."""
    known = ZoneInfo(zone)

    def find(bid: Bid) -> list[tuple[int, int]]:
        day = datetime.fromtimestamp(bid.time, known).replace(hour=0, minute=0, second=0)
        start, end = (day + timedelta(days=n) for n in (0, 1))
        return [tuple(int(one.replace(tzinfo=known, fold=0).timestamp()) for one in (start, end))]

    return find


def find_month(zone: str) -> Callable[[Bid], list[tuple[int, int]]]:
    known = ZoneInfo(zone)

    def find(bid: Bid) -> list[tuple[int, int]]:
        shown = datetime.fromtimestamp(bid.time, known)
        years, month = divmod(shown.month, 12)
        start = datetime(shown.year, shown.month, 1, tzinfo=known)
        end = datetime(shown.year + years, month + 1, 1, tzinfo=known)
        return [(int(start.timestamp()), int(end.timestamp()))]

    return find


def count_off(size: int, every: int) -> Callable[[list[Bid]], Groups]:
    return lambda bids: {
        (start, start + size): bids[start : start + size] for start in range(0, len(bids), every)
    }


HOUR = 3600
SPRING = int(datetime(2025, 3, 29, tzinfo=ZoneInfo("Europe/Berlin")).timestamp())
"""The day before clocks go forward in Berlin; New York changed three weeks earlier."""

CUTS: dict[str, Cut] = {
    "tumbling": Cut(Tumbling(10), group_by_spans(slide(10, 10))),
    "tumbling, shifted": Cut(Tumbling(7, offset=3), group_by_spans(slide(7, 7, 3))),
    "sliding": Cut(Sliding(10, every=5), group_by_spans(slide(10, 5))),
    "sliding, uneven": Cut(Sliding(10, every=4, offset=1), group_by_spans(slide(10, 4, 1))),
    "sliding by one": Cut(Sliding(6, every=1), group_by_spans(slide(6, 1))),
    "sessions": Cut(Sessions(4), group_sessions(lambda bid: 4)),
    "long sessions": Cut(Sessions(15), group_sessions(lambda bid: 15)),
    "global": Cut(Global(), group_by_spans(lambda bid: [(NEVER, FOREVER)])),
    "count": Cut(CountTumbling(3), count_off(3, 3)),
    "count, sliding": Cut(CountSliding(4, every=2), count_off(4, 2)),
    "custom": Cut(
        Custom(lambda time, bid: [(time - bid.price % 3, time + 2)]),
        group_by_spans(lambda bid: [(bid.time - bid.price % 3, bid.time + 2)]),
    ),
    "custom, merging": Cut(
        Custom(lambda time, bid: [(time, time + 1 + bid.price % 5)], merging=True),
        group_sessions(lambda bid: 1 + bid.price % 5),
    ),
}
CALENDARS: dict[str, Cut] = {
    "day in Berlin": Cut(
        Calendar("day", "Europe/Berlin", per_second=1), group_by_spans(find_day("Europe/Berlin"))
    ),
    "month in New York": Cut(
        Calendar("month", "America/New_York", per_second=1),
        group_by_spans(find_month("America/New_York")),
    ),
}


# --- inputs ---------------------------------------------------------------------------------------

CHANNELS = tuple(Channel(name, lateness=n) for name, n in (("a", 0), ("b", 3), ("c", 8)))
BIDDERS = "xyz"


def draw_bids(rng: random.Random, count: int, unit: int = 1, start: int = 0) -> list[Item]:
    """Draw what three channels bring, in their own sequences: out of order, and late at times."""
    items: list[Item] = []
    for channel in CHANNELS:
        clock = start
        for seq in range(count):
            clock += rng.choice((0, 0, 1, 1, 2, 5)) * unit
            time = clock - rng.choice((0, 0, 0, 1, 3, 9)) * unit
            when = time - rng.choice((0, 0, 1, 2, 6, 14, 40)) * unit
            bid = Bid(time, rng.choice(BIDDERS), rng.randint(0, 99), when)
            items.append(Event(bid, channel.name, seq))
    return items


def find_late(items: list[Item], unit: int = 1) -> set[tuple[str, int]]:
    """Return channel and number of each event further behind than its channel may be."""
    late = set()
    for channel in CHANNELS:
        largest = None
        for item in (item for item in items if item.channel == channel.name):
            if largest is not None and item.data.time < largest - channel.lateness * unit:
                late.add((item.channel, item.seq))
            largest = item.data.time if largest is None else max(largest, item.data.time)
    return late


def sort_bids(items: list[Item], late: set[tuple[str, int]]) -> list[Bid]:
    """Return the bids that are not late in the order in which a program sees them."""
    kept = [item for item in items if (item.channel, item.seq) not in late]
    return [item.data for item in sorted(kept, key=lambda i: (i.data.time, i.channel, i.seq))]


@st.composite
def logs(draw: Callable[..., Any], most: int = 24) -> list[Bid]:
    """Return bids by when they came, made any time before, now and then a little after."""
    steps = st.tuples(
        st.integers(0, 6), st.integers(-1, 30), st.sampled_from("xy"), st.integers(0, 9)
    )
    clock, bids = 0, []
    for step, lag, bidder, price in draw(st.lists(steps, max_size=most)):
        clock += step
        bids.append(Bid(clock, bidder, price, clock - lag))
    return bids


def bring(bids: list[Bid], channel: str = "a") -> list[Item]:
    """Return bids as a channel in order brings them, ended."""
    items: list[Item] = [Event(bid, channel, seq) for seq, bid in enumerate(bids)]
    return [*items, Heartbeat(FOREVER, channel, len(bids))]


def read_names(value: Any) -> dict[str, Any]:
    """Return folds by name, whatever record holds them."""
    return dict(value._asdict() if hasattr(value, "_asdict") else value)


def total_up(bids: list[Bid]) -> dict[str, Any]:
    """Return what FOLDS make of bids."""
    prices = [bid.price for bid in bids]
    return {"n": len(prices), "total": sum(prices), "top": max(prices, default=None)}


def split_by_bidder(bids: list[Bid]) -> Iterator[tuple[str, list[Bid]]]:
    for bidder in sorted({bid.bidder for bid in bids}):
        yield bidder, [bid for bid in bids if bid.bidder == bidder]
