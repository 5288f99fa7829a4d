"""What a dependence lets run apart, for every example and for programs with one thing each."""

from typing import NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.plan.structure import read_structure
from examples.ewma import ewma
from examples.fraud import fraud
from examples.inc_dec import inc_dec
from examples.key_counter import key_counter
from examples.max_temperature import max_temperature
from examples.page_view import page_view
from examples.smart_home import smart_home
from examples.taxi_tips import taxi_tips
from examples.value_barrier import value_barrier
from tests.plan import programs

FORKED = {"init": 0, "fork": lambda s, left, right: (s, 0), "join": lambda a, b: a + b}


class Position(NamedTuple):
    time: int
    taxi: int
    zone: int


class Tip(NamedTuple):
    time: int
    taxi: int
    zone: int


class Hour(NamedTuple):
    time: int


def does(event_type):
    return on(event_type, update=lambda state, event: state)


def build(*statements, event_types=(Position, Tip, Hour), **options):
    named = {t for s in statements for t in (s.event_type, *s.others)}
    used = [does(event_type) for event_type in event_types if event_type in named]
    return Program(*used, *statements, **(options or FORKED))


positions = build(depends(Hour, Position, Hour), depends(Position, Position, same="taxi"))
tied_per_taxi = build(depends(Position, Tip, same="taxi"))
two_orders = build(depends(Position, Position), depends(Hour, Hour))
key_and_order = build(depends(Position, Position, same="taxi"), depends(Hour, Hour))
two_fields = build(
    depends(Position, Position, same="taxi"),
    depends(Tip, Tip, same="zone"),
    depends(Tip, Position, same="zone"),
)
two_fields_below_a_marker = build(
    depends(Position, Position, same="taxi"),
    depends(Tip, Tip, same="zone"),
    depends(Hour, Hour, Tip, Position),
)
tangled_below_a_marker = build(
    depends(Position, Position, same="taxi"),
    depends(Tip, Tip, Position, same="zone"),
    depends(Hour, Hour, Tip, Position),
)
two_keys = build(depends(Position, Position, same=("taxi", "zone")))


def names(event_types):
    return tuple(event_type.__name__ for event_type in event_types)


CASES = [
    (value_barrier, "forked", [((), ("Barrier",), ("Value",))]),
    (max_temperature, "forked", [((), ("Report",), ("Temp",))]),
    (fraud, "forked", [((), ("Rule",), ("Txn",))]),
    (taxi_tips, "forked", [((), ("Hour",), ("Tip",))]),
    (inc_dec, "forked", [((), ("Mark",), ("Inc", "Dec"))]),
    (smart_home, "forked", [((), ("Minute",), ("Temp", "Pressure"))]),
    (key_counter, "mixed", [(("key",), ("Read",), ("Inc",))]),
    (page_view, "mixed", [(("page",), ("Update",), ("View",))]),
    (ewma, "keyed", [(("sensor",), (), ("Reading",))]),
    (programs.stateless, "stateless", []),
    (programs.counted, "forked", []),
    (
        programs.calendar,
        "mixed",
        [((), ("Month",), ("Reading", "Day")), (("meter",), ("Day",), ("Reading",))],
    ),
    (programs.ordered, "sequential", []),
    (programs.unforked, "sequential", [((), ("Month",), ("Reading",))]),
    (programs.unforked_keyed, "sequential", [(("meter",), (), ("Reading",))]),
    (programs.laned, "forked", [((), ("Month",), ("Reading",))]),
    (programs.laned_per_meter, "mixed", [(("meter",), ("Day",), ("Reading",))]),
    (programs.typed, "forked", [((), ("Month",), ("Reading",))]),
    (positions, "mixed", [((), ("Hour",), ("Position",)), (("taxi",), (), ("Position",))]),
    (tied_per_taxi, "mixed", [(("taxi",), (), ("Position", "Tip"))]),
    (two_orders, "mixed", []),
    (key_and_order, "mixed", []),
    (two_fields, "sequential", []),
    (two_fields_below_a_marker, "mixed", [((), ("Hour",), ("Position", "Tip"))]),
    (tangled_below_a_marker, "sequential", [((), ("Hour",), ("Position", "Tip"))]),
    (two_keys, "keyed", [(("taxi", "zone"), (), ("Position",))]),
]


@pytest.mark.parametrize(("program", "kind", "levels"), CASES)
def test_kind_and_levels_are_read_from_the_dependence(program, kind, levels):
    structure = read_structure(program)
    assert structure.kind == kind
    assert [(x.keys, names(x.markers), names(x.below)) for x in structure.levels] == levels


