"""FlameStream's published cases, as emissions; and its programs under any order of arrival."""

import random
from collections import Counter
from itertools import accumulate, pairwise, permutations

import pytest

from anabranch.errors import InputError
from tests.speculation.flamestream.flows import BARRIER, Flow, run_flow
from tests.speculation.flamestream.items import DataItem, GlobalTime, Meta, enter
from tests.speculation.flamestream.operations import Broadcast, Grouping, Map, Merge
from tests.speculation.flamestream.programs import Drift, Entry, drifting_sum, word_count


def group(items, window, key=lambda payload: None):
    """Return what a grouping emits: each group, or `("TOMB", group)`."""
    running = Grouping(key, window).start(1)
    made = [item for one in items for _, item in running.take(one)]
    return [("TOMB", item.payload) if item.tombstone else item.payload for item in made]


def survive(emissions):
    """Return the groups that no tombstone has taken back."""
    left = Counter()
    for emission in emissions:
        if emission[0] == "TOMB":
            left[emission[1]] -= 1
        else:
            left[emission] += 1
    assert all(count >= 0 for count in left.values())
    return sorted(left.elements())


def number(*values):
    return [enter(value, time=value) for value in values]


@pytest.mark.parametrize(
    ("arrival", "emissions"),
    [
        ((1, 2, 3), [(1,), (1, 2), (2, 3)]),
        ((1, 3, 2), [(1,), (1, 3), ("TOMB", (1, 3)), (1, 2), (2, 3)]),
        ((2, 1, 3), [(2,), ("TOMB", (2,)), (1,), (1, 2), (2, 3)]),
        (
            (3, 2, 1),
            [(3,), ("TOMB", (3,)), (2,), (2, 3), ("TOMB", (2,)), (1,), (1, 2)],
        ),
    ],
)
def test_a_grouping_takes_back_the_groups_that_an_item_out_of_order_breaks(arrival, emissions):
    assert group(number(*arrival), window=2) == emissions
    assert survive(emissions) == [(1,), (1, 2), (2, 3)]


def test_a_tombstone_that_comes_in_takes_back_the_groups_of_its_item():
    items = [*number(1, 2, 3), number(3)[0]._replace(tombstone=True)]
    emissions = group(items, window=2)
    assert emissions == [(1,), (1, 2), (2, 3), ("TOMB", (2, 3))]
    middle = group([*number(1, 2, 3), number(2)[0]._replace(tombstone=True)], window=2)
    assert middle[3:] == [("TOMB", (1, 2)), ("TOMB", (2, 3)), (1, 3)]


def test_a_derivative_sorts_after_its_channel_and_before_the_next_item():
    x1, x2 = enter("x1", 1), enter("x2", 2)
    state = DataItem("state", x1.meta.child(0))
    for arrival in permutations([x1, x2, state]):
        found = survive(group(arrival, window=2))
        assert found == [("state", "x2"), ("x1",), ("x1", "state")]


def test_a_successor_follows_the_state_that_it_was_made_of():
    x5, x0 = enter("x5", 2), enter("x0", 1)
    of_x5, of_x0 = DataItem("x5State", x5.meta.child(0)), DataItem("x0State", x0.meta.child(0))
    the = DataItem("theState", of_x5.meta.child(0))
    assert survive(group([x5, of_x5, x0, of_x0, the], window=2)) == [
        ("x0",), ("x0", "x0State"), ("x0State", "x5"), ("x5", "x5State"), ("x5State", "theState"),
    ]  # fmt: skip


def test_groups_of_three_by_parity():
    expected = [(1,), (2,), (1, 3), (2, 4), (1, 3, 5), (2, 4, 6), (3, 5, 7), (4, 6, 8)]
    assert group(number(*range(1, 9)), 3, lambda value: value % 2) == expected
    assert group(number(1, 2, 3, 4), 3) == [(1,), (1, 2), (1, 2, 3), (2, 3, 4)]


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_oracle_what_survives_is_what_an_order_of_arrival_gives_that_is_in_order(window):
    for seed in range(50):
        rng = random.Random(seed)
        items = number(*range(8))
        gone = rng.sample(items, 3)
        arrival = rng.sample(items, 8)
        for item in gone:
            tombstone = item._replace(tombstone=True)
            arrival.insert(rng.randint(arrival.index(item) + 1, len(arrival)), tombstone)
        left = [item for item in items if item not in gone]
        assert survive(group(arrival, window)) == sorted(group(left, window))


def test_a_tombstone_of_nothing_is_refused():
    with pytest.raises(InputError, match="takes back what never came"):
        group([number(3)[0]._replace(tombstone=True)], window=2)


