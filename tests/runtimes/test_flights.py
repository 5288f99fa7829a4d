"""Real flights, replayed in the order in which they departed: every runtime, the same bytes."""

import random

import pytest

from anabranch.reference.sequential import run
from tests.microbatch.streams import Stream
from tests.runtimes.flights import LATENESS, PROGRAMS, count_disorder, read_flights, tell
from tests.runtimes.inputs import cut_one_by_one, cut_rows, run_batches
from tests.runtimes.runtimes import Local, SparkStreaming, open_session, sum_up

every_program = pytest.mark.parametrize("name", PROGRAMS)


def test_the_flights_are_as_unruly_as_they_are_said_to_be():
    flights = read_flights()
    assert len(flights) == 27_004
    assert sum(flight.delay is None for flight in flights) == 521
    assert 0.56 < count_disorder(flights) < 0.57
    assert max(flight.delay or 0 for flight in flights) == 1301
    day = tell(PROGRAMS["departures"], flights)
    ledger = run(day.program, day.items, day.channels).ledger
    assert (ledger.late, ledger.rejected) == (160, 521)
    assert LATENESS == 180


@every_program
@pytest.mark.parametrize(
    ("flights", "size", "shards"), [(9000, 1000, 7), (4000, 60, 2), (4000, 10_000, 64)]
)
def test_differential_no_cut_into_batches_shows(name, flights, size, shards):
    day = tell(PROGRAMS[name], read_flights()[:flights])
    expected = sum_up(run(day.program, day.items, day.channels))
    assert len(expected.outputs) > 100
    batches = cut_rows(random.Random(f"{name} {size}"), day.items, size)
    assert run_batches(day.program, day.channels, batches, shards) == expected


@every_program
def test_differential_no_order_of_arrival_within_the_lateness_shows(name):
    """Let flights come up to half an hour sooner or later than they did.

    Where an airport has two flights at one time, their order *is* that of arrival, so one is told.
    """
    punctual = [f for f in read_flights()[:1500] if f.delay is not None and abs(f.delay) < 60]
    flights = {(f.origin, f.scheduled): f for f in punctual}
    assert len(flights) > 700
    answers = []
    for seed in range(3):
        rng = random.Random(seed)
        shifts = {place: rng.randint(-30, 30) * bool(seed) for place in flights}
        shifted = sorted(flights, key=lambda place: flights[place].departed + shifts[place])
        day = tell(PROGRAMS[name], [flights[place] for place in shifted])
        outcome = run_batches(
            day.program, day.channels, cut_rows(rng, day.items, 100), shards=1 + 2 * seed
        )
        assert outcome.late == outcome.rejected == []
        # A number within a channel is part of an output's name, and is not the same here.
        answers.append(sorted(value for _, value in outcome.outputs))
    assert answers[0]
    assert answers == answers[:1] * 3


@every_program
def test_differential_a_batch_of_every_row_does_not_show(name):
    day = tell(PROGRAMS[name], read_flights()[:300])
    expected = sum_up(run(day.program, day.items, day.channels))
    batches = cut_one_by_one(random.Random(name), day.items)
    assert len(batches) >= 300
    assert run_batches(day.program, day.channels, batches, shards=3) == expected


@pytest.mark.parametrize(("cores", "shards", "columns"), [(1, 7, True), (2, 3, False)])
@every_program
def test_differential_an_embedded_run_says_the_same_whatever_its_cores(
    name, cores, shards, columns, place
):
    day = tell(PROGRAMS[name], read_flights()[:1500])
    runtime = Local(name, shards, cores, columns=columns)
    (outcome,) = runtime.run(day, place)
    assert outcome == sum_up(run(day.program, day.items, day.channels))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "partitions", "shards"),
    [
        ("punctuality", 5, 32),
        ("departures", 2, 16),
        ("over_limit", 1, 5),
        ("remarkable", 2, 8),
    ],
)
def test_differential_spark_says_the_same_whatever_its_partitions(name, partitions, shards, place):
    day = tell(PROGRAMS[name], read_flights()[:3000])
    answer = run(day.program, day.items, day.channels)
    assert answer.ledger.rejected > 10
    runtime = SparkStreaming(name, shards, partitions)
    (outcome,) = runtime.run(day, place)
    assert outcome == sum_up(answer)


@pytest.mark.spark
def test_differential_spark_says_the_same_when_every_row_is_a_batch(place):
    day = tell(PROGRAMS["departures"], read_flights()[:8])
    stream = Stream(day.program, day.channels, day.items)
    rows = [[item] for item in sorted(day.items, key=lambda item: item.seq)]
    runtime = SparkStreaming("departures", shards=2)
    lives = [rows[:6], rows[6:]]
    outcome = runtime.stream(open_session(place, 2), stream, lives, place.folder)
    assert len(rows) > 12
    assert outcome == sum_up(run(day.program, day.items, day.channels))