@pytest.mark.parametrize(
    ("program", "roles"),
    [
        (value_barrier, {"Value": "free: any order",
                         "Barrier": "marker: waits for the events it depends on"}),
        (key_counter, {"Inc": "free: any order",
                       "Read": "marker per key: waits for the events it depends on"}),
        (ewma, {"Reading": "ordered per sensor"}),
        (smart_home, {"Temp": "free: any order", "Pressure": "ordered",
                      "Minute": "marker: waits for the events it depends on"}),
        (inc_dec, {"Inc": "free among its own, ordered with Dec",
                   "Dec": "free among its own, ordered with Inc",
                   "Mark": "marker: waits for the events it depends on"}),
        (programs.calendar, {"Reading": "free: any order",
                             "Day": "marker per meter: waits for the events it depends on",
                             "Month": "marker: waits for the events it depends on"}),
        (programs.laned, {"Reading": "free: any order",
                          "Month": "marker: waits for the events it depends on"}),
        (two_keys, {"Position": "ordered per taxi, zone"}),
    ],
)  # fmt: skip
def test_each_event_type_has_a_role(program, roles):
    assert {r.event_type.__name__: r.describe() for r in read_structure(program).roles} == roles


# Why it is so.


@pytest.mark.parametrize(
    ("program", "reasons"),
    [
        (programs.stateless, ["no event changes the state: every event is independent"]),
        (programs.counted, ["no event depends on another: all of them may be folded in parallel"]),
        (programs.ordered, ["Reading depends on Reading whatever their fields are"]),
        (ewma, ["every dependence requires equal sensor: different values are independent"]),
        (
            programs.unforked,
            [
                "Month synchronises the events between: markers run at the root",
                (
                    "there is no fork and join, so Reading and Month share one state: "
                    "`anabranch check --synthesise` looks for a pair"
                ),
            ],
        ),
        (
            programs.unforked_keyed,
            [
                "every dependence requires equal meter: different values are independent",
                "the state is not kept per meter: with state=MapOf(..., by='meter') it could be",
                (
                    "there is no fork and join, so Reading and Reading share one state: "
                    "`anabranch check --synthesise` looks for a pair"
                ),
            ],
        ),
        (
            inc_dec,
            [
                "Mark synchronises the events between: markers run at the root",
                (
                    "Dec and Inc order each other: the rarer one runs at the root, and only the "
                    "other runs in parallel"
                ),
            ],
        ),
        (
            fraud,
            [
                "Rule synchronises the events between: markers run at the root",
                (
                    "the output of Txn depends on the state, so its nodes need their part of "
                    "the state after each marker"
                ),
            ],
        ),
        (
            tangled_below_a_marker,
            [
                "Hour synchronises the events between: markers run at the root",
                (
                    "no field separates: Position–Position requires equal taxi; Position–Tip requires "
                    "equal zone; Tip–Tip requires equal zone, and nothing below the markers is "
                    "free"
                ),
            ],
        ),
        (two_orders, ["these are independent: Position; Hour"]),
        (key_and_order, ["these are independent: Position; Hour"]),
        (
            two_fields,
            [
                (
                    "no field separates: Position–Position requires equal taxi; "
                    "Position–Tip requires equal zone; Tip–Tip requires equal zone"
                )
            ],
        ),
    ],
)
def test_reasons_are_given_in_words(program, reasons):
    assert list(read_structure(program).reasons) == reasons


def test_two_markers_synchronise_together():
    program = build(depends(Hour, Tip, Hour), depends(Position, Tip, Position))
    assert read_structure(program).reasons == (
        "Position and Hour synchronise the events between: markers run at the root",
    )


def test_a_marker_above_what_is_all_in_order_is_none():
    program = build(depends(Hour, Position, Hour), depends(Position, Position))
    structure = read_structure(program)
    assert structure.kind == "sequential"
    assert structure.reasons == ("Position depends on Position whatever their fields are",)


# Which leaves need to know what the root knows.


class Speaker:
    def about_state(self, state, event):
        return state

    def about_itself(self, state, event):
        return self


def late_load(state, event):
    amount = event.taxi
    return state + amount


def inner_load(state, event):
    return [n for n in (1, 2) if n == state]


@pytest.mark.parametrize(
    ("output", "needs"),
    [
        (lambda state, event: state, True),
        (lambda state, event: event, False),
        (lambda state, event: 7, False),
        (lambda state, event: (event.taxi, state), True),
        (late_load, True),
        (inner_load, True),
        (Speaker().about_state, True),
        (Speaker().about_itself, False),
        (max, True),  # a builtin does not tell
    ],
)
def test_a_leaf_output_that_reads_the_state_needs_it_after_each_marker(output, needs):
    program = Program(
        on(Tip, output=output),
        does(Hour),
        depends(Hour, Tip, Hour),
        **FORKED,
    )
    assert read_structure(program).needs_forked_state == ((Tip,) if needs else ())


def test_without_a_marker_no_leaf_waits_for_anything():
    program = Program(
        on(Position, output=lambda s, e: s), depends(Position, Position, same="taxi"), **FORKED
    )
    structure = read_structure(program)
    assert [role.reads_state for role in structure.roles] == [True]
    assert structure.needs_forked_state == ()
