from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch import Event, Heartbeat
from anabranch.model.events import content_of, field_names, field_types, spread


class Point(NamedTuple):
    time: int
    x: float


@dataclass(frozen=True)
class Letter:
    time: int
    text: str


@dataclass(frozen=True)
class Unreadable:
    time: int
    other: "Nowhere"  # noqa: F821 - what can't be resolved is the point


def test_the_class_is_the_event_type():
    assert Event(Point(1, 2.0)).event_type is Point
    assert Event(Letter(1, "a")).event_type is Letter


def test_an_event_has_the_time_of_its_fields():
    assert Event(Letter(7, "a"), "post", 3).time == 7


def test_an_event_without_circumstances_comes_from_the_input():
    assert Event(Point(1, 2.0)) == (Point(1, 2.0), "input", None)
    assert Heartbeat(1) == (1, "input", None)


def test_fields_are_read_from_both_kinds_of_event_type():
    assert field_names(Point) == ("time", "x")
    assert field_names(Letter) == ("time", "text")
    assert field_types(Point) == {"time": int, "x": float}
    assert field_types(Letter) == {"time": int, "text": str}


def test_a_type_that_can_not_be_resolved_may_be_anything():
    assert field_types(Unreadable) == {"time": Any, "other": Any}


def test_a_sequence_is_spread_evenly():
    lanes = [spread(Event(Point(1, 0.0), "a", n)) % 4 for n in range(400)]
    assert {lane: lanes.count(lane) for lane in range(4)} == dict.fromkeys(range(4), 100)


def test_spread_depends_on_the_event_alone():
    # Fixed numbers: lanes are part of what is stored.
    assert spread(Event(Point(5, 1.0), "a", 3)) == spread(Event(Point(9, 7.0), "a", 3))
    assert spread(Event(Point(1, 1.5), "a", 3)) == 3904355910
    assert spread(Event(Point(1, 1.5), "a")) == 6573349292


def test_content_tells_events_without_sequence_apart():
    assert content_of(Event(Point(1, 2.0))) == "Point(time=1, x=2.0)"
    assert spread(Event(Point(1, 2.0))) != spread(Event(Point(1, 3.0)))
