"""Examples of our own input against plain Python, which goes through all events for each answer anew."""

import random
from fractions import Fraction
from statistics import median, pvariance

import pytest

from anabranch import Event, run
from anabranch.reference.verification import prepare
from anabranch.sources import end_channels
from examples import energy_forecast, outlier_detection, trending_words

SEEDS = range(25)


def deal(rng, channels, data):
    """Give events to channels at random; each channel brings its own in the order of time."""
    brought = {channel.name: [] for channel in channels}
    for one in sorted(data, key=lambda one: one.time):
        brought[rng.choice(channels).name].append(one)
    return [Event(one, name, n) for name, own in brought.items() for n, one in enumerate(own)]


def draw_connections(rng):
    """Draw connections of a few kinds, most of them alike, and checks among them."""

    def draw(time):
        service, ending = (
            rng.choice(["web"] * 6 + ["mail"] * 2 + ["ssh"]),
            rng.choice(["ok"] * 5 + ["reset"]),
        )
        size = rng.choice([5_000, 0]) if rng.random() < 0.1 else rng.randint(180, 220)
        return outlier_detection.Connection(time, service, ending, size)

    connections = [draw(rng.randint(0, 100)) for _ in range(60)]
    checks = [outlier_detection.Check(time) for time in sorted(rng.sample(range(101), 4))]
    return connections, checks


def find_outliers(connections, checks):
    emitted, since = [], -1
    for check in checks:
        seen = [c for c in connections if c.time < check.time]
        found = []
        for one in seen:
            if one.time < since:
                continue
            against = 0
            for fields, weight in ((("service",), 2), (("ending",), 2), (("service", "ending"), 1)):
                alike = [
                    other.bytes for other in seen
                    if all(getattr(other, f) == getattr(one, f) for f in fields)
                ]  # fmt: skip
                far = (Fraction(one.bytes) - Fraction(sum(alike), len(alike))) ** 2
                spread = pvariance(map(Fraction, alike))
                if len(alike) < 3 or far > Fraction(196, 100) ** 2 * spread:
                    against += weight
            if against >= 2:
                found.append((*one, against))
        emitted += sorted(found)
        since = check.time
    return emitted


@pytest.mark.parametrize("seed", SEEDS)
def test_outliers_are_what_a_look_at_all_connections_finds(seed):
    rng = random.Random(seed)
    connections, checks = draw_connections(rng)
    channels = outlier_detection.channels
    events = deal(rng, channels, [*connections, *checks])
    answer = run(outlier_detection.outlier_detection, events, channels=channels)
    expected = find_outliers(connections, checks)
    assert answer.values == expected
    assert expected


def draw_loads(rng):
    loads = [
        energy_forecast.Load(
            rng.randrange(6 * 14), rng.choice("abc"), rng.randrange(4), rng.randint(0, 500)
        )
        for _ in range(80)
    ]
    return loads, [energy_forecast.SliceEnd(6 * n) for n in range(1, 15)]


def forecast_loads(loads, ends):
    def find_mean(house, start):
        drawn = [o.watts for o in loads if o.house == house and start <= o.time < start + 6]
        return round(sum(drawn) / len(drawn)) if drawn else None

    emitted = []
    for end in ends:
        for house in "abc":
            now = find_mean(house, end.time - 6)
            if now is None:
                continue
            earlier = [
                find_mean(house, start) for start in range((end.time + 6) % 24, end.time, 24)
            ]
            known = [mean for mean in earlier if mean is not None]
            usual = median(known) if known else now
            emitted.append((house, end.time + 6, round((now + usual) / 2)))
    return emitted


@pytest.mark.parametrize("seed", SEEDS)
def test_forecasts_are_what_a_look_at_all_loads_gives(seed):
    rng = random.Random(seed)
    loads, ends = draw_loads(rng)
    channels = energy_forecast.channels
    events = deal(rng, channels, [*loads, *ends])
    answer = run(energy_forecast.energy_forecast, events, channels=channels)
    assert answer.values == forecast_loads(loads, ends)


def draw_posts(rng):
    """Draw words and headlines, no two at one time; both may come on the hour, which is first then."""
    times = rng.sample(range(240), 120)
    words = [trending_words.Word(t, rng.choice("aaaabbc")) for t in times[:100]]
    shown = [trending_words.Headline(t, rng.choice("abc"), "daily") for t in times[100:]]
    return words, shown, [trending_words.Hour(60 * n) for n in range(1, 5)]


def find_trending(words, shown, hours):
    def count(word, start, end):
        return sum(one.word == word and start <= one.time < end for one in words)

    emitted = []
    for one in sorted([*shown, *hours], key=lambda one: (one.time, hasattr(one, "word"))):
        if isinstance(one, trending_words.Headline):
            start = one.time // 60 * 60
            now, before = count(one.word, start, one.time), count(one.word, start - 60, start)
            emitted.append(("daily", one.word, now, before, now >= 3 and now >= 2 * before))
            continue
        rising = []
        for word in "abc":
            now = count(word, one.time - 60, one.time)
            before = count(word, one.time - 120, one.time - 60)
            if now >= 3 and now >= 2 * before:
                rising.append((before - now, word))
        emitted.append(("hour", tuple((word, -fewer) for fewer, word in sorted(rising)[:2])))
    return emitted


@pytest.mark.parametrize("seed", SEEDS)
def test_trending_words_are_what_a_count_of_all_posts_gives(seed):
    rng = random.Random(seed)
    words, shown, hours = draw_posts(rng)
    channels = trending_words.channels
    events = deal(rng, channels, [*words, *shown, *hours])
    answer = run(trending_words.trending_words, events, channels=channels)
    assert answer.values == find_trending(words, shown, hours)


@pytest.mark.parametrize("module", [energy_forecast, outlier_detection, trending_words])
def test_every_plan_that_they_list_gives_their_answer(module):
    program = getattr(module, module.__name__.rpartition(".")[2])
    items = end_channels(module.events, channels=module.channels)
    for plan in module.plans.values():
        trial = prepare(program, plan, items, module.channels)
        assert trial.answer.values == module.expected
        for seed in range(20):
            assert trial.verify(seed)[1] is None
