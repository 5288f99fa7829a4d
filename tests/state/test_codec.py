"""What a state is written as must be read back as it was, and nothing else may be read."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map, Program, depends, on
from anabranch.state import Count, ExactSum, MapOf, Max, Struct, TopK
from anabranch.state.codec import Codec, CodecError, make_codec


class Colour(Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    colour: Colour


@dataclass(frozen=True)
class Path:
    points: tuple[Point, ...]


class Tick(NamedTuple):
    time: int
    key: str


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
hashables = scalars | st.tuples(scalars) | st.frozensets(scalars, max_size=3)
values = st.recursive(
    hashables | st.builds(Point, st.integers(), st.sampled_from(Colour)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.dictionaries(hashables, inner, max_size=3).map(Map)
    ),
    max_leaves=8,
)


@given(values)
def test_every_value_is_read_back_with_its_type(value):
    codec = Codec([Point])
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)


@given(st.dictionaries(st.integers() | st.text(), st.integers(), max_size=6), st.randoms())
def test_equal_maps_are_equal_bytes_whatever_their_order(entries, rng):
    shuffled = list(entries.items())
    rng.shuffle(shuffled)
    codec = Codec()
    assert codec.encode(Map(shuffled)) == codec.encode(Map(entries))
    assert codec.encode(frozenset(entries)) == codec.encode(frozenset(dict(shuffled)))


@pytest.mark.parametrize(
    "value",
    [
        2**200,
        -(2**63) - 1,
        Decimal("1.10"),
        Fraction(1, 3),
        date(2024, 2, 29),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
        Path((Point(1, Colour.RED),)),
        {1, 2},
    ],
)
def test_special_values_keep_their_type(value):
    codec = Codec([Path])
    back = codec.decode(codec.encode(value))
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize("shape", [
    MapOf(Struct(seen=Count(), top=Max(), total=ExactSum(), best=TopK(2)), by="key"),
    Struct(seen=Count(), top=Max()),
])  # fmt: skip
def test_a_program_s_own_states_are_known_to_its_codec(shape):
    program = Program(on(Tick), depends(Tick, Tick), state=shape)
    codec = make_codec(program)
    inner = shape.inner if isinstance(shape, MapOf) else shape
    full = inner.add(inner.init, seen=1, top=3)
    state = Map({"a": full}) if isinstance(shape, MapOf) else full
    assert codec.decode(codec.encode(state)) == state


def test_a_record_that_nobody_named_is_refused_when_written():
    with pytest.raises(CodecError, match="holds a Point, which has no durable form"):
        Codec().encode(Point(1, Colour.RED))


def test_a_record_that_the_program_does_not_know_is_refused_when_read():
    data = Codec([Point]).encode(Point(1, Colour.RED))
    with pytest.raises(CodecError, match="name a record 'Point', which the program has not"):
        Codec().decode(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", Codec().encode((1, 2))[:-1], b"\x91\xa1?"])
def test_bytes_that_are_no_value_are_refused(data):
    with pytest.raises(CodecError):
        Codec().decode(data)


def test_an_object_is_refused_with_what_to_do():
    with pytest.raises(CodecError, match="annotate the record's fields"):
        Codec().encode(object())
