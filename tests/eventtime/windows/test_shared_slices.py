"""Sliding windows that share slices say what those that do not share say, for less."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from anabranch.eventtime.windows.panes import ACCUMULATIONS, OUTPUT_TIMES, VALUES, Fold, Windowing
from anabranch.eventtime.windows.shared_slices import read_grid
from anabranch.eventtime.windows.triggers import AfterCount, AfterWatermark, Always, DefaultTrigger
from anabranch.eventtime.windows.window_types import CountSliding, Sliding, Tumbling
from anabranch.state import Max, Sum
from tests.eventtime.windows.recorded_log import Elements, End, Watermark, replay

spans = st.tuples(st.integers(1, 14), st.integers(1, 14))
sliding = st.builds(
    lambda s, offset: Sliding(max(s), min(s), offset=offset), spans, st.integers(-9, 9)
)
counting = st.builds(lambda s: CountSliding(max(s), min(s)), spans)


@st.composite
def logs(draw):
    """Return a log that goes on by small steps, with events before and behind the watermark."""
    log, watermark = [], 0
    for ahead, value, step in draw(
        st.lists(st.tuples(st.integers(-9, 14), st.integers(0, 99), st.integers(0, 6)), max_size=25)
    ):
        log += [Elements(((watermark + ahead, value),)), Watermark(watermark + step)]
        watermark += step
    return [*log, End()]


windowings = st.builds(
    lambda window, trigger, lateness, accumulation, output_time, closing, fold: Windowing(
        window,
        trigger,
        allowed_lateness=0 if window.counted else lateness,
        accumulation=accumulation,
        output_time=output_time,
        closing=closing,
        fold=fold,
    ),
    sliding | counting,
    st.sampled_from(
        [DefaultTrigger(), AfterWatermark(late=Always()), AfterWatermark(late=AfterCount(2))]
    ),
    st.sampled_from([0, 0, 3, 12, 40]),
    st.sampled_from(ACCUMULATIONS),
    st.sampled_from(OUTPUT_TIMES),
    st.sampled_from(["if_new", "always"]),
    st.sampled_from([Sum(), Max(), VALUES]),
)


def settle(emitted):
    """Forget the order of values, which sharing does not keep for events out of order."""
    panes = [
        pane._replace(value=sorted(pane.value) if isinstance(pane.value, tuple) else pane.value)
        for pane in emitted.panes
    ]
    return panes, emitted.dropped


@given(windowings, logs())
def test_differential_shared_slices_and_whole_windows_say_the_same(windowing, log):
    alone = dataclasses.replace(windowing, share=False)
    assert windowing.shares
    assert not alone.shares
    shared = list(map(settle, replay(windowing, log)))
    assert shared == list(map(settle, replay(alone, log)))


@given(sliding | counting, st.lists(st.integers(0, 99), max_size=40))
def test_values_in_order_stay_in_order(window, values):
    log = [*(Elements(((place, value),)) for place, value in enumerate(values)), End()]
    shared = Windowing(window=window)
    alone = Windowing(window=window, share=False)
    assert [s.panes for s in replay(shared, log)] == [s.panes for s in replay(alone, log)]


def test_an_event_that_is_late_for_some_windows_is_in_the_others():
    log = [Elements(((1, 1), (5, 10), (8, 100))), Watermark(9), Elements(((5, 1000),)), End()]
    emitted = list(replay(Windowing(Sliding(10, every=2), fold=Sum()), log))
    assert [drop.window for drop in emitted[2].dropped] == [(-4, 6), (-2, 8), (0, 10)]
    assert [(pane.window.start, pane.value) for pane in emitted[3].panes] == [
        (2, 1110),
        (4, 1110),
        (6, 100),
        (8, 100),
    ]


def test_windows_are_shared_only_where_they_are_silent_until_their_end():
    window = Sliding(10, every=5)
    assert Windowing(window=window).shares
    assert not Windowing(window=Tumbling(10)).shares
    assert Windowing(window=window, allowed_lateness=5).shares
    assert Windowing(window=window, trigger=AfterWatermark()).shares
    assert not Windowing(window=window, trigger=AfterWatermark(early=AfterCount(1))).shares
    assert not Windowing(window=window, fold=Fold(0, lambda total, value: total + value)).shares


def count_calls(window: Sliding | CountSliding, events: int) -> tuple[int, int, int]:
    """Return how often a run adds and joins, and how many windows speak."""
    calls = {"add": 0, "join": 0}

    def add(total, value):
        calls["add"] += 1
        return total + value

    def join(a, b):
        calls["join"] += 1
        return a + b

    log = []
    for place in range(events):
        log += [Elements(((place, 1),)), Watermark(place)]
    windowing = Windowing(window=window, fold=Fold(0, add, join))
    panes = sum(len(emitted.panes) for emitted in replay(windowing, log))
    return calls["add"], calls["join"], panes


def test_an_event_is_folded_once_however_many_windows_hold_it():
    adds, joins, panes = count_calls(Sliding(100, every=1), 1000)
    assert adds == 1000
    assert panes >= 900
    # Two joins for each slice on its way through the stacks, and one for each window.
    assert joins <= 3 * 1000


def test_a_window_costs_a_few_joins_when_positions_slide():
    adds, joins, panes = count_calls(CountSliding(100, every=1), 1000)
    assert (adds, panes) == (1000, 901)
    assert joins <= 3 * 1000


def test_stretches_without_events_cost_nothing():
    windowing = Windowing(window=Sliding(10, every=1))
    log = [Elements(((0, 0), (10**15, 1))), End()]
    assert sum(len(emitted.panes) for emitted in replay(windowing, log)) == 20


def test_slices_are_as_long_as_what_size_and_distance_have_in_common():
    grid = read_grid(Windowing(window=Sliding(10, every=4, offset=1)))
    assert [grid.cut(place) for place in (0, 1, 2, 3)] == [-1, 1, 1, 3]
