"""Lists, bags and what an operator keeps: no item is lost in a fork, and none comes back twice."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Slices
from anabranch.model.shapes import MISSING, Shape
from anabranch.state import Bag, ListOf, SplitList, UnionList
from anabranch.state.durable.codec import Codec
from tests.state.laws import check_laws, fold, read


class Sale(NamedTuple):
    time: int
    price: int | str | None


sales = st.builds(Sale, st.integers(0, 4), st.none() | st.integers(0, 2) | st.sampled_from("ab"))
anything = st.sampled_from([1, 1.0, True, "a", None, (1, "b"), float("nan"), Sale(1, 2)])


def three(values: st.SearchStrategy[Any]) -> Any:
    return st.lists(st.lists(values, max_size=6), min_size=3, max_size=3)


# --- lists ------------------------------------------------------------------------------------


@given(st.lists(anything), st.none() | st.integers(1, 3))
def test_a_list_keeps_the_order_in_which_items_come(items, last):
    shape = ListOf(last=last)
    state = shape.init
    for item in items:
        state = shape.add(state, item)
    assert shape.value(state) == tuple(items if last is None else items[-last:])


def test_a_list_in_the_order_of_events_can_not_be_cut():
    assert isinstance(ListOf(), Shape)
    assert (ListOf().fork, ListOf().join, ListOf().zero) == (None, None, MISSING)


@pytest.mark.parametrize("last", [None, 1, 3])
@given(parts=three(sales), seed=st.integers())
def test_laws_of_a_list_whose_items_say_their_order(last, parts, seed):
    check_laws(ListOf(ordered_by="time", last=last), parts, seed, [Sale])


@given(st.lists(sales), st.integers(1, 3))
def test_a_list_is_sorted_and_keeps_the_last(items, last):
    every = read(ListOf(Sale, ordered_by="time"), items)
    assert [sale.time for sale in every] == sorted(sale.time for sale in items)
    assert sorted(map(repr, every)) == sorted(map(repr, items))
    assert read(ListOf(Sale, ordered_by="time", last=last), items) == every[-last:]


def test_items_may_have_an_order_that_is_a_function():
    assert read(ListOf(ordered_by=lambda item: -item), [1, 3, 2]) == (3, 2, 1)
    with pytest.raises(ValueError, match="sort key that has an order, got nan"):
        ListOf(ordered_by=lambda item: item).add((), float("nan"))


# --- bags -------------------------------------------------------------------------------------


class Moves:
    """A bag that items are put into and taken out of, for the laws."""

    def __init__(self, shape):
        self.shape = shape

    def __getattr__(self, name):
        return getattr(self.shape, name)

    def add(self, state, move):
        item, comes = move
        return self.shape.add(state, item) if comes else self.shape.remove(state, item)


bags = pytest.mark.parametrize("shape", [Bag(), SplitList()], ids=["bag", "split list"])
plain = st.sampled_from([1, 1.0, True, "a", None, (1, "b"), Sale(1, 2)])


@bags
@given(parts=three(st.tuples(plain, st.booleans())), seed=st.integers())
def test_laws_of_bags(shape, parts, seed):
    check_laws(Moves(shape), parts, seed, [Sale])


@bags
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_a_bag_has_what_was_put_in_and_not_taken_out(shape, moves):
    state = fold(Moves(shape), moves)
    net = {
        item: sum(1 if comes else -1 for other, comes in moves if other == item) for item in "abc"
    }
    assert shape.value(state) == tuple(item for item in "abc" for _ in range(net[item]))
    assert shape.size(state) == len(shape.value(state))
    assert dict(state) == {item: count for item, count in net.items() if count}


def test_a_bag_leaves_its_items_on_the_left():
    assert Bag().fork((("a", 2),), Slices(), Slices()) == ((("a", 2),), ())


# --- the two ways of redistribution ---------------------------------------------------------------


def total(side):
    return sum(count for _, count in side)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(-4, 4).filter(bool)))
def test_a_split_list_is_dealt_out_evenly_and_put_together(counts):
    split = SplitList()
    state = tuple(sorted(counts.items()))
    left, right = split.fork(state, Slices(), Slices())
    assert total(left) - total(right) in (0, 1)
    assert split.join(left, right) == state
    quarters = [*split.fork(left, Slices(), Slices()), *split.fork(right, Slices(), Slices())]
    assert max(map(total, quarters)) - min(map(total, quarters)) <= 2
    assert split.join(split.join(*quarters[2:]), split.join(*quarters[:2])) == state


def test_a_split_list_deals_item_by_item():
    state = fold(SplitList(), ["a", "b", "b", "c"])
    left, right = SplitList().fork(state, Slices(), Slices())
    assert (SplitList().value(left), SplitList().value(right)) == (("a", "b"), ("b", "c"))


class Owned:
    """A union list that pairs are added to, for the laws."""

    shape = UnionList()

    def __getattr__(self, name):
        return getattr(self.shape, name)

    def add(self, state, pair):
        return self.shape.add(state, *pair)


owned = st.tuples(st.sampled_from(["task 1", "task 2"]), plain)


@given(three(owned), st.integers())
def test_laws_of_a_union_list(parts, seed):
    check_laws(Owned(), parts, seed, [Sale])


@given(st.lists(owned), st.lists(owned))
def test_each_side_of_a_union_list_has_all_and_nothing_comes_back_twice(before, after):
    union = UnionList()
    state = fold(Owned(), before)
    left, right = union.fork(state, Slices(), Slices())
    assert left == right == state
    for owner, item in after:
        left = union.add(left, owner, item) if owner == "task 1" else left
        right = union.add(right, owner, item) if owner == "task 2" else right
    joined = union.join(left, right)
    assert joined == fold(Owned(), [*before, *after])
    assert union.value(joined) == joined
    assert Codec([Sale]).decode(Codec([Sale]).encode(joined)) == joined


def test_the_items_of_an_owner_are_found():
    union = UnionList()
    state = fold(Owned(), [("a", 1), ("b", 2), ("a", 3), ("a", 1)])
    assert union.of_owner(state, "a") == (1, 3)
    assert union.of_owner(state, "c") == ()
