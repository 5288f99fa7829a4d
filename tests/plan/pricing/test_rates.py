import json
import math
from typing import NamedTuple

import pytest

from anabranch import Event, Heartbeat, Program, Shard, depends, on, take
from anabranch.errors import InputError
from anabranch.model.values.hashing import hash_stably
from anabranch.plan.pricing.rates import (
    Load,
    Rates,
    assume_rates,
    declare_rates,
    measure_rates,
    partition_fields,
    read_rates,
    sample_rates,
    spread_hot,
)
from examples import key_counter as counter
from examples.ewma import Reading, ewma
from examples.key_counter import Inc, Read, key_counter
from examples.value_barrier import Barrier, Value, value_barrier
from tests.plan.programs import Month, calendar, laned
from tests.plan.programs import Reading as Metered


def test_equal_slices_at_one_machine_are_added_up():
    rates = Rates([Load(take(Value), 1, "m"), Load(take(Value), 2, "m"), Load(take(Value), 4, "n")])
    assert rates.loads == (Load(take(Value), 3, "m"), Load(take(Value), 4, "n"))
    assert rates.total == 7
    assert rates.machines == ("m", "n")


def test_machines_come_in_order_of_first_mention():
    rates = Rates([Load(take(Value, channel=s), 1, m) for s, m in zip("abc", "zaz", strict=True)])
    assert rates.machines == ("z", "a")


@pytest.mark.parametrize(
    ("rate", "shown"), [(-1, "-1/s"), (math.inf, "inf/s"), (math.nan, "nan/s")]
)
def test_a_rate_that_is_no_number_of_events_is_refused(rate, shown):
    with pytest.raises(InputError, match="the rate of Value is not a number of events") as refused:
        Rates([Load(take(Value), rate)])
    assert refused.value.got == shown


def test_no_rates_at_all_are_refused():
    with pytest.raises(InputError, match="there are no rates"):
        Rates([])


def test_a_load_reads_as_one_would_say_it():
    assert str(Load(take(Inc, key=1, channel="a"), 1500, "E1")) == "Inc[key=1]@a 1500/s at E1"


# Assumed.


def test_markers_are_assumed_to_be_a_hundred_times_rarer():
    assert assume_rates(value_barrier, {Value: ["a", "b"]}).loads == (
        Load(take(Value, channel="a"), 100, "a"),
        Load(take(Value, channel="b"), 100, "b"),
        Load(take(Barrier), 1, "local"),
    )


# Declared.


def test_rates_are_declared_row_by_row():
    rows = [
        {"type": "Inc", "key": 1, "channel": "s1", "rate": 100, "machine": "E1"},
        {"type": "Read", "key": "2/8", "rate": "0.5"},
        {"type": "Inc", "lane": "0/4", "key": "a/b", "rate": 3},
    ]
    assert declare_rates(key_counter, rows).loads == (
        Load(take(Inc, key=1, channel="s1"), 100, "E1"),
        Load(take(Read, key=Shard(2, 8)), 0.5, "local"),
        Load(take(Inc, key="a/b", lane=Shard(0, 4)), 3, "local"),
    )


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"type": "Nope", "rate": 1}, "program has no event type 'Nope'; it has Inc, Read"),
        ({"type": "Inc"}, "'rate'"),
        ({"rate": 1}, "'type'"),
        ({"type": "Inc", "rate": "fast"}, "could not convert string to float: 'fast'"),
        ({"type": "Inc", "rate": None}, "float() argument must be"),
        ({"type": "Inc", "colour": 1, "rate": 1}, "Inc has no field `colour` to slice by"),
        ({"type": "Inc", "key": "8/8", "rate": 1}, "there is no shard 8 of 8"),
        ({"type": "Inc", "key": [1], "rate": 1}, "unhashable type: 'list'"),
        ("Inc", "'str' object has no attribute 'items'"),
        (["Inc", 1], "'list' object has no attribute 'items'"),
    ],
)
def test_a_row_that_can_not_be_read_is_shown_with_the_reason(row, why):
    with pytest.raises(InputError, match="a rate can't be read") as refused:
        declare_rates(key_counter, [{"type": "Inc", "rate": 1}, row])
    assert refused.value.got.startswith(f"{row!r} (")
    assert why in refused.value.got


def test_rates_are_read_from_a_file(tmp_path):
    file = tmp_path / "rates.json"
    file.write_text(json.dumps([{"type": "Inc", "key": 1, "rate": 2}]))
    assert read_rates(key_counter, str(file)).loads == (Load(take(Inc, key=1), 2, "local"),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "rates can't be read from"),
        ('{"type": "Inc"}', "is not a list of rates"),
        ("[]", "there are no rates"),
        ('["Inc"]', "a rate can't be read"),
    ],
)
def test_a_file_that_holds_no_rates_is_refused(tmp_path, text, what):
    file = tmp_path / "rates.json"
    file.write_text(text)
    with pytest.raises(InputError, match=what):
        read_rates(key_counter, str(file))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="rates can't be read from"):
        read_rates(key_counter, str(tmp_path / "none.json"))


# Sampled.