def test_a_drifting_sum_of_two_numbers():
    four, three = enter(Entry("all", 4), 1), enter(Entry("all", 3), 2)
    for seed in range(20):
        for arrival in ([four, three], [three, four]):
            runner = run_flow(drifting_sum, arrival, seed)
            assert runner.released == [Drift("all", 4), Drift("all", 7)]


def test_the_pairs_of_a_drifting_sum_are_a_state_and_an_item():
    running = Grouping(lambda item: item.key, 2).start(1)
    four, three = enter(Entry("all", 4), 1), enter(Entry("all", 3), 2)
    state = DataItem(Drift("all", 4), four.meta.child(0))
    made = [item.payload for one in (four, state, three) for _, item in running.take(one)]
    assert [tuple(one.value for one in pair) for pair in made] == [(4,), (4, 4), (4, 3)]


def displace(rng, items, distance):
    """Return items in an order in which each may be overtaken by those a little after it."""
    return [item for _, item in sorted((n + rng.uniform(0, distance), i) for n, i in items)]


def test_a_sum_over_four_fronts_says_every_prefix_once():
    emitted = []
    for seed in range(4):
        rng = random.Random(seed)
        values = [rng.randrange(-100, 100) for _ in range(400)]
        items = [
            (time, enter(Entry("all", value), time, f"front {time % 4}"))
            for time, value in enumerate(values)
        ]
        runner = run_flow(drifting_sum, displace(rng, items, 12), seed)
        assert [state.value for state in runner.released] == list(accumulate(values))
        assert runner.amount.valid == 400
        emitted.append(runner.amount.emitted)
    # In the first run the flow lags behind its input, and so sees all of the order in time.
    assert emitted == [400, 3374, 3564, 3552]


def test_words_are_counted_whatever_the_order_of_arrival():
    rng = random.Random(3)
    texts = [" ".join(rng.choices("abcdefgh", k=6)) for _ in range(60)]
    expected, counts = [], Counter()
    for word in " ".join(texts).split():
        counts[word] += 1
        expected.append(Drift(word, counts[word]))
    items = [enter(text, time) for time, text in enumerate(texts)]
    for seed in range(6):
        arrival = random.Random(seed).sample(items, len(items))
        assert run_flow(word_count, arrival, seed).released == expected


def test_two_broadcasts_make_four_copies_in_order():
    flow = Flow(
        {"one": Broadcast(), "merge": Merge(), "two": Broadcast(), "again": Merge()},
        (
            ("one", "merge"),
            ("one", "merge"),
            ("merge", "two"),
            ("two", "again"),
            ("two", "again"),
            ("again", BARRIER),
        ),
        "one",
    )
    items = [enter(f"text {time}", time) for time in range(50)]
    random.Random(0).shuffle(items)
    runner = run_flow(flow, items, 0)
    assert runner.released == [f"text {time}" for time in range(50) for _ in range(4)]
    assert runner.amount.extra == 0


def test_a_chain_of_maps_is_in_the_order_of_its_input():
    names = ["a", "b", "c", "d", BARRIER]
    operations = {name: Map(lambda x, n=-n: [x * n]) for n, name in enumerate(names[:-1], 1)}
    flow = Flow(operations, tuple(pairwise(names)), "a")
    items = number(*range(100))
    random.Random(1).shuffle(items)
    assert run_flow(flow, items, 1).released == [24 * x for x in range(100)]


def test_copies_are_numbered():
    meta = Meta(GlobalTime(7, "front"))
    made = Map(lambda x: [x] * 3).take(DataItem("x", meta, tombstone=True))
    assert [(item.meta.children, item.tombstone) for _, item in made] == [
        ((0,), True), ((1,), True), ((2,), True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("operations", "edges", "problem"),
    [
        ({"a": Merge()}, (("a", "b"),), "'b', which is no operation"),
        ({"a": Merge()}, (), "nothing comes after 'a'"),
        (
            {"a": Merge(), "b": Merge()},
            (("a", "b"), ("a", BARRIER), ("b", BARRIER)),
            "put a Broadcast between",
        ),
        (
            {"a": Broadcast(), "b": Broadcast()},
            (("a", "b"), ("b", "a"), ("b", BARRIER)),
            "put a Merge between",
        ),
        ({"b": Merge()}, (("b", BARRIER),), "the entry 'a'"),
    ],
)
def test_a_flow_in_which_items_would_be_lost_is_refused(operations, edges, problem):
    with pytest.raises(InputError, match=problem):
        Flow(operations, edges, "a")


def test_an_empty_window_is_refused():
    with pytest.raises(InputError, match="empty window"):
        Grouping(lambda item: item, 0)
