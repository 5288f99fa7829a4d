"""Ranges of slices against a search over all windows there could be."""

import random
from math import gcd

import numpy as np
import pytest

from anabranch.kernels.arrays import sliding


@pytest.fixture(params=["compiled", "plain"])
def passes(request, monkeypatch):
    if request.param == "plain":
        plain = (sliding.list_windows, sliding.slide_largest)
        monkeypatch.setattr(sliding, "_passes", lambda: plain)
    else:
        pytest.importorskip("numba")
    return request.param


def search(rows, values, grid, after, upto):
    """Try every window around every slice."""
    size, every, offset = grid
    found = []
    for key in sorted({key for key, _ in rows}):
        mine = [(start, v) for (k, start), v in zip(rows, values, strict=True) if k == key]
        places = {
            place
            for start, _ in mine
            for place in range(start - size + 1, start + 1)
            if (place - offset) % every == 0 and after < place + size - 1 <= upto
        }
        for place in sorted(places):
            held = [v for start, v in mine if place <= start < place + size]
            found.append((key, place, sum(held), max(held)))
    return found


def test_oracle_windows_are_those_that_hold_a_slice(passes):
    empty = 0
    for seed in range(200):
        rng = random.Random(seed)
        grid = rng.randint(1, 12), rng.randint(1, 14), rng.randint(-5, 5)
        width = gcd(grid[0], grid[1])
        rows = sorted(
            {
                (key, rng.randint(-40, 40) * width + grid[2])
                for key in range(3)
                for _ in range(rng.randint(0, 9))
            }
        )
        keys, starts = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
        values = np.array([rng.randint(-9, 9) for _ in rows], np.int64)
        after = rng.choice([-(1 << 63), rng.randint(-60, 20)])
        upto = rng.choice([(1 << 63) - 1, rng.randint(-60, 60)])
        ranges = sliding.find_windows(keys, starts, grid, after, upto)
        got = zip(
            keys[ranges.lows].tolist(),
            ranges.starts.tolist(),
            sliding.add_up(values, ranges).tolist(),
            sliding.find_largest(values, ranges).tolist(),
            strict=True,
        )
        expected = search(rows, values.tolist(), grid, after, upto)
        assert list(got) == expected, seed
        empty += not expected
    assert empty < 100
