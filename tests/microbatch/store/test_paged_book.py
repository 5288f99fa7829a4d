"""Paged books: what was appended is found again, in few pages, each in parts of a bounded size."""

import random
from itertools import pairwise
from math import log2

import numpy as np
import pytest

from anabranch.kernels.column_layouts import Leaf
from anabranch.kernels.numpy_columns import Strings, pack
from anabranch.microbatch.columns.window_slices import WindowSlices, read_slices
from anabranch.microbatch.job.window_plan import SlicePart, WindowPlan
from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.column_entries import (
    ColumnEntries,
    forget_tables,
    read_entries,
    unpack_entries,
)
from anabranch.microbatch.store.paged_book import read_cover, read_parts
from anabranch.microbatch.store.slice_book import SliceBook, read_closed, read_open_slices
from anabranch.microbatch.store.state_store import DamagedStateError, MemoryStore

INT = Leaf("int")
PARTS = (SlicePart("count", None), SlicePart("sum", "amount"))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(page_sizes, "ENTRY_ROWS", 7)
    monkeypatch.setattr(page_sizes, "SLICE_ROWS", 7)


def check_pages(store, book, count_rows):
    """See that pages shrink by half or more, and that there is nothing but their parts."""
    pages = read_cover(store).pages
    rows = [page.rows for page in pages]
    assert all(older > 2 * newer for older, newer in pairwise(rows))
    assert not rows or len(rows) <= 1 + log2(rows[0])
    parts = dict(read_parts(store, book))
    assert {name for held, name in store.pages if held == book} == parts.keys()
    sizes = [count_rows(data) for data in parts.values()]
    assert sum(sizes) == sum(rows)
    assert all(0 < size <= 7 for size in sizes)


@pytest.mark.parametrize("texts", [False, True], ids=["numbers", "texts"])
def test_oracle_entries_are_a_dict_also_for_a_worker_that_has_forgotten_them(texts):
    for seed in range(5):
        rng, store, expected = random.Random(seed), MemoryStore(), {}
        for _ in range(40):
            if rng.random() < 0.3:
                forget_tables()
            batch = {rng.randrange(60): rng.randrange(1000) for _ in range(rng.randint(1, 12))}
            book = ColumnEntries(store, INT, -1, 0)
            strings = Strings() if texts else None
            named = [f"k{key}" for key in batch] if texts else list(batch)
            keys = strings.codes(named) if texts else np.array(named)
            slots = book.find(keys, strings)
            found = book.states(slots, Strings()).unpack()
            assert found == [expected.get(name, -1) for name in named]
            book.keep(slots, pack(INT, list(batch.values())))
            expected |= dict(zip(named, batch.values(), strict=True))
            check_pages(store, "entries", lambda data: unpack_entries(INT, data)[2].length)
        keys, known, states = read_entries(store, INT)
        names = keys.tolist() if known is None else [known[code] for code in keys.tolist()]
        assert dict(zip(names, states.unpack(), strict=True)) == expected


def make_slices(rows):
    keys, starts, amounts = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    ones = np.ones(len(rows), np.int64)
    return WindowSlices(keys, starts, ones, (ones, amounts))


def test_oracle_slices_are_sums_by_key_and_start_until_their_windows_are_closed():
    plan = WindowPlan(object, object, "key", 30, 10, 0, PARTS, ())
    for seed in range(5):
        rng, store, expected, watermark = random.Random(seed), MemoryStore(), {}, 0
        for _ in range(40):
            rows = [
                (rng.randrange(9), rng.randrange(watermark // 10, 20) * 10, rng.randrange(99))
                for _ in range(rng.randint(1, 9))
            ]
            for key, start, amount in rows:
                count, total = expected.get((key, start), (0, 0))
                expected[key, start] = count + 1, total + amount
            watermark += rng.choice((0, 0, 0, 3, 10))
            SliceBook(plan, store).close([make_slices(rows)], watermark)
            # A slice is of use as long as the last window that it lies in is open.
            expected = {slot: sums for slot, sums in expected.items() if slot[1] + 29 > watermark}
            found = read_open_slices(plan, store)
            slots = zip(found.keys.tolist(), found.starts.tolist(), strict=True)
            sums = zip(*(part.tolist() for part in found.parts), strict=True)
            assert dict(zip(slots, sums, strict=True)) == expected
            assert read_closed(store) == watermark
            check_pages(store, "slices", lambda data: len(read_slices(plan, data)[0].keys))


def test_a_part_that_is_gone_is_named_wherever_it_is_read():
    plan = WindowPlan(object, object, "key", 30, 10, 0, PARTS, ())
    store = MemoryStore()
    SliceBook(plan, store).close([make_slices([(key, 0, 1) for key in range(20)])], 0)
    assert len(read_open_slices(plan, store).keys) == 20
    del store.pages["slices", "0.1"]
    with pytest.raises(DamagedStateError, match=r"slices/0\.1"):
        read_open_slices(plan, store)
    with pytest.raises(DamagedStateError, match=r"slices/0\.1"):
        SliceBook(plan, store).close([], 50)
