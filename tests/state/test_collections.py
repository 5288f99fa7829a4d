"""The laws that every state of many values keeps; above all, that nothing is lost in a fork."""

import pickle
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map, Shard, Slices, take
from anabranch.model.shapes import MISSING, Shape, WrittenShape
from anabranch.state import Count, MapOf, Max, Min, Replicated, SetOf, Struct, Sum, TopK


class Inc(NamedTuple):
    time: int
    key: int


class Read(NamedTuple):
    time: int
    key: int


class Report(NamedTuple):
    time: int


integers = st.integers(-5, 5)
shards = st.integers(1, 3).flatmap(lambda n: st.builds(Shard, st.integers(0, n - 1), st.just(n)))
slices = st.builds(
    lambda event_type, key, channel: take(
        event_type, channel=channel, **({} if key is None else {"key": key})
    ),
    st.sampled_from([Inc, Read]),
    st.none() | st.integers(0, 4) | shards,
    st.sampled_from([None, "a", "b"]),
)
sides = st.builds(Slices, st.lists(slices | st.just(take(Report)), max_size=3))

stats = Struct(seen=Count(), top=Max(), low=Min())


def maps_of(entries):
    return st.dictionaries(st.integers(0, 4), entries).map(Map)


COLLECTIONS: dict[str, tuple[Any, st.SearchStrategy]] = {
    "top two": (TopK(2), st.lists(integers, max_size=2).map(lambda s: tuple(sorted(s)[::-1]))),
    "set": (SetOf(), st.frozensets(integers)),
    "struct": (
        stats,
        st.builds(lambda *s: stats.init._make(s), st.integers(0, 9), integers, integers),
    ),
    "map of sums": (MapOf(Sum(), by="key"), maps_of(integers)),
    "map of maxima": (MapOf(Max(), by="key"), maps_of(st.none() | integers)),
    "map of sets": (MapOf(SetOf(), by="key"), maps_of(st.frozensets(integers))),
    "map of maps": (MapOf(MapOf(Count(), by="user"), by="key"), maps_of(maps_of(integers))),
}

every_collection = pytest.mark.parametrize("name", COLLECTIONS)


@every_collection
@given(data=st.data())
def test_joining_with_zero_changes_nothing(name, data):
    shape, states = COLLECTIONS[name]
    state = data.draw(states)
    assert shape.same(shape.join(state, shape.zero), state)
    assert shape.same(shape.join(shape.zero, state), state)


@every_collection
@given(data=st.data())
def test_join_is_associative(name, data):
    shape, states = COLLECTIONS[name]
    a, b, c = (data.draw(states) for _ in range(3))
    assert shape.same(shape.join(shape.join(a, b), c), shape.join(a, shape.join(b, c)))


@every_collection
@given(data=st.data(), left=sides, right=sides)
def test_join_undoes_fork_whatever_goes_where(name, data, left, right):
    shape, states = COLLECTIONS[name]
    state = data.draw(states)
    assert shape.same(shape.join(*shape.fork(state, left, right)), state)


@pytest.mark.parametrize("name", ["top two", "set"])
@given(data=st.data(), value=integers)
def test_adding_passes_through_join(name, data, value):
    shape, states = COLLECTIONS[name]
    a, b = data.draw(states), data.draw(states)
    assert shape.same(shape.join(shape.add(a, value), b), shape.add(shape.join(a, b), value))


@every_collection
def test_each_is_a_shape(name):
    assert isinstance(COLLECTIONS[name][0], Shape)


# --- map of -----------------------------------------------------------------------------------


@given(maps_of(integers), sides, sides)
def test_a_fork_of_a_map_gives_each_key_to_some_side(state, left, right):
    a, b = MapOf(Sum(), by="key").fork(state, left, right)
    assert set(a) | set(b) == set(state)


@given(maps_of(integers), sides, sides)
def test_a_key_lies_where_its_events_come(state, left, right):
    a, b = MapOf(Sum(), by="key").fork(state, left, right)
    for key in state:
        assert (key in a) == left.has_value("key", key)
        assert (key in b) == (right.has_value("key", key) or not left.has_value("key", key))


def test_a_key_of_neither_side_stays_on_the_right():
    left, right = MapOf(Sum(), by="key").fork(
        Map({1: 10, 2: 20, 3: 30}), Slices([take(Inc, key=1)]), Slices([take(Inc, key=2)])
    )
    assert (left, right) == (Map({1: 10}), Map({2: 20, 3: 30}))


def test_a_key_of_both_sides_is_forked_itself():
    both = Slices([take(Inc, channel="a")]), Slices([take(Inc, channel="b")])
    assert MapOf(Sum(), by="key").fork(Map({1: 10}), *both) == (Map({1: 10}), Map({1: 0}))
    assert MapOf(Replicated(), by="key").fork(Map({1: "x"}), *both) == (
        Map({1: "x"}),
        Map({1: "x"}),
    )


def test_an_entry_that_can_not_be_forked_goes_to_one_side():
    both = Slices([take(Inc, channel="a")]), Slices([take(Inc, channel="b")])
    uncut = MapOf(WrittenShape(init=0), by="key")
    assert uncut.fork(Map({1: 10}), *both) == (Map({1: 10}), Map())


def test_an_absent_entry_is_one_that_has_just_started():
    sums = MapOf(Sum(), by="key")
    assert sums.same(Map({1: 0, 2: 5}), Map({2: 5}))
    assert not sums.same(Map({1: 1}), Map())
    tens = MapOf(Max(10), by="key")
    assert tens.same(Map({1: 10}), Map())


@given(maps_of(st.lists(integers)), maps_of(st.lists(integers)))
def test_a_join_keeps_left_before_right(a, b):
    joined = MapOf(WrittenShape(init=[], join=lambda x, y: x + y), by="key").join(a, b)
    assert joined == {key: a.get(key, []) + b.get(key, []) for key in {*a, *b}}


# --- top k, set, struct, replicated ------------------------------------------------------------


@given(st.lists(integers), st.integers(1, 4))
def test_top_k_keeps_the_largest(values, k):
    state = TopK(k).init
    for value in values:
        state = TopK(k).add(state, value)
    assert TopK(k).value(state) == tuple(sorted(values, reverse=True)[:k])


def test_a_set_that_has_the_value_is_the_same_set():
    one = frozenset({1})
    assert SetOf().add(one, 1) is one
    assert SetOf().value(SetOf().add(one, 2)) == {1, 2}


def test_a_struct_is_changed_field_by_field():
    assert stats.add(stats.init, seen=1, low=4) == (1, None, 4)
    assert stats.join(stats.add(stats.init, top=4), stats.add(stats.init, seen=2)) == (2, 4, None)


def test_a_struct_can_do_what_all_its_fields_can():
    assert stats.zero == (0, None, None)
    assert Struct(rule=Replicated()).zero is MISSING
    assert Struct(rule=Replicated(7), seen=Count()).fork((7, 3), Slices(), Slices()) == (
        (7, 3),
        (7, 0),
    )
    uncut = Struct(last=WrittenShape(init=0), seen=Count())
    assert (uncut.fork, uncut.join) == (None, None)


def test_structs_of_equal_fields_are_equal():
    again = Struct(seen=Count(), top=Max(), low=Min())
    assert again == stats
    assert hash(again) == hash(stats)
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert repr(Struct(seen=Count())) == "Struct(seen=Count(start=0, by=None))"


def test_a_replicated_value_is_on_both_sides():
    assert Replicated(7).init == 7
    assert Replicated().fork("x", Slices(), Slices()) == ("x", "x")
    assert Replicated().join("x", "x") == "x"
