"""One step of the fold: through entries, lanes and whole states."""

from itertools import permutations
from typing import NamedTuple

import pytest

from anabranch import Event, Map, Program, depends, on
from anabranch.model.shapes import BASE, MISSING, LanedShape, WrittenShape
from anabranch.model.step import add_delta
from anabranch.state import Count, MapOf, Replicated, Sum


class Sale(NamedTuple):
    time: int
    shop: str
    item: str
    amount: float


class Close(NamedTuple):
    time: int
    shop: str


class Year(NamedTuple):
    time: int


def sell(total, sale):
    return total + sale.amount


def sold(seq, amount, shop="north", item="tea"):
    return Event(Sale(seq, shop, item, amount), "till", seq)


def make(state, *more, **options):
    return Program(
        on(Sale, update=sell),
        on(Close, output=lambda total, close: total, update=lambda total, close: 0.0),
        on(Year, output=lambda shops, year: shops),
        depends(Close, Sale, Close, same="shop"),
        depends(Year, Sale, Close, Year),
        *more,
        state=state,
        **options,
    )


def fold(program, *events):
    state, emitted = program.init, []
    for event in events:
        state, outputs = program.step(state, event)
        emitted += outputs
    return state, emitted


by_shop = make(MapOf(Sum(0.0), by="shop"))


def test_an_event_sees_the_entry_of_its_own_key():
    state, emitted = fold(by_shop, sold(0, 3.0), sold(1, 4.0, "south"), Close(2, "north"))
    assert emitted == [3.0]
    assert state == {"north": 0.0, "south": 4.0}


def test_a_key_that_is_new_starts_from_the_inner_start():
    tens = make(MapOf(Sum(10.0), by="shop"))
    assert fold(tens, sold(0, 1.0))[0] == {"north": 11.0}
    assert fold(tens, Close(0, "north"))[1] == [10.0]


def test_an_event_without_the_key_sees_the_whole():
    assert fold(by_shop, sold(0, 3.0), Year(1))[1] == [{"north": 3.0}]


def test_a_whole_handler_sees_the_whole_although_it_has_the_key():
    audit = Program(
        on(Sale, update=sell),
        on(Close, output=lambda shops, close: sum(shops.values()), whole=True),
        depends(Close, Sale, Close),
        state=MapOf(Sum(0.0), by="shop"),
    )
    assert fold(audit, sold(0, 3.0), sold(1, 4.0, "south"), Close(2, "x"))[1] == [7.0]


def test_a_whole_handler_may_return_a_plain_dict():
    cut = Program(
        on(Sale, update=sell),
        on(Year, update=lambda shops, year: {k: v for k, v in shops.items() if v > 3}),
        depends(Year, Sale, Year),
        state=MapOf(Sum(0.0), by="shop"),
    )
    state, _ = fold(cut, sold(0, 3.0), sold(1, 4.0, "south"), Year(2))
    assert isinstance(state, Map)
    assert state == {"south": 4.0}


def test_maps_of_maps_are_entered_as_far_as_the_event_has_fields():
    nested = Program(
        on(Sale, update=lambda count, sale: count + 1),
        on(Close, output=lambda items, close: dict(items), update=lambda items, close: Map()),
        on(Year, output=lambda shops, year: {shop: dict(items) for shop, items in shops.items()}),
        depends(Close, Sale, Close, same="shop"),
        depends(Year, Sale, Close, Year),
        state=MapOf(MapOf(Count(), by="item"), by="shop"),
    )
    sales = [sold(0, 1.0), sold(1, 1.0, item="jam"), sold(2, 1.0), sold(3, 1.0, "south")]
    state, emitted = fold(nested, *sales, Year(4), Close(5, "north"))
    assert emitted == [
        {"north": {"tea": 2, "jam": 1}, "south": {"tea": 1}},
        {"tea": 2, "jam": 1},
    ]
    assert state == {"north": {}, "south": {"tea": 1}}


def test_outputs_see_the_state_before_the_update():
    assert by_shop.step(Map({"north": 5.0}), Close(1, "north")) == (Map({"north": 0.0}), (5.0,))


def test_without_an_update_the_state_stays():
    assert by_shop.update(Map({"north": 5.0}), Year(1)) == {"north": 5.0}


@pytest.mark.parametrize(
    ("emitted", "outputs"),
    [
        (None, ()),
        ([], ()),
        ([1, None], (1, None)),
        ((1, 2), ((1, 2),)),
        ("ab", ("ab",)),
        (0, (0,)),
        (False, (False,)),
        ((n for n in (1, 2)), (1, 2)),
    ],
)
def test_an_output_is_one_value_a_list_or_nothing(emitted, outputs):
    deferring = Program(on(Year, output=lambda state, year: emitted), init=0)
    assert deferring.output(0, Year(1)) == outputs


# --- lanes ---------------------------------------------------------------------------------------


laned = make(Sum(0.0), lanes=3)


def test_each_lane_folds_its_own_events():
    state, _ = fold(laned, *(sold(n, 10.0**n) for n in range(6)))
    assert state.get(BASE) == 0.0
    assert sorted(state.values()) == [0.0, 1 + 1e3, 10 + 1e4, 100 + 1e5]


@pytest.mark.parametrize("amounts", [*permutations([1e16, 1.0, -1e16])])
def test_a_marker_sees_the_lanes_joined_in_order(amounts):
    events = [sold(n, amount) for n, amount in enumerate(amounts)]
    lanes, _ = fold(laned, *events)
    _, emitted = fold(laned, *events, Year(9))
    assert emitted == [((lanes[BASE] + lanes[0]) + lanes[1]) + lanes[2]]


