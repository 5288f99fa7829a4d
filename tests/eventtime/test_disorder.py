"""An estimated lateness: the delay that covers a share of the disorder seen."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.eventtime.channels import NEVER, Channel, Watch
from anabranch.eventtime.disorder import (
    Disorder,
    Estimated,
    find_bucket,
    find_percentile,
    find_top,
    list_distances,
)

distances = st.integers(0, 60) | st.integers(0, (1 << 64) - 2)
rules = st.builds(
    Estimated,
    st.sampled_from([0.5, 0.75, 0.9]),
    within=st.none() | st.integers(10, 25),
    least=st.integers(0, 3),
    most=st.none() | st.integers(3, 50),
)


def recompute(rule, seen):
    """Work a delay out from scratch: cut into pages, sort the last two, take the percentile."""
    size = rule.within or len(seen) + 1
    whole = len(seen) // size
    looked_at = seen[max(0, whole - 1) * size :]
    if len(looked_at) < 1 / (1 - rule.share):
        return rule.most
    delay = max(rule.least, find_top(find_bucket(find_percentile(looked_at, rule.share))))
    return delay if rule.most is None else min(delay, rule.most)


@given(rules, st.lists(distances, max_size=80))
def test_oracle_the_delay_is_the_percentile_of_the_last_pages(rule, seen):
    disorder = Disorder(rule)
    for count, distance in enumerate(seen, 1):
        disorder.note(distance)
        assert disorder.delay == recompute(rule, seen[:count])


@given(rules, st.lists(distances, min_size=40, max_size=80), st.integers(0, 80))
def test_what_is_kept_in_a_state_goes_on_as_if_nothing_had_happened(rule, seen, cut):
    whole, first = Disorder(rule), Disorder(rule)
    for distance in seen[:cut]:
        first.note(distance)
    second = Disorder(rule, first.keep())
    for distance in seen[cut:]:
        second.note(distance)
    for distance in seen:
        whole.note(distance)
    assert second.keep() == whole.keep()
    assert second.delay == whole.delay


@given(distances)
def test_a_bucket_covers_its_distances_and_little_more(distance):
    bucket = find_bucket(distance)
    assert distance <= find_top(bucket) <= distance + distance // 16
    assert bucket < 976
    assert bucket == 0 or find_top(bucket - 1) < distance


def test_what_is_kept_is_small_however_much_was_seen():
    rng = random.Random(3)
    disorder = Disorder(Estimated(0.99))
    for _ in range(100_000):
        disorder.note(min(int(rng.paretovariate(0.3)), 1 << 63))
    assert len(disorder.keep()) == 374
    assert 10_000 <= disorder.events < 20_000


def test_a_confidence_is_taken_as_it_is_written():
    assert Estimated(0.99).share == Fraction(99, 100)
    assert (Estimated(0.99).fewest, Estimated(0.999).fewest, Estimated(0.1).fewest) == (
        100,
        1000,
        2,
    )


def test_without_a_most_a_channel_promises_nothing_until_it_can_tell():
    watch = Watch(Channel("a", lateness=Estimated(0.9)))
    for time in (*range(9), 3):
        assert watch.watermark == NEVER
        assert watch.judge(time) is None
    # Nine of the ten were not behind at all, so that is the delay.
    assert watch.delay == 0
    assert watch.judge(10) is None
    assert watch.watermark == 9


def test_with_a_most_it_is_the_delay_until_there_is_a_better_one():
    watch = Watch(Channel("a", lateness=Estimated(0.9, most=4)))
    assert (watch.judge(10), watch.watermark, watch.judge(5)) == (None, 5, 0)
    for time in range(11, 19):
        watch.judge(time)
    assert (watch.delay, watch.watermark) == (0, 17)


def test_a_late_event_counts_so_that_the_delay_can_grow_again():
    watch = Watch(Channel("a", lateness=Estimated(0.5, within=4)))
    verdicts = [watch.judge(time) for time in (10, 11, 3, 3, 3, 3)]
    assert (verdicts, watch.delay) == ([None, None, 7, 7, 7, 7], 8)
    assert (watch.judge(30), watch.watermark) == (None, 21)


def test_the_watermark_never_goes_back_when_the_delay_grows():
    rng = random.Random(8)
    watch = Watch(Channel("a", lateness=Estimated(0.9, within=50)))
    before, delays = NEVER, set()
    for n in range(3000):
        spread = 5 if n // 500 % 2 else 90
        watch.judge(n - rng.randrange(spread))
        assert watch.watermark >= before
        before = watch.watermark
        delays.add(watch.delay)
    assert min(d for d in delays if d is not None) < 10
    assert max(d for d in delays if d is not None) > 60


@pytest.mark.parametrize(
    ("confidence", "late", "delay"), [(0.9, 4_859, 87), (0.99, 487, 207), (0.999, 53, 335)]
)
def test_the_share_of_late_events_is_what_the_user_asked_for(confidence, late, delay):
    rng = random.Random(1)
    times = [10 * n - int(rng.expovariate(1 / 50)) for n in range(50_000)]
    watch = Watch(Channel("a", lateness=Estimated(confidence)))
    found = sum(watch.judge(time) is not None for time in times)
    assert (found, watch.delay) == (late, delay)
    assert abs(found / 50_000 - (1 - confidence)) < 0.1 * (1 - confidence)
    # The delay may be up to 1/16 more than the exact percentile of what it looked at.
    exact = find_percentile(list_distances(times[-20_000:]), Fraction(repr(confidence)))
    assert 0.9 * exact <= watch.delay <= 1.2 * exact


def test_an_event_rejected_for_being_far_ahead_does_not_count():
    rule = Estimated(0.5, most=9)
    watch = Watch(Channel("a", lateness=rule, max_ahead=5))
    assert [isinstance(watch.judge(time), str) for time in (10, 100, 12)] == [False, True, False]
    assert watch.disorder.events == 2
