"""What plans cost, computed by hand."""

from fractions import Fraction

import pytest

from anabranch import Shard, take
from anabranch.plan.pricing.cost import PRICES, Cost, Prices, assign, price
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode
from examples.key_counter import Inc, Read, key_counter
from examples.value_barrier import Barrier, Value, value_barrier

PLAIN = Prices(
    event_bytes=10,
    state_bytes=100,
    request_bytes=1,
    seconds_per_byte=Fraction(1, 1000),
    seconds_per_round=Fraction(1, 10),
    seconds_per_event=Fraction(1, 100),
    seconds_per_join=Fraction(1, 50),
    seconds_per_node=Fraction(1, 200),
)
A, B = take(Value, channel="a"), take(Value, channel="b")
RATES = Rates([Load(A, 30, "m1"), Load(B, 20, "m2"), Load(take(Barrier), 2, "m3")])


def cost(root, rates=RATES, prices=PLAIN, program=value_barrier):
    return price(program, Plan(root), rates, prices)


def test_one_worker_pays_for_what_comes_from_elsewhere():
    # 20 values and 2 barriers travel to m1, 10 bytes each; 52 events at a hundredth of a second.
    found = cost(PlanNode(Value, Barrier, machine="m1"))
    assert found == Cost(220, 0, pytest.approx(0.52), pytest.approx(0.52 + 0.22 + 0.005))


def test_a_worker_without_a_machine_stands_where_its_events_arrive():
    assert cost(PlanNode(Value, Barrier)).network_bytes == 0


def test_a_barrier_costs_a_round_and_two_states_and_a_request_per_child_elsewhere():
    root = PlanNode(
        Barrier, machine="m1", children=(PlanNode(A, machine="m1"), PlanNode(B, machine="m2"))
    )
    # Two barriers come from m3 (20 bytes); each fetches the state of m2 and brings it back (201).
    network = 2 * 10 + 2 * 201
    # The leaf at m1 handles 30 events and hands its state up twice.
    busiest = 30 / 100 + 2 / 50
    total = busiest + network / 1000 + 2 / 10 + 3 / 200
    assert cost(root) == Cost(network, 2, pytest.approx(busiest), pytest.approx(total))


def test_an_event_asks_every_level_below_it_for_its_state():
    c, d = take(Value, channel="c"), take(Value, channel="d")
    rates = Rates([*RATES.loads, Load(c, 5, "m3"), Load(d, 0.5, "m3")])
    below = PlanNode(
        d, machine="m3", children=(PlanNode(B, machine="m2"), PlanNode(c, machine="m3"))
    )
    root = PlanNode(Barrier, machine="m3", children=(PlanNode(A, machine="m1"), below))
    # Barriers go two levels down, d's events one.
    rounds = 2 * 2 + 0.5 * 1
    # m1 is asked by barriers only; m2 by barriers and by d.
    network = 2 * 201 + (2 + 0.5) * 201
    found = cost(root, rates)
    assert (found.rounds, found.network_bytes) == (rounds, pytest.approx(network))
    assert found.busiest == pytest.approx(30 / 100 + 2 / 50)


def test_an_inner_worker_is_busy_with_its_events_and_its_joins():
    leaves = (PlanNode(take(Value, channel="x")), PlanNode(take(Value, channel="y")))
    root = PlanNode(Barrier, A, B, children=leaves)
    assert cost(root).busiest == pytest.approx(52 / 100 + 52 / 50)


def test_a_worker_is_plenty_busy_at_seven_tenths():
    assert PLAIN.capacity == pytest.approx(70)
    assert PRICES.capacity == pytest.approx(700_000)


def test_a_cost_reads_as_one_would_say_it():
    assert str(Cost(12345.6, 3.25, 0.5, 9)) == (
        "12,346 B/s on the network, 3.2 rounds/s, busiest node 50.0%"
    )


# Who handles what.


def shares(root, *loads, program=value_barrier):
    assigned = assign(program, Plan(root), Rates(loads))
    return {
        path: {str(x.slice): pytest.approx(x.rate) for x in mine}
        for path, mine in assigned.items()
        if mine
    }