def test_independent_events_give_the_same_bits_in_any_order_of_lanes():
    events = [sold(n, 0.1 * 3**n) for n in range(9)]
    grouped = [event for lane in (2, 0, 1) for event in events[lane::3]]
    assert fold(laned, *events, Year(9)) == fold(laned, *grouped, Year(9))
    assert fold(make(Sum(0.0)), *events) != fold(make(Sum(0.0)), *grouped)


def test_the_start_is_the_base_and_lanes_start_from_zero():
    program = make(Sum(5.0), lanes=3)
    assert program.init == {BASE: 5.0}
    state, emitted = fold(program, sold(1, 2.0), Year(9))
    assert emitted == [7.0]
    assert state == {BASE: 7.0}


def test_one_lane_is_the_plain_fold():
    events = [sold(n, 0.1 * 3**n) for n in range(9)]
    plain, _ = fold(make(Sum(0.0)), *events)
    assert fold(make(Sum(0.0), lanes=1), *events)[0] == {BASE: 0.0, 0: plain}


def test_what_a_marker_leaves_is_the_new_base():
    state, emitted = fold(laned, sold(0, 2.0), sold(1, 3.0), Close(2, "north"))
    assert emitted == [5.0]
    assert state == {BASE: 0.0}


def test_a_marker_that_raises_joins_the_lanes_all_the_same():
    state, _ = fold(laned, sold(0, 2.0), sold(1, 3.0))
    assert laned.initial.set_aside(state, Event(Close(2, "north"))) == {BASE: 5.0}
    keyed = make(MapOf(Sum(0.0), by="shop"), lanes=2)
    state, _ = fold(keyed, sold(0, 1.0), sold(1, 2.0), sold(2, 4.0, "south"))
    after = keyed.initial.set_aside(state, Event(Close(3, "north")))
    assert after["north"] == {BASE: 3.0}
    assert after["south"] == state["south"]


def test_a_delta_starts_its_entries_from_zero_and_joins_where_entries_begin():
    program = make(MapOf(Sum(5.0), by="shop"))
    delta, _ = program.initial.step_delta(Map(), Event(sold(1, 2.0).data))
    assert delta == {"north": 2.0}
    assert add_delta(program.initial.shape, Map(), delta) == {"north": 7.0}
    assert add_delta(program.initial.shape, Map({"north": 1.0}), delta) == {"north": 3.0}


def test_lanes_lie_within_each_key():
    keyed = make(MapOf(Sum(0.0), by="shop"), lanes=2)
    state, emitted = fold(keyed, sold(0, 1.0), sold(1, 2.0), sold(2, 4.0, "south"), Year(3))
    assert emitted == [{"north": 3.0, "south": 4.0}]
    # Whatever the marker has looked at is one state again.
    assert state == {"north": {BASE: 3.0}, "south": {BASE: 4.0}}


def test_a_marker_with_the_key_joins_the_lanes_of_that_key_only():
    keyed = make(MapOf(Sum(0.0), by="shop"), lanes=2)
    before, _ = fold(keyed, sold(0, 1.0), sold(1, 2.0), sold(2, 4.0, "south"))
    state, emitted = keyed.step(before, Close(3, "north"))
    assert emitted == (3.0,)
    assert state["south"] == before["south"]
    assert state["north"] == {BASE: 0.0}


def test_a_fork_gives_each_lane_to_the_side_of_its_events():
    from anabranch import take

    state, _ = fold(laned, *(sold(n, 1.0) for n in range(3)))
    left, right = laned.fork(state, [take(Sale, lane=0)], [take(Sale, lane=1), take(Sale, lane=2)])
    assert (sorted(left), sorted(right)) == ([0], [BASE, 1, 2])
    assert laned.join(left, right) == state
    assert laned.initial.shape.same(laned.join(right, left), state)


def test_a_lane_of_neither_side_is_not_lost():
    from anabranch import take

    state, _ = fold(laned, *(sold(n, 1.0) for n in range(3)))
    left, right = laned.fork(state, [take(Sale, lane=0)], [take(Sale, lane=1)])
    assert laned.join(left, right) == state


def test_no_lanes_is_the_identity_of_joining_lanes():
    shape = laned.initial.shape
    assert isinstance(shape, LanedShape)
    assert shape.join(shape.zero, laned.init) == shape.join(laned.init, shape.zero) == laned.init


def test_what_is_missing_says_so():
    assert repr(MISSING) == "(none)"
    assert WrittenShape().zero is MISSING
    assert Replicated().zero is MISSING


def test_a_sparse_map_lets_go_of_what_is_again_as_it_began():
    program = make(MapOf(WrittenShape(0.0), by="shop", sparse=True))
    state = program.update(program.init, sold(1, 2.5))
    state = program.update(state, sold(2, 4.0, shop="south"))
    closed, outputs = program.step(state, Event(Close(3, "north"), "till", 3))
    assert outputs == (2.5,)
    assert closed == {"south": 4.0}
    assert program.update(closed, sold(4, 1.0)) == {"north": 1.0, "south": 4.0}
    assert program.update(program.init, sold(5, 0.0)) == {}


def test_a_map_that_is_not_sparse_keeps_it():
    program = make(MapOf(WrittenShape(0.0), by="shop"))
    state = program.update(program.init, sold(1, 2.5))
    assert program.update(state, Event(Close(3, "north"), "till", 3)) == {"north": 0.0}
