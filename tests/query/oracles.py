"""What joins mean, by looking at all pairs; and events to try them with.

An oracle returns rows (when it is said, left, right). It knows no state, no timers, no order of arrival.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from anabranch import Event
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.window_types import merge_windows
from anabranch.model.events import Item
from anabranch.reference.sequential import Answer, run

Row = tuple[int, Any, Any]


class Show(NamedTuple):
    """An impression: the left side of all joins here."""

    time: int
    ad: int
    price: int = 0


class Click(NamedTuple):
    """A click: the right side."""

    time: int
    ad: int
    limit: int = 0


CHANNELS = (
    Channel("shows", lateness=3),
    Channel("clicks", lateness=3),
    Channel("both", lateness=3),
)
HOWS = ("inner", "left", "right", "full")

times = st.integers(0, 14)
shows = st.builds(Show, times, st.integers(0, 1), st.integers(0, 9))
clicks = st.builds(Click, times, st.integers(0, 1), st.integers(0, 9))


@st.composite
def draw_items(draw) -> list[Item]:
    """Draw what three channels bring, more or less in order: some of it is late, much at equal times."""
    items = []
    for channel, events in (("shows", shows), ("clicks", clicks), ("both", shows | clicks)):
        brought = draw(st.lists(events, max_size=7))
        if draw(st.booleans()):
            brought.sort(key=lambda event: event.time)
        items += [Event(event, channel, seq) for seq, event in enumerate(brought)]
    return end_channels(items, channels=CHANNELS)


def fold(program: Any, items: list[Item]) -> tuple[Answer, list[Show], list[Click]]:
    """Run a program; return its answer, and the events that were not late."""
    answer = run(program, items, CHANNELS)
    late = {id(late.event) for late in answer.late}
    good = [i.data for i in items if isinstance(i, Event) and id(i) not in late]
    assert (answer.ledger.pending, answer.ledger.rejected) == (0, 0)
    lefts = [event for event in good if isinstance(event, Show)]
    return answer, lefts, [event for event in good if isinstance(event, Click)]


def rows_of(answer: Answer) -> Counter[Row]:
    return Counter((o.event.time, o.value.left, o.value.right) for o in answer.outputs)


def join_all(
    lefts: Iterable[Show],
    rights: Iterable[Click],
    how: str,
    match: Callable[[Show, Click], bool],
    end_left: Callable[[Show], int],
    end_right: Callable[[Click], int],
) -> Iterator[Row]:
    """Yield all pairs that match, and those without a partner when their time has come."""
    lefts, rights = list(lefts), list(rights)
    for left in lefts:
        found = [right for right in rights if match(left, right)]
        yield from ((max(left.time, right.time), left, right) for right in found)
        if not found and how in ("left", "full"):
            yield (end_left(left), left, None)
    for right in rights:
        if not any(match(left, right) for left in lefts) and how in ("right", "full"):
            yield (end_right(right), None, right)


def join_intervals(lefts, rights, how, lower, upper) -> Counter[Row]:
    return Counter(
        join_all(
            lefts,
            rights,
            how,
            lambda a, b: a.ad == b.ad and lower <= b.time - a.time <= upper,
            # Whoever can only have partners in the past knows at once that there is none.
            lambda a: a.time + max(upper, 0),
            lambda b: b.time + max(-lower, 0),
        )
    )


def join_windows(lefts, rights, how, window) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for ad in {event.ad for event in (*lefts, *rights)}:
        events = [event for event in (*lefts, *rights) if event.ad == ad]
        assigned = {w for e in events for w in window.assign(e.time, e, 0)}
        if window.merging:
            assigned = {whole for whole, _ in merge_windows(assigned)}
        for start, end in assigned:
            inside = [[e for e in side if e.ad == ad and start <= e.time < end]
                      for side in (lefts, rights)]  # fmt: skip
            found = join_all(*inside, how, lambda a, b: True, lambda e: 0, lambda e: 0)
            rows.update((end - 1, left, right) for _, left, right in found)
    return rows


def join_asof(lefts, rights, how, within, ties) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for left in lefts:
        known = [
            right
            for right in rights
            if right.ad == left.ad
            and (right.time <= left.time if ties == "right_first" else right.time < left.time)
            and (within is None or left.time - right.time <= within)
        ]
        latest = max((right.time for right in known), default=None)
        ones = {right for right in known if right.time == latest} or {None}
        # Which of several at one time is the last, only the order of channels can tell.
        one = next(iter(ones)) if len(ones) == 1 else ...
        if one is not None or how == "left":
            rows[(left.time, left, one)] += 1
    return rows


def join_bands(lefts, rights, how, low, high, lower, upper) -> Counter[Row]:
    return Counter(
        join_all(
            lefts,
            rights,
            how,
            lambda a, b: low <= b.limit - a.price <= high and lower <= b.time - a.time <= upper,
            lambda a: a.time + max(upper, 0),
            lambda b: b.time + max(-lower, 0),
        )
    )
