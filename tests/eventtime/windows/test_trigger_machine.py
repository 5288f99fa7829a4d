"""Laws of the trigger machine, over random windowings and logs."""

from collections import Counter, defaultdict
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InputError
from anabranch.eventtime.windows.panes import (
    RECORDS,
    VALUES,
    Fold,
    Pane,
    StepOutcome,
    Windowing,
    WindowState,
)
from anabranch.eventtime.windows.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
)
from anabranch.eventtime.windows.window_types import (
    CountSliding,
    CountTumbling,
    Custom,
    Global,
    Sessions,
    Sliding,
    Tumbling,
    Window,
)
from anabranch.model.events import FOREVER
from anabranch.state import Count, Max, Sum
from anabranch.state.durable.codec import Codec
from tests.eventtime.windows.recorded_log import Clock, Elements, End, Watermark, replay, take

LASTING = st.recursive(
    st.sampled_from([DefaultTrigger(), Always(), Never(), AfterWatermark(late=Always())])
    | st.builds(Repeatedly, st.builds(AfterCount, st.integers(1, 4)))
    | st.builds(Repeatedly, st.builds(AfterProcessingTime, st.integers(0, 5))),
    lambda inner: (
        st.builds(AfterWatermark, inner, inner)
        | st.builds(AfterAny, inner, inner)
        | st.builds(AfterAll, inner, inner)
        | st.builds(lambda first: AfterEach(AfterCount(2), first), inner)
        | st.builds(lambda one: Repeatedly(AfterAny(AfterCount(3), one)), inner)
    ),
    max_leaves=4,
)
ENDING = st.sampled_from(
    [
        AfterCount(2),
        AfterEach(AfterCount(1), AfterCount(2)),
        AfterWatermark(early=AfterCount(2)),
        OrFinally(Repeatedly(AfterCount(2)), AfterCount(5)),
    ]
)
APART = st.sampled_from(
    [
        Tumbling(10),
        Tumbling(7, offset=3),
        Sliding(10, 5),
        Sliding(10, 4, offset=1),
        Global(),
        CountTumbling(3),
    ]
) | st.sampled_from([CountSliding(4, 2), Custom(lambda time, value: [(time - 2, time + 3)])])
MERGING = st.sampled_from(
    [Sessions(4), Sessions(10), Custom(lambda time, n: [(time, time + 2 + n % 5)], merging=True)]
)
LATENESS = st.sampled_from([0, 0, 3, 20])


@st.composite
def logs(draw, *, end=True):
    """Return a log whose values are numbered, so that each event can be told from all others."""
    drawn = draw(
        st.lists(
            st.tuples(st.just("elements"), st.lists(st.integers(0, 60), min_size=1, max_size=4))
            | st.tuples(st.just("watermark"), st.integers(0, 60))
            | st.tuples(st.just("clock"), st.integers(1, 60)),
            max_size=14,
        )
    )
    steps, number = [Clock(0)], 0
    for kind, told in drawn:
        if kind == "elements":
            steps.append(Elements(tuple((time, number + n) for n, time in enumerate(told))))
            number += len(told)
        else:
            steps.append(Watermark(told) if kind == "watermark" else Clock(told))
    return [*steps, End()] if end else steps


def make(window, trigger, lateness=0, **options) -> Windowing:
    lateness = 0 if window.counted else lateness
    return Windowing(window=window, trigger=trigger, allowed_lateness=lateness, **options)


def run(windowing, log) -> tuple[list[Pane], list]:
    emitted = list(replay(windowing, log))
    return [p for step in emitted for p in step.panes], [
        d for step in emitted for d in step.dropped
    ]


def by_window(panes: list[Pane]) -> dict[Window, list[Pane]]:
    found = defaultdict(list)
    for pane in panes:
        found[pane.window].append(pane)
    return found


def pairs_of(windowing, log) -> Counter:
    """Return how often each value belongs to a window, counted over all events of a log."""
    events = [event for step in log if isinstance(step, Elements) for event in step.pairs]
    return Counter(
        value
        for place, (time, value) in enumerate(events)
        for _ in windowing.window.assign(time, value, place)
    )


@given(APART, LASTING, LATENESS, logs())
def test_discarding_panes_join_to_the_accumulating_pane(window, trigger, lateness, log):
    some, _ = run(make(window, trigger, lateness, accumulation="discarding"), log)
    whole, _ = run(make(window, trigger, lateness, accumulation="accumulating"), log)
    assert [(p.window, p.index, p.timing, p.last) for p in some] == [
        (p.window, p.index, p.timing, p.last) for p in whole
    ]
    parts = by_window(some)
    for pane in whole:
        before = parts[pane.window][: pane.index + 1]
        assert reduce(VALUES.join, [part.value for part in before]) == pane.value


@given(APART | MERGING, LASTING | ENDING, LATENESS, logs())
def test_every_event_is_said_once_or_reported(window, trigger, lateness, log):
    windowing = make(window, trigger, lateness, accumulation="discarding", may_lose=True)
    panes, dropped = run(windowing, log)
    emitted = Counter(value for pane in panes for value in pane.value)
    emitted.update(drop.value for drop in dropped)
    assert emitted == pairs_of(windowing, log)


