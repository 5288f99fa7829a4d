"""A value, the latest of many, a dictionary: what may be cut keeps its laws, and what may not says so."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map, Program, Slices, depends, on
from anabranch.model.shapes import MISSING, Shape
from anabranch.state import (
    Count,
    Dictionary,
    Latest,
    ListOf,
    MapOf,
    Max,
    Mean,
    Replicated,
    Struct,
    Sum,
    Value,
)
from anabranch.state.durable.codec import Codec, CodecError, make_codec
from anabranch.state.numbers import Average
from anabranch.state.value_order import is_written_alike, write_canonically
from tests.state.laws import check_laws, fold, read

NAN = float("nan")


class Seen(NamedTuple):
    time: int
    place: str | float | bool | None


class Tick(NamedTuple):
    time: int
    key: int


items = st.builds(
    Seen, st.integers(0, 3), st.sampled_from(["a", "b", 1.0, True, None, NAN, 0.0, -0.0])
)
three_parts = st.lists(st.lists(items, max_size=5), min_size=3, max_size=3)


# --- value ------------------------------------------------------------------------------------


def test_a_value_is_replaced_and_can_not_be_cut():
    door = Value("closed")
    assert isinstance(door, Shape)
    assert (door.init, door.add("closed", "open"), door.value("open")) == ("closed", "open", "open")
    assert (door.fork, door.join, door.zero) == (None, None, MISSING)
    assert door.same(NAN, float("nan"))
    assert not door.same("open", "closed")


def test_a_value_of_another_record_than_it_starts_with_is_stored_if_it_is_named():
    def build(state):
        program = Program(
            on(Tick, update=lambda s, e: Seen(e.time, None)), depends(Tick, Tick), state=state
        )
        return make_codec(program)

    state = Seen(3, "here")
    for shape in (
        Value(of=Seen),
        MapOf(Value(of=Seen | None), by="key"),
        Struct(last=Value(of=Seen)),
    ):
        codec = build(shape)
        assert codec.decode(codec.encode(state)) == state
    with pytest.raises(CodecError):
        build(Value()).encode(state)


# --- latest -----------------------------------------------------------------------------------


@given(three_parts, st.integers())
def test_laws_of_the_latest(parts, seed):
    parts = [[item for item in part if item.place == item.place] for part in parts]
    check_laws(Latest(), parts, seed, [Seen])


@given(st.lists(items))
def test_the_latest_is_the_one_with_the_largest_time(seen):
    latest = read(Latest(), seen)
    assert (latest and latest.time) == max((item.time for item in seen), default=None)


def test_the_latest_of_two_at_one_time_does_not_depend_on_who_came_first():
    a, b = Seen(1, "a"), Seen(1, "b")
    assert read(Latest(), [a, b]) == read(Latest(), [b, a]) == b
    assert read(Latest(lambda seen: -seen.time), [Seen(1, "a"), Seen(2, "b")]) == Seen(1, "a")


def test_a_place_without_an_order_is_refused():
    with pytest.raises(ValueError, match="sort key that has an order, got nan"):
        Latest("place").add(None, Seen(1, NAN))


# --- dictionary -------------------------------------------------------------------------------


class Names:
    """A dictionary that pairs are added to, for the laws."""

    def __init__(self, inner):
        self.shape = Dictionary(inner)

    def __getattr__(self, name):
        return getattr(self.shape, name)

    def add(self, state, pair):
        return self.shape.add(state, *pair)


pairs = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3)), max_size=5),
    min_size=3,
    max_size=3,
)


@pytest.mark.parametrize("inner", [Count(), Sum(), Max(), Mean(), ListOf(ordered_by=abs, last=2)])
@given(parts=pairs, seed=st.integers())
def test_laws_of_dictionaries(inner, parts, seed):
    check_laws(Names(inner), parts, seed, [Average])


def test_a_dictionary_says_what_each_of_its_states_says():
    means = Dictionary(Mean())
    state = means.add(means.add(means.init, "b", 3), "b", 4)
    state = means.add(state, "a", 7)
    assert means.value(state) == {"a": 7.0, "b": 3.5}
    assert list(means.value(state)) == ["a", "b"]
    assert (means.get(state, "b"), means.get(state, "c")) == (3.5, None)
    assert means.records == (Average, Average)


def test_the_last_writer_wins_in_a_dictionary_of_values():
    settings = Dictionary()
    state = settings.add(settings.add(settings.init, "colour", "red"), "colour", "blue")
    assert settings.value(state) == {"colour": "blue"}
    assert (settings.zero, settings.fork, settings.join) == (MISSING, None, None)
    assert settings.same(Map({"size": None}), Map())
    assert not settings.same(Map({"size": 1}), Map())


def test_a_dictionary_may_be_cut_if_its_states_may():
    counts = Dictionary(Count())
    assert counts.fork(Map({"a": 1}), Slices(), Slices()) == (Map({"a": 1}), Map())
    assert Dictionary(ListOf()).fork is None


def test_the_records_of_a_dictionary_in_a_struct_are_known():
    program = Program(
        on(Tick, update=lambda s, e: s),
        depends(Tick, Tick),
        state=Struct(names=Dictionary(Mean())),
    )
    codec = make_codec(program)
    state = Map({"a": Average(1, 2)})
    assert codec.decode(codec.encode(state)) == state


# --- maps that can't be folded from zero --------------------------------------------------------


@pytest.mark.parametrize("inner", [Value(), Replicated(), ListOf(), MapOf(Value(), by="user")])
def test_a_map_has_no_zero_if_its_entries_have_none(inner):
    assert MapOf(inner, by="key").zero is MISSING
    assert MapOf(Count(), by="key").zero == Map()


# --- one order for all --------------------------------------------------------------------------


def test_what_compares_as_equal_and_is_written_apart_is_told_apart():
    assert len({write_canonically(value) for value in (1, 1.0, True)}) == 3
    assert write_canonically(Seen(1, "a")) == Codec([Seen]).encode(Seen(1, "a"))
    assert is_written_alike((NAN,), (float("nan"),))
    assert not is_written_alike((1,), (2,))


@given(st.lists(items, max_size=4))
def test_folds_of_a_value_keep_the_last(seen):
    shape = Value()
    state = shape.init
    for item in seen:
        state = shape.add(state, item)
    assert shape.value(state) is (seen[-1] if seen else None)
    assert fold(Latest(), seen) is None or seen
