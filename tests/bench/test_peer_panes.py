import random
import sys

import numpy as np
import pytest

from bench.peers.trials import JOBS


@pytest.fixture
def panes(monkeypatch):
    monkeypatch.syspath_prepend(str(JOBS))
    import panes

    yield panes
    sys.modules.pop("panes", None)


@pytest.fixture
def hopping(monkeypatch):
    monkeypatch.syspath_prepend(str(JOBS))
    import hopping

    yield hopping
    for name in ("hopping", "protocol"):
        sys.modules.pop(name, None)


def draw_bids(seed):
    """Return bids by time, with a gap that is longer than a window, and a last one that closes all."""
    rng = random.Random(seed)
    times = sorted(
        [rng.randrange(60) for _ in range(40)] + [rng.randrange(150, 190) for _ in "abcd"]
    )
    return [(time, rng.randrange(3), rng.randrange(100)) for time in times] + [(400, 3, 0)]


def sum_up(bids, size, every):
    held = {}
    for time, key, price in bids[:-1]:
        for start in range(time // every * every, time - size, -every):
            total, seen = held.get((key, start + size), (0, 0))
            held[key, start + size] = (total + price, seen + 1)
    return sorted((*row, *emitted) for row, emitted in held.items())


HOPS = [(12, 3), (10, 10), (100, 1)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("hop", HOPS)
def test_panes_say_each_window_once_however_bids_are_cut(panes, hop, seed):
    bids, held, emitted = draw_bids(seed), panes.begin(4), []
    rng, rest = random.Random(seed), draw_bids(seed)
    while rest:
        part = [rest.pop(0) for _ in range(min(len(rest), rng.randrange(1, 9)))]
        watermark = part[-1][0]
        rng.shuffle(part)
        held = panes.add(held, panes.Hop(*hop), *np.array(part).T)
        held, closed = panes.close(held, panes.Hop(*hop), watermark)
        emitted += zip(*(column.tolist() for column in closed), strict=True)
    assert sorted(emitted) == sum_up(bids, *hop)
    # The last bid is in panes of its own, and nobody has gone past it.
    assert panes.find_last(held, panes.Hop(*hop)) == 400 // hop[1] * hop[1] + hop[0]


def test_panes_of_which_all_is_said_have_no_last_window(panes):
    hop = panes.Hop(10, 5)
    held = panes.add(panes.begin(1), hop, np.array([7]), 0, np.array([3]))
    assert panes.find_last(held, hop) == 15
    held, closed = panes.close(held, hop, 15)
    assert [column.tolist() for column in closed] == [[0, 0], [10, 15], [3, 3], [1, 1]]
    assert panes.find_last(held, hop) is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("hop", HOPS)
def test_a_plain_loop_says_what_each_window_holds(hopping, hop, seed):
    windows = hopping.Hopping(*hop)
    windows.take((time, 0, key, price) for time, key, price in draw_bids(seed))
    assert sorted(windows.emitted) == sum_up(draw_bids(seed), *hop)
