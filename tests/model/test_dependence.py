from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Dependence, Event, Program, Shard, depends, on, take
from anabranch.state import MapOf, Sum


class Inc(NamedTuple):
    time: int
    key: int
    user: int


class Read(NamedTuple):
    time: int
    key: int
    user: int


class Report(NamedTuple):
    time: int


EVENT_TYPES = (Inc, Read, Report)
by_key = Dependence(
    EVENT_TYPES, [depends(Read, Inc, Read, same="key"), depends(Report, *EVENT_TYPES)]
)

statements = st.lists(
    st.builds(
        lambda a, b, same: depends(a, b, same=same),
        st.sampled_from([Inc, Read]),
        st.sampled_from([Inc, Read]),
        st.sets(st.sampled_from(["key", "user"])),
    ),
    max_size=3,
)
data = st.builds(
    lambda event_type, key, user: event_type(1, key, user),
    st.sampled_from([Inc, Read]),
    st.integers(0, 2),
    st.integers(0, 2),
)


def test_a_read_depends_on_its_own_key_only():
    assert by_key.depend(Read(1, 7, 0), Inc(2, 7, 0))
    assert by_key.independent(Read(1, 7, 0), Inc(2, 8, 0))
    assert by_key.independent(Inc(1, 7, 0), Inc(2, 7, 0))


def test_a_report_depends_on_everything():
    assert all(by_key.depend(Report, event_type) for event_type in EVENT_TYPES)


def test_event_types_may_depend_if_some_of_their_events_do():
    assert by_key.depend(Read, Inc)
    assert by_key.independent(Inc, Inc)


@given(statements, data, data)
def test_dependence_is_symmetric(given_statements, a, b):
    relation = Dependence(EVENT_TYPES, given_statements)
    assert relation.depend(a, b) == relation.depend(b, a)
    assert relation.depend(type(a), b) == relation.depend(b, type(a))


@given(statements, data, data)
def test_two_events_depend_if_some_statement_says_so(given_statements, a, b):
    emitted = any(
        {type(a), type(b)} == {s.event_type, *s.others}
        and all(getattr(a, field) == getattr(b, field) for field in s.same)
        for s in given_statements
    )
    relation = Dependence(EVENT_TYPES, given_statements)
    assert relation.depend(a, b) == emitted
    assert relation.depend(Event(a, "x", 1), Event(b, "y", 2)) == emitted


@given(statements, data, data, st.integers(1, 4))
def test_slices_depend_if_they_may_hold_dependent_events(given_statements, a, b, count):
    relation = Dependence(EVENT_TYPES, given_statements)
    if relation.depend(a, b):
        for shard_a in range(count):
            for shard_b in range(count):
                x = take(type(a), key=Shard(shard_a, count))
                y = take(type(b), key=Shard(shard_b, count))
                if x.covers(Event(a)) and y.covers(Event(b)):
                    assert relation.depend(x, y)


def test_slices_of_different_keys_are_independent():
    assert by_key.independent(take(Inc, key=1), take(Read, key=2))
    assert by_key.independent(take(Inc, key=Shard(0, 2)), take(Read, key=Shard(3, 4)))
    assert by_key.depend(take(Inc, key=Shard(1, 2)), take(Read, key=Shard(3, 4)))


def test_channels_do_not_make_dependent_event_types_independent():
    assert by_key.depend(take(Inc, channel="a"), take(Read, channel="b"))


def test_a_weaker_statement_is_contained_in_a_stronger_one():
    both = Dependence(EVENT_TYPES, [depends(Inc, Read, same=("key", "user")), depends(Inc, Read)])
    assert both == Dependence(EVENT_TYPES, [depends(Inc, Read)])
    assert both.restrictions(Read, Inc) == {()}


def test_two_restrictions_stand_side_by_side():
    either = Dependence(
        EVENT_TYPES, [depends(Inc, Read, same="key"), depends(Read, Inc, same="user")]
    )
    assert either.restrictions(Inc, Read) == {("key",), ("user",)}
    assert either.depend(Inc(1, 1, 1), Read(1, 2, 1))
    assert either.independent(Inc(1, 1, 1), Read(1, 2, 2))


def test_neighbours_are_the_event_types_it_depends_on():
    assert by_key.neighbours(Report) == EVENT_TYPES
    assert by_key.neighbours(Inc) == (Read, Report)


def test_components_run_apart():
    keys = Dependence(EVENT_TYPES, [depends(Read, Inc, Read, same="key")])
    slices = [take(Inc, key=1), take(Read, key=1), take(Inc, key=2), take(Read, key=2)]
    assert keys.components(slices) == (frozenset(slices[:2]), frozenset(slices[2:]))
    assert keys.components() == (frozenset({Inc, Read}), frozenset({Report}))


def test_events_that_depend_on_nothing_are_components_of_their_own():
    parts = [take(Inc, channel=name) for name in "abc"]
    assert by_key.components(parts) == tuple(frozenset({part}) for part in parts)


def test_a_relation_reads_as_its_pairs():
    assert repr(by_key) == (
        "Dependence(Inc–Read same key; Read–Read same key; Inc–Report; Read–Report; Report–Report)"
    )
    assert repr(Dependence(EVENT_TYPES, [])) == "Dependence(none)"


def test_equal_relations_hash_alike():
    again = Dependence(EVENT_TYPES, [depends(Report, *EVENT_TYPES), depends(Inc, Read, same="key")])
    assert again != by_key
    more = Dependence(
        EVENT_TYPES,
        [
            depends(Report, *EVENT_TYPES),
            depends(Inc, Read, same="key"),
            depends(Read, Read, same="key"),
        ],
    )
    assert more == by_key
    assert hash(more) == hash(by_key)


def test_lanes_keep_events_of_one_lane_in_order():
    program = Program(
        on(Inc, update=lambda total, inc: total + 1.0),
        on(Read, output=lambda total, read: total),
        depends(Read, Inc, Read, same="key"),
        state=MapOf(Sum(0.0), by="key"),
        lanes=2,
    )
    relation = program.dependence
    same_lane = [Event(Inc(1, 7, 0), "a", seq) for seq in (0, 2)]
    other_lane = Event(Inc(1, 7, 0), "a", 1)
    other_key = Event(Inc(1, 8, 0), "a", 2)
    assert relation.depend(*same_lane)
    assert relation.independent(same_lane[0], other_lane)
    assert relation.independent(same_lane[0], other_key)
    assert relation.depend(take(Inc, channel="a"), take(Inc, channel="b"))
    assert relation.independent(take(Inc, lane=0), take(Inc, lane=1))
    assert program.markers == (Read,)


@pytest.mark.parametrize("lanes", [1, 3])
def test_lanes_are_part_of_the_relation(lanes):
    relation = Dependence(EVENT_TYPES, [depends(Inc, Inc, same="@lane")], lanes)
    assert relation.depend(Event(Inc(1, 1, 1), "a", 0), Event(Inc(1, 1, 1), "a", 1)) == (lanes == 1)