def test_a_load_goes_to_the_worker_with_its_slice():
    root = PlanNode(Barrier, children=(PlanNode(A), PlanNode(B)))
    assert shares(root, *RATES.loads) == {
        "0": {"Barrier": 2},
        "0.0": {"Value@a": 30},
        "0.1": {"Value@b": 20},
    }


def test_a_load_that_nobody_answers_for_goes_to_the_root():
    root = PlanNode(Barrier, children=(PlanNode(A), PlanNode(B)))
    assert shares(root, Load(take(Value, channel="c"), 7)) == {"0": {"Value@c": 7}}


def test_lanes_share_a_load():
    lanes = [PlanNode(take(Value, lane=Shard(n, 4))) for n in (1, 3)]
    left = PlanNode(take(Value, lane=Shard(0, 2)))
    root = PlanNode(Barrier, children=(left, PlanNode(children=lanes)))
    assert shares(root, Load(take(Value, channel="a"), 40)) == {
        "0.0": {"Value@a": 20},
        "0.1.0": {"Value@a": 10},
        "0.1.1": {"Value@a": 10},
    }


def test_what_the_lanes_leave_goes_to_whoever_stands_above_them():
    lanes = [PlanNode(take(Value, lane=Shard(n, 4))) for n in (0, 1)]
    assert shares(PlanNode(Barrier, children=lanes), Load(A, 40)) == {
        "0": {"Value@a": 20}, "0.0": {"Value@a": 10}, "0.1": {"Value@a": 10},
    }  # fmt: skip
    inner = PlanNode(Value, children=lanes)
    top = PlanNode(Barrier, children=(inner, PlanNode(take(Barrier, channel="x"))))
    for load in (Load(A, 40), Load(take(Value), 40)):
        name = str(load.slice)
        assert shares(top, load) == {"0.0": {name: 20}, "0.0.0": {name: 10}, "0.0.1": {name: 10}}


def test_the_lowest_worker_that_takes_a_load_has_it():
    lanes = [PlanNode(take(Value, lane=Shard(n, 2))) for n in (0, 1)]
    assert shares(PlanNode(Barrier, Value, children=lanes), Load(take(Value), 40)) == {
        "0.0": {"Value": 20}, "0.1": {"Value": 20},
    }  # fmt: skip


def test_a_key_goes_to_the_shard_it_hashes_to():
    halves = [PlanNode(take(Inc, key=Shard(n, 2)), take(Read, key=Shard(n, 2))) for n in (0, 1)]
    loads = [Load(take(Inc, key=key), 1) for key in range(8)]
    found = shares(PlanNode(children=halves), *loads, program=key_counter)
    assert sorted(name for mine in found.values() for name in mine) == [
        f"Inc[key={key}]" for key in range(8)
    ]
    assert all(mine[name] == 1 for mine in found.values() for name in mine)


def test_shards_of_another_count_take_what_they_share():
    quarters = [PlanNode(take(Inc, key=Shard(n, 4))) for n in (0, 2)]
    root = PlanNode(Read, children=quarters)
    name = "Inc[key in 0/2]"
    assert shares(root, Load(take(Inc, key=Shard(0, 2)), 40), program=key_counter) == {
        "0.0": {name: 20}, "0.1": {name: 20},
    }  # fmt: skip
    assert shares(root, Load(take(Inc, key=Shard(1, 2)), 40), program=key_counter) == {
        "0": {"Inc[key in 1/2]": 40}
    }


def test_channels_share_a_load_that_names_none_in_equal_parts():
    root = PlanNode(Barrier, children=(PlanNode(A), PlanNode(B)))
    assert shares(root, Load(take(Value), 40)) == {"0.0": {"Value": 20}, "0.1": {"Value": 20}}


def test_nothing_of_a_load_is_lost_or_counted_twice():
    lanes = [PlanNode(take(Value, lane=Shard(n, 3))) for n in (0, 2)]
    root = PlanNode(Barrier, children=(PlanNode(A, children=lanes), PlanNode(B)))
    # Not valid, and yet every event has one owner.
    for load in (Load(take(Value), 9), Load(A, 9), Load(take(Value, lane=Shard(1, 2)), 9)):
        assigned = assign(value_barrier, Plan(root), Rates([load]))
        assert sum(x.rate for mine in assigned.values() for x in mine) == pytest.approx(9)
