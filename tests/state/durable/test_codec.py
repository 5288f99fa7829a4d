"""What a state is written as must be read back as it was, and nothing else may be read."""

import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map, Program, depends, on
from anabranch.state import Count, ExactSum, MapOf, Max, Struct, TopK
from anabranch.state.durable.codec import Codec, CodecError, make_codec
from anabranch.state.durable.durable_names import is_pickle
from tests.state.values import CODEC, EXAMPLES, spell
from tests.state.values import values as every_value


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


@given(every_value)
def test_every_value_of_every_kind_is_read_back_to_the_bit(value):
    assert spell(CODEC.decode(CODEC.encode(value))) == spell(value)


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_values_at_the_edges_are_read_back_to_the_bit(value):
    for one in (value, [value], {"k": value}):
        assert spell(CODEC.decode(CODEC.encode(one))) == spell(one)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("92a154b9323032342d30322d32395431323a30303a30302b30303a3030", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("92a159aa323032342d30322d3239", date(2024, 2, 29)),
        ("92a169b43132333435363738393031323334353637383930", 12345678901234567890),
        ("92a144a4312e3130", Decimal("1.10")),
        ("93a165a6436f6c6f7572a3524544", Colour.RED),
    ],
)  # fmt: skip
def test_bytes_of_earlier_releases_stay_readable_and_as_they_were(data, value):
    codec = Codec([Colour])
    assert codec.decode(bytes.fromhex(data)) == value
    assert codec.encode(value).hex() == data


def test_two_arrays_that_are_equal_are_equal_bytes_however_they_lie_in_memory():
    array = np.arange(6).reshape(2, 3)
    assert Codec().encode(array) == Codec().encode(np.asfortranarray(array))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [None, {"a": [1, 2.5]}, "text", Colour.RED, b"x" * 300])
def test_a_pickle_is_refused_by_name(value, protocol):
    data = pickle.dumps(value, protocol)
    assert is_pickle(data)
    with pytest.raises(CodecError, match="are a pickle, which may run code"):
        Codec([Colour]).decode(data)


def test_a_pickle_is_known_by_its_head_or_by_all_of_it():
    assert is_pickle(pickle.dumps({"a": 1})[:-3])
    assert is_pickle(b"N.")
    assert not is_pickle(b"N.x")
    assert not is_pickle(b"")


@given(values)
def test_what_the_codec_writes_is_not_taken_for_a_pickle(value):
    codec = Codec([Point])
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (["A", "|O", [1], b"12345678"], "an array of objects"),
        (["A", "<f8", [1000], b"12345678"], "does not match its shape"),
        (["A", "<f8", [-1], b""], "does not match its shape"),
        (["T", "2024-01-01T00:00:00", "Mars/Olympus", 0], "no time zone 'Mars/Olympus'"),
        (["T", "2024-01-01T00:00:00", "../../etc/passwd", 0], "no time zone"),
        (["U", b"short"], "can't be read"),
        ([], "can't be read"),
        ({}, "can't be read"),
    ],
)
def test_bytes_that_somebody_made_up_are_refused(data, what):
    with pytest.raises(CodecError, match=what):
        Codec().decode(msgspec.msgpack.encode(data))


def test_bytes_that_go_down_without_end_are_refused():
    with pytest.raises(CodecError):
        Codec().decode(b"\x92\xa1l" * 100_000 + b"\x01")


class Elsewhere(tzinfo):
    """A zone with no name that another process would know."""


def test_a_zone_without_a_name_is_refused(message):
    with pytest.raises(CodecError) as caught:
        Codec().encode(datetime(2024, 1, 1, tzinfo=Elsewhere()))
    message("state_of_a_zone_without_a_name", str(caught.value))


def test_the_refusal_of_a_pickle(message):
    with pytest.raises(CodecError) as caught:
        Codec().decode(pickle.dumps({"a": 1}))
    message("state_that_is_a_pickle", str(caught.value))


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
    with pytest.raises(CodecError, match="contains a Point, which has no durable form"):
        Codec().encode(Point(1, Colour.RED))


def test_a_record_that_the_program_does_not_know_is_refused_when_read():
    data = Codec([Point]).encode(Point(1, Colour.RED))
    with pytest.raises(CodecError, match="name a record 'Point', which the program does not have"):
        Codec().decode(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", Codec().encode((1, 2))[:-1], b"\x91\xa1?"])
def test_bytes_that_are_no_value_are_refused(data):
    with pytest.raises(CodecError):
        Codec().decode(data)


def test_an_object_is_refused_with_what_to_do():
    with pytest.raises(CodecError, match="annotate the record's fields"):
        Codec().encode(object())
