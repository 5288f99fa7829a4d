"""Rolls against a plain dict, from the bytes in a store at every turn."""

import random

import pytest

from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.ordered_pages import OrderedPages
from anabranch.microbatch.store.state_store import DamagedStateError, MemoryStore
from anabranch.state.durable.codec import Codec


@pytest.mark.parametrize("most", [1, 2, 5])
def test_oracle_a_roll_is_a_sorted_dict_that_is_used_up_from_its_beginning(most, monkeypatch):
    monkeypatch.setattr(page_sizes, "ORDERED_VALUES", most)
    for seed in range(30):
        rng, store, model, passed = random.Random(seed), MemoryStore(), {}, 0
        for turn in range(40):
            roll = OrderedPages(store, Codec(), "roll")
            assert roll.is_new == (turn == 0)
            for _ in range(rng.randint(0, 8)):
                key = (passed + rng.randint(0, 30), rng.choice("ab"))
                assert roll.get(key) == model.get(key)
                model[key] = turn
                roll.put(key, turn)
            if rng.random() < 0.4:
                passed += rng.randint(0, 20)
                taken = [(key, model.pop(key)) for key in sorted(model) if key < (passed,)]
                assert roll.take_before((passed,)) == taken
            for _ in range(3):
                key = (passed + rng.randint(-5, 35), rng.choice("ab"))
                assert roll.find_after(key) == min((k for k in model if k > key), default=None)
                assert roll.find_before(key) == max((k for k in model if k < key), default=None)
            roll.arrange()
            assert [one for page in roll.pages for one in roll.read(page)] == sorted(model.items())
            assert all(len(page.keys) <= 2 * most for page in roll.pages)
            roll.flush()
            assert len([book for book, _ in store.pages if book == "roll"]) == len(roll.pages)


def test_a_roll_reads_the_pages_that_it_is_asked_for():
    store = MemoryStore()
    roll = OrderedPages(store, Codec(), "roll")
    for time in range(1000):
        roll.put((time,), time)
    roll.flush()
    store.reads = 0
    roll = OrderedPages(store, Codec(), "roll")
    roll.put((500, 1), "late")
    roll.put((999, 1), "last")
    assert roll.take_before((3,)) == [((0,), 0), ((1,), 1), ((2,), 2)]
    roll.flush()
    assert store.reads == 4


def test_a_page_of_large_values_is_divided_when_it_is_used_again():
    store, large = MemoryStore(), bytes(page_sizes.ORDERED_BYTES // 4 - 99)
    for turn in range(2):
        roll = OrderedPages(store, Codec(), "roll")
        for time in range(40):
            roll.put((time,), large)
        roll.flush()
        assert len(roll.pages) == (1 if turn == 0 else 9)
    assert [roll.get((time,)) for time in range(40)] == [large] * 40
    roll = OrderedPages(store, Codec(), "roll")
    store.reads = 0
    roll.put((39,), large)
    roll.flush()
    assert (store.reads, len(roll.pages)) == (1, 9)


def test_a_page_that_is_gone_is_named():
    store = MemoryStore()
    roll = OrderedPages(store, Codec(), "roll")
    roll.put((1,), "one")
    roll.flush()
    store.pages.clear()
    with pytest.raises(DamagedStateError, match="'roll/0'"):
        OrderedPages(store, Codec(), "roll").get((1,))
