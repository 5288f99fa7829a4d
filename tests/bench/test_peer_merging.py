import random
import sys

import numpy as np
import pytest

from bench.peers.trials import JOBS


@pytest.fixture
def merging(monkeypatch):
    monkeypatch.syspath_prepend(str(JOBS))
    import merging

    yield merging
    sys.modules.pop("merging", None)


@pytest.mark.parametrize("seed", range(20))
def test_a_merge_says_the_same_however_its_channels_arrive(merging, seed):
    rng = random.Random(seed)
    events = [(time, rng.choice([0, 0, 1, 1, 2]), rng.randrange(100)) for time in range(1, 200)]
    events += [(300, 0, 0), (301, 1, 0), (302, 2, 0)]
    expected, total, version = [], 0, -1
    for time, channel, value in events:
        if channel == 2:
            expected.append((time, version, total))
            total, version = 0, value
        else:
            total += value
    queues = [[(t, v) for t, s, v in events if s == channel] for channel in range(3)]
    merge, emitted = merging.begin(), []
    while any(queues):
        arrived = []
        for channel, queue in enumerate(queues):
            part = [queue.pop(0) for _ in range(min(len(queue), rng.randrange(9)))]
            columns = np.array(part, dtype=np.int64).reshape(-1, 2)
            arrived.append((channel, merging.Chunk(columns[:, 0], columns[:, 1])))
        merge, closed = merging.advance(merge, arrived)
        emitted += [tuple(segment) for segment in closed]
    # The last marker waits: no channel of values has gone past it.
    assert emitted == expected[:-1]