@given(APART | MERGING, LASTING | ENDING, LATENESS, logs())
def test_nothing_is_unreported_even_if_windows_close_without_a_word(window, trigger, lateness, log):
    options = {"accumulation": "discarding", "closing": "never", "may_lose": True, "share": False}
    windowing = make(window, trigger, lateness, **options)
    panes, dropped = run(windowing, log)
    emitted = Counter(value for pane in panes for value in pane.value)
    for drop in dropped:
        emitted.update(drop.value if drop.reason == "not emitted" else [drop.value])
        assert drop.events == (len(drop.value) if drop.reason == "not emitted" else 1)
    assert emitted == pairs_of(windowing, log)


@given(APART | MERGING, LASTING, LATENESS, logs())
def test_events_on_time_are_never_dropped(window, trigger, lateness, log):
    watermark = -1
    for step, emitted in zip(log, replay(make(window, trigger, lateness), log), strict=True):
        assert all(drop.time <= watermark for drop in emitted.dropped)
        watermark = max(watermark, step.time) if isinstance(step, Watermark) else watermark


@given(APART | MERGING, LASTING, LATENESS, logs())
def test_retractions_net_to_the_last_pane_of_each_window(window, trigger, lateness, log):
    panes, _ = run(make(window, trigger, lateness, accumulation="retracting"), log)
    standing: dict[Pane, int] = {}
    for pane in panes:
        content = pane._replace(op=1)
        if pane.op == 1:
            standing[content] = standing.get(content, 0) + 1
        else:
            standing[content] -= 1
            assert standing[content] == 0
    left = [pane for pane, count in standing.items() if count]
    assert len({pane.window for pane in left}) == len(left)
    accumulated, _ = run(make(window, trigger, lateness, accumulation="accumulating"), log)
    last = {pane.window: pane for pane in accumulated}
    assert all(pane == last[pane.window] for pane in left)
    if not window.merging:
        assert len(left) == len(last)


@given(MERGING, LASTING, LATENESS, logs())
def test_what_stands_of_sessions_holds_each_event_once(window, trigger, lateness, log):
    windowing = make(window, trigger, lateness, accumulation="retracting")
    panes, dropped = run(windowing, log)
    net: Counter = Counter()
    for pane in panes:
        for value in pane.value:
            net[value] += pane.op
    net.update(drop.value for drop in dropped)
    assert net == pairs_of(windowing, log)


@given(APART | MERGING, LASTING, LATENESS, logs(), st.integers(-5, 5))
def test_shifting_all_times_by_whole_windows_shifts_what_is_said(
    window, trigger, lateness, log, by
):
    shift = by * 140  # A multiple of every size and distance above.
    moved = [
        Elements(tuple((time + shift, value) for time, value in step.pairs))
        if isinstance(step, Elements)
        else Watermark(step.time + shift)
        if isinstance(step, Watermark)
        else step
        for step in log
    ]
    windowing = make(window, trigger, lateness, output_time="earliest")
    at_rest = window.counted or isinstance(window, Global)

    def shift_back(pane: Pane) -> Pane:
        start, end = (place - (0 if at_rest else shift) for place in pane.window)
        late = isinstance(window, Global) and pane.time == pane.window.last
        return pane._replace(window=Window(start, end), time=pane.time - (0 if late else shift))

    assert [shift_back(pane) for pane in run(windowing, moved)[0]] == run(windowing, log)[0]


@given(st.lists(st.integers(0, 80), max_size=15), st.randoms(), st.integers(1, 12))
def test_sessions_are_the_same_for_any_order_of_arrival(times, rng, gap):
    shuffled = list(times)
    rng.shuffle(shuffled)
    windowing = Windowing(window=Sessions(gap))
    answers = []
    for order in (sorted(times), shuffled):
        panes, _ = run(windowing, [*(Elements(((time, time),)) for time in order), End()])
        answers.append([(pane.window, sorted(pane.value)) for pane in panes])
    assert answers[0] == answers[1]


@given(APART.filter(lambda window: not window.counted) | MERGING, logs(), LATENESS)
def test_how_events_are_bundled_does_not_show_in_panes_on_time(window, log, lateness):
    single = []
    for step in log:
        pieces = step.pairs if isinstance(step, Elements) else ()
        single += [Elements((pair,)) for pair in pieces] if pieces else [step]
    windowing = make(window, DefaultTrigger(), lateness)

    def on_time(steps):
        return [pane for pane in run(windowing, steps)[0] if pane.timing == "on_time"]

    # Sessions join in the order of their times, so values may stand in another order.
    assert [(p.window, sorted(p.value)) for p in on_time(single)] == [
        (p.window, sorted(p.value)) for p in on_time(log)
    ]


