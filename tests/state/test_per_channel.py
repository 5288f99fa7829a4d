"""States per source: each source has an entry, and a fork gives it to who gets the source's events."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Map, Program, Slices, depends, on, take
from anabranch.eventtime.channels import end_sources
from anabranch.laws import check
from anabranch.laws.proving.proof import prove
from anabranch.model.slices import field_value
from anabranch.reference.sequential import run
from anabranch.state import Count, MapOf, Max, PerSource


class Row(NamedTuple):
    time: int
    offset: int


class Report(NamedTuple):
    time: int


def build(inner=None):
    return Program(
        on(Row, update=lambda top, row: Max().add(top, row.offset)),
        on(Report, whole=True, output=lambda tops, report: dict(tops)),
        depends(Report, Row, Report),
        state=PerSource(inner or Max()),
    )


sources = st.sampled_from(["a", "b", "c"])
states = st.dictionaries(sources, st.integers(0, 5)).map(Map)
sides = st.builds(
    Slices,
    st.lists(
        st.builds(lambda s: take(Row, source=s), st.none() | sources) | st.just(Report), max_size=3
    ),
)


def test_each_source_has_its_own_and_a_report_sees_all():
    items = [
        Event(Row(1, 5), "a", 0),
        Event(Row(2, 7), "b", 0),
        Event(Row(3, 6), "a", 1),
        Event(Report(4), "c", 0),
    ]
    answer = run(build(), end_sources(items))
    assert answer.values == [{"a": 6, "b": 7}]
    assert answer.state == Map({"a": 6, "b": 7})


@given(states, sides, sides)
def test_a_fork_gives_the_entry_of_a_source_to_who_gets_its_events(state, left, right):
    shape = PerSource(Count())
    a, b = shape.fork(state, left, right)
    assert shape.same(shape.join(a, b), state)
    for source in state:
        comes_left, comes_right = (
            any(part.tag is Row and part.source in (None, source) for part in side)
            or any(part.tag is Report for part in side)
            for side in (left, right)
        )
        assert (source in a) == comes_left
        assert (source in b) == (comes_right or not comes_left)


def test_a_side_is_narrowed_to_a_source():
    side = Slices([take(Row, source="a"), take(Row, source="b"), take(Report)])
    assert side.narrow("@source", "a") == Slices([take(Row, source="a"), take(Report)])
    assert field_value(Event(Row(1, 2), "a", 3), "@source", None) == "a"


@pytest.mark.parametrize("shape", [PerSource(Max()), MapOf(PerSource(Max()), by="offset")])
def test_the_laws_hold(shape):
    program = Program(
        on(Row, update=lambda top, row: Max().add(top, row.offset)),
        on(Report, whole=True, output=lambda tops, report: list(tops)),
        depends(Report, Row, Report),
        state=shape,
    )
    assert check(program, cases=60, seed=1).ok


def test_a_proof_says_that_it_knows_nothing_of_sources():
    assert "PerSource" in str(prove(build()))