def test_a_sample_is_counted_by_event_type_channel_and_key():
    # Five events in the five units of time from 1 to 5.
    assert sample_rates(key_counter, [*counter.events, Heartbeat(9, "a")]).loads == (
        Load(take(Inc, key=1, channel="a"), 0.2, "a"),
        Load(take(Inc, key=2, channel="a"), 0.2, "a"),
        Load(take(Read, key=1, channel="reads"), 0.4, "reads"),
        Load(take(Inc, key=2, channel="b"), 0.2, "b"),
    )


def test_a_event_type_without_the_key_is_counted_whole():
    events = [Event(Metered(1, 7, 3), "a", 0), Event(Month(4), "b", 0)]
    assert sample_rates(calendar, events).loads == (
        Load(take(Metered, meter=7, channel="a"), 0.25, "a"),
        Load(take(Month, channel="b"), 0.25, "b"),
    )


def test_more_keys_than_wanted_share_shards():
    events = [Event(Inc(t, key=t), "a", t) for t in range(10)]
    alone = sample_rates(key_counter, events, most_keys=10)
    assert [load.slice for load in alone.loads] == [
        take(Inc, key=t, channel="a") for t in range(10)
    ]
    shared = sample_rates(key_counter, events, most_keys=9, shards=2)
    homes = [hash_stably(t) % 2 for t in range(10)]
    assert {load.slice: load.rate for load in shared.loads} == {
        take(Inc, key=Shard(n, 2), channel="a"): pytest.approx(homes.count(n) / 10) for n in (0, 1)
    }


def test_the_rates_of_a_sample_add_up_to_its_own():
    events = [Event(Inc(t, key=t % 3), f"s{t % 4}", t) for t in range(100)]
    assert sample_rates(key_counter, events).total == pytest.approx(1)


def test_an_empty_sample_is_refused():
    with pytest.raises(InputError, match="there are no events to sample rates from"):
        sample_rates(key_counter, [Heartbeat(1, "a")])


# Measured.


def test_a_progress_gives_each_channel_to_the_event_type_it_names():
    progress = {
        "sources": [
            {"description": "FileStreamSource[values]", "inputRowsPerSecond": 900.0},
            {"description": "FileStreamSource[barrier]", "processedRowsPerSecond": 9.0},
        ]
    }
    assert measure_rates(value_barrier, progress).loads == (
        Load(take(Value), 900, "local"),
        Load(take(Barrier), 9, "local"),
    )


def test_a_channel_that_names_no_event_type_is_shared_by_all():
    progress = {"sources": [{"description": "Kafka[all]", "inputRowsPerSecond": 10.0}]}
    assert measure_rates(value_barrier, progress).loads == (
        Load(take(Value), 5, "local"),
        Load(take(Barrier), 5, "local"),
    )


def test_channels_of_one_event_type_are_added_up():
    progress = {
        "sources": [{"description": "value 1", "inputRowsPerSecond": 3}, {"description": "value 2"}]
    }
    assert measure_rates(value_barrier, progress).loads == (Load(take(Value), 3, "local"),)


def test_the_longest_name_that_begins_a_word_is_meant():
    class Reader(NamedTuple):
        time: int

    program = Program(on(Read), on(Reader), depends(Read, Reader), init=None)
    progress = {"sources": [{"description": "Kafka[readers]", "inputRowsPerSecond": 8.0}]}
    assert measure_rates(program, progress).loads == (Load(take(Reader), 8, "local"),)


def test_a_file_of_a_query_s_progress_is_read_as_rates(tmp_path):
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"sources": [{"description": "values", "inputRowsPerSecond": 7}]}))
    assert read_rates(value_barrier, str(file)).loads == (Load(take(Value), 7, "local"),)


def test_a_progress_without_channels_is_refused():
    with pytest.raises(InputError, match="the progress names no sources") as refused:
        measure_rates(value_barrier, {"batchId": 1})
    assert refused.value.got == "batchId"


# Spread.


def test_a_hot_slice_gets_as_many_lanes_as_it_needs():
    rates = Rates([Load(take(Value, channel="a"), 250, "m"), Load(take(Barrier), 1, "m")])
    assert spread_hot(value_barrier, rates, 100).loads == (
        *(Load(take(Value, channel="a", lane=Shard(n, 3)), 250 / 3, "m") for n in range(3)),
        Load(take(Barrier), 1, "m"),
    )


def test_what_fits_is_left_alone():
    rates = Rates([Load(take(Value), 100), Load(take(Barrier), 1)])
    assert spread_hot(value_barrier, rates, 100) == rates


def test_what_orders_itself_is_not_spread():
    rates = Rates([Load(take(Reading, sensor="roof"), 1e9), Load(take(Reading), 1)])
    assert spread_hot(ewma, rates, 100) == rates


def test_a_lane_is_not_cut_again():
    rates = Rates([Load(take(Value, lane=Shard(0, 2)), 1e9)])
    assert spread_hot(value_barrier, rates, 100) == rates


def test_canonical_lanes_bound_the_spreading():
    rates = Rates([Load(take(Metered), 1e9)])
    assert [load.slice for load in spread_hot(laned, rates, 100).loads] == [
        take(Metered, lane=Shard(n, 4)) for n in range(4)
    ]


@pytest.mark.parametrize(
    ("program", "fields"),
    [(value_barrier, ()), (key_counter, ("key",)), (calendar, ("meter",)), (laned, ())],
)
def test_partition_fields_are_those_some_dependence_asks_for(program, fields):
    assert partition_fields(program) == fields