@given(APART | MERGING, LASTING | ENDING, LATENESS, logs(), st.booleans())
def test_a_state_that_was_stored_goes_on_as_if_it_had_not_been(
    window, trigger, lateness, log, share
):
    windowing = make(
        window, trigger, lateness, accumulation="retracting", may_lose=True, share=share
    )
    codec = Codec(RECORDS)
    stored = WindowState()
    for step, emitted in zip(log, replay(windowing, log), strict=True):
        again = take(windowing, stored, step)
        assert again == emitted
        data = codec.encode(again.state)
        stored = codec.decode(data)
        assert stored == again.state
        assert codec.encode(stored) == data


@given(APART | MERGING, LASTING | ENDING, LATENESS, logs())
def test_after_the_end_nothing_is_kept(window, trigger, lateness, log):
    *_, emitted = replay(make(window, trigger, lateness, may_lose=True), log)
    kept = emitted.state
    assert kept == WindowState(FOREVER, kept.clock, kept.seen)


@given(APART | MERGING, LASTING | ENDING, LATENESS, logs(end=False))
def test_the_end_is_a_watermark_at_infinity(window, trigger, lateness, log):
    windowing = make(window, trigger, lateness, may_lose=True)
    assert run(windowing, [*log, Watermark(FOREVER)]) == run(windowing, [*log, End()])


@given(APART | MERGING, LASTING | ENDING, LATENESS, logs())
def test_the_panes_of_a_window_are_numbered_and_only_the_last_is_last(
    window, trigger, lateness, log
):
    panes, _ = run(make(window, trigger, lateness, may_lose=True), log)
    for emitted in by_window(panes).values():
        if window.merging:
            # A session may come to bounds it had before; it is a new window then.
            assert emitted[0].first
            continue
        assert [pane.index for pane in emitted] == list(range(len(emitted)))
        assert [pane.first for pane in emitted] == [place == 0 for place in range(len(emitted))]
        assert not any(pane.last for pane in emitted[:-1])
        order = {"early": 0, "on_time": 1, "late": 2}
        timings = [order[pane.timing] for pane in emitted]
        assert timings == sorted(timings)
        assert timings.count(1) <= 1
        settled = [pane.nonspeculative_index for pane in emitted if pane.timing != "early"]
        assert settled == list(range(len(settled)))


@given(
    st.sampled_from([Tumbling(10), Tumbling(7, offset=3), Sliding(10, 5), Sliding(9, 4, offset=1)]),
    st.lists(st.integers(-50, 50), max_size=20),
)
def test_the_pane_on_time_is_what_recomputing_from_scratch_gives(window, times):
    log = [*(Elements(((time, time),)) for time in sorted(times)), End()]
    panes, _ = run(Windowing(window=window, fold=Sum()), log)
    starts = [
        s
        for s in range(-70, 60)
        if (s - window.offset) % getattr(window, "every", window.size) == 0
    ]
    wanted = {
        Window(s, s + window.size): sum(t for t in times if s <= t < s + window.size)
        for s in starts
        if any(s <= t < s + window.size for t in times)
    }
    assert {pane.window: pane.value for pane in panes} == wanted


@pytest.mark.parametrize(
    ("fold", "wanted"),
    [
        (Sum(), 6),
        (Max(), 3),
        (Fold(0, lambda count, value: count + 1, Count().join), 3),
        (VALUES, (1, 2, 3)),
    ],
)
def test_a_ready_made_state_will_do_as_a_fold(fold, wanted):
    log = [Elements(((0, 1), (4, 2))), Elements(((2, 3),)), End()]
    panes, _ = run(Windowing(window=Sessions(5), fold=fold), log)
    assert [pane.value for pane in panes] == [wanted]


def test_a_session_holds_the_events_of_a_bundle_in_the_order_in_which_they_came():
    log = [Elements(((9, "a"), (1, "b"), (5, "c"))), End()]
    panes, _ = run(Windowing(Sessions(10)), log)
    assert [pane.value for pane in panes] == [("a", "b", "c")]


def test_an_event_of_no_window_is_reported():
    windowing = Windowing(window=Custom(lambda time, value: []))
    (emitted,) = replay(windowing, [Elements(((1, "a"),))])
    assert [(drop.value, drop.window, drop.reason) for drop in emitted.dropped] == [
        ("a", None, "no window")
    ]


def test_a_clock_that_goes_back_is_old_news():
    windowing = Windowing(window=Global(), trigger=Repeatedly(AfterProcessingTime(5)))
    emitted = StepOutcome(WindowState())
    for step in (Clock(10), Elements(((0, 0),)), Clock(3), Clock(14)):
        emitted = take(windowing, emitted.state, step)
        assert emitted.panes == ()
    assert emitted.state.clock == 14
    assert len(take(windowing, emitted.state, Clock(15)).panes) == 1


def test_a_trigger_of_the_clock_needs_the_clock():
    windowing = Windowing(window=Global(), trigger=Repeatedly(AfterProcessingTime(5)))
    with pytest.raises(InputError, match="before the first clock step"):
        take(windowing, WindowState(), Elements(((0, 0),)))
