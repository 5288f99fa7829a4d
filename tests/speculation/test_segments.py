"""Segments in either store against leaves added up from scratch; and what a change runs again."""

import random

import pytest

from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.ordered_pages import OrderedPages
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.speculation.output_changes import OutputChange, compare
from anabranch.speculation.segments import TAIL, Segments, SortedMap, run_again
from anabranch.state.durable.codec import Codec


class Line:
    """Leaves and cuts at random places, in segments and as plain lists."""

    def __init__(self, store):
        self.leaves, self.cuts, self.settled, self.last = [], [], {}, ()
        self.segments = Segments(store, self.read_stretch)
        self.folded = self.again = 0

    def take(self, cuts, leaves):
        for key in cuts:
            self.cuts.append(key)
            self.segments.cut(key)
        self.leaves += leaves
        for key, value in leaves:
            self.segments.add(key, value)
        changed, self.segments.changed = self.segments.changed, set()
        return {end: self.segments.refold(end, self.fold) for end in changed}

    def settle(self, bound):
        gone = self.segments.settle(bound)
        assert gone == sorted(key for key in self.cuts if key < bound)
        self.cuts = [key for key in self.cuts if key >= bound]
        if gone:
            self.last, self.settled = gone[-1], {}
        for key, value in self.leaves:
            if self.last < key < bound:
                self.settled = self.fold(self.settled, value)
        self.leaves = [pair for pair in self.leaves if pair[0] >= bound]

    def fold(self, deltas, value):
        self.folded += 1
        # A leaf that fails leaves the deltas as they are.
        return {"sum": deltas.get("sum", 0) + value} if value else deltas

    def read_stretch(self, start, end):
        self.again += 1
        found = [(k, v) for k, v in self.leaves if (start or ()) < k < end]
        return ({} if start else self.settled), found

    def add_up(self, end):
        start = max((key for key in self.cuts if key < end), default=self.last)
        values = [v for k, v in self.leaves if start < k < end]
        return sum(values) + (0 if start in self.cuts else self.settled.get("sum", 0))


@pytest.mark.parametrize("in_pages", [False, True], ids=["in memory", "in pages"])
def test_oracle_a_segment_is_what_its_leaves_add_up_to(in_pages, monkeypatch):
    monkeypatch.setattr(page_sizes, "ORDERED_VALUES", 2)
    again = 0
    for seed in range(60):
        rng = random.Random(seed)
        pages = OrderedPages(MemoryStore(), Codec(), "segments")
        line, known, low = Line(pages if in_pages else SortedMap()), {}, 0
        places = rng.sample(range(200), 200)
        while places:
            batch = [(place,) for place in places[: rng.randint(1, 8)]]
            del places[: len(batch)]
            batch = [key for key in batch if key[0] >= low]
            cuts = [key for key in batch if rng.random() < 0.3]
            leaves = [(key, rng.randint(0, 5)) for key in batch if key not in cuts]
            known |= line.take(cuts, leaves)
            if in_pages:
                pages.flush()
            for end in [*line.cuts, TAIL]:
                assert known.get(end, {}).get("sum", 0) == line.add_up(end), f"seed {seed}"
            if rng.random() < 0.1:
                low = max(low, rng.randint(0, 100))
                line.settle((low,))
        again += line.again
    assert again


def test_a_cut_beside_all_leaves_of_a_segment_folds_none_again():
    line = Line(SortedMap())
    line.take([], [((place,), 1) for place in (10, 11, 12)])
    assert line.take([(5,), (20,)], []) == {(5,): {}, (20,): {"sum": 3}, TAIL: {}}
    assert (line.folded, line.again) == (3, 0)
    # Between two of them it does, on both sides.
    assert line.take([(11, 5)], []) == {(11, 5): {"sum": 2}, (20,): {"sum": 1}}
    assert (line.folded, line.again) == (6, 2)


class Totals:
    """Stretches that add their number to the state, or begin again from nothing."""

    def __init__(self, numbers):
        self.numbers, self.starts, self.ran, self.read = numbers, [0], [], []
        for number in numbers[:-1]:
            self.starts.append(self.add(number, self.starts[-1]))

    def add(self, number, state):
        return 0 if number is None else state + number

    def __len__(self):
        return len(self.numbers)

    def read_start(self, place):
        self.read.append(place)
        return self.starts[place]

    def enter(self, place, state):
        before, self.starts[place] = self.starts[place], state
        return before != state

    def run(self, place, state):
        self.ran.append(place)
        return self.add(self.numbers[place], state)


@pytest.mark.parametrize(
    ("changes", "ran", "read"),
    [
        ({}, [], []),
        ({4: 9}, [4, 5], [4]),
        ({1: 9}, [1, 2], [1]),
        ({1: 9, 3: 9}, [1, 2, 3, 4, 5], [1]),
        ({0: 9, 5: 9}, [0, 1, 2, 5], [0, 5]),
        # What comes out as before changes nothing that follows.
        ({3: 1}, [3], [3]),
    ],
)
def test_what_has_changed_is_run_and_what_follows_until_a_state_is_what_it_was(changes, ran, read):
    totals = Totals([1, 1, None, 1, 1, 1])
    for place, number in changes.items():
        totals.numbers[place] = number
    run_again(totals, set(changes))
    assert (totals.ran, totals.read) == (ran, read)
    assert totals.starts == Totals(totals.numbers).starts


def test_only_rows_that_differ_are_taken_back_or_said():
    def row(index, value, op=1):
        return OutputChange(op, ((index,), 0), value, None)

    before = {one.id: one for one in (row(1, "a"), row(3, "gone"), row(2, "also"), row(4, 1))}
    assert compare(before, [row(1, "a"), row(4, 1.0), row(5, "new")]) == [
        row(2, "also", -1), row(3, "gone", -1), row(4, 1, -1), row(4, 1.0), row(5, "new"),
    ]  # fmt: skip
