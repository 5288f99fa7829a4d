"""Workloads: what is asked, and the events of each channel, drawn from a fixed seed.

Times interleave between the channels of a workload, and are unique but for bids, so an engine that takes
events as they arrive gets W2, W3 and W5 wrong. Each channel is cut into slices at the same times; a slice
is one file, and one micro-batch of the engines that have them. After the last event that counts, closing
events carry every channel past it: no engine needs to know that the input has ended.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Kind = Literal["fold", "barrier", "pages", "windows", "ewma"]
Array = npt.NDArray[np.generic]

SEED = 42
PER_MARKER = 10_000
SAMPLED = 1_000
"""How many keys of a growing state are asked for; writing ten million answers would be the bench."""
SIZE_MS, EVERY_MS = 100_000, 1_000
BIDS_PER_MS = 10
SHORTEST_MS = 400_000
"""What bids span at least, however few there are: four windows side by side."""
BIDS_PER_AUCTION = 4_000


@dataclass(frozen=True)
class Workload:
    """A question that every contender answers: its size is given by `n`, the events that count."""

    name: str
    title: str
    kind: Kind
    n: int
    slices: int
    keys: int = 0
    per_marker: int = PER_MARKER
    loaded: bool = False
    size: int = 0
    every: int = 0

    @property
    def label(self) -> str:
        """Name the folder of the input: two workloads that differ never share one."""
        return f"{self.name}-n{self.n}-s{self.slices}"


class Drawn(NamedTuple):
    """One channel: its columns in the order of its sequence. Only Anabranch reads the `asks`."""

    name: str
    columns: dict[str, Array]


class Input(NamedTuple):
    """The channels of a workload, and the last time of each slice but the last."""

    channels: list[Drawn]
    cuts: Array


GROWTH = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def list_workloads(n: int, slices: int, growth: tuple[int, ...] = GROWTH) -> dict[str, Workload]:
    """Return the workloads by name, in the order of the table."""
    # A small n is for trying things out; then there are fewer keys and closer markers.
    per_marker = min(PER_MARKER, max(2, n // 20))
    fold_keys, ewma_keys = min(100_000, max(2, n // 10)), min(10_000, max(2, n // 100))
    auctions = min(1_000, max(2, n // BIDS_PER_AUCTION))
    found = [
        Workload("w1", f"max and count of {fold_keys:,} keys", "fold", n, slices, fold_keys),
        Workload(
            "w2", f"one hot key, a barrier per {per_marker:,}", "barrier", n, slices, 1, per_marker
        ),
        Workload("w3", "page views, two hot pages", "pages", n, slices, 2, per_marker),
        Workload(
            "w4", f"average per auction, hop 100 s by 1 s, {auctions:,} auctions", "windows",
            n, slices, auctions, size=SIZE_MS, every=EVERY_MS,
        ),
        Workload(
            "w4-tumbling", f"average per auction, tumbling 100 s, {auctions:,} auctions", "windows",
            n, slices, auctions, size=SIZE_MS, every=SIZE_MS,
        ),
        Workload("w5", f"EWMA of {ewma_keys:,} keys in event time", "ewma", n, slices, ewma_keys),
    ]  # fmt: skip
    found += [
        Workload(f"w6-{keys}", f"{keys:,} keys in state", "fold", n, slices, keys, loaded=True)
        for keys in growth
    ]
    return {workload.name: workload for workload in found}


def draw_input(workload: Workload) -> Input:
    """Draw the events of every channel."""
    rng = np.random.default_rng(SEED)
    if workload.kind == "barrier":
        return _draw_barriers(workload, rng)
    if workload.kind == "pages":
        return _draw_pages(workload, rng)
    if workload.kind == "windows":
        return _draw_bids(workload, rng)
    return _draw_readings(workload, rng)


def list_asked(workload: Workload) -> Array:
    """Return the keys whose answer is compared."""
    if not workload.loaded:
        return np.arange(workload.keys)
    return np.arange(0, workload.keys, max(1, workload.keys // SAMPLED))


def _draw_readings(workload: Workload, rng: np.random.Generator) -> Input:
    n, keys = workload.n, workload.keys
    load = rng.permutation(keys) if workload.loaded else np.zeros(0, np.int64)
    # However many keys are in the state, a batch touches as many of them, from all over it.
    touched = list_asked(workload)
    key = np.concatenate([load, touched[rng.integers(0, len(touched), n)]])
    value = rng.random(len(key))
    time = np.arange(1, len(key) + 1)
    cuts = len(load) + n * np.arange(1, workload.slices) // workload.slices
    if workload.loaded:
        cuts = np.concatenate([[len(load)], cuts])
    asked = list_asked(workload)
    end = len(key) + 1 + len(asked)
    channels = []
    for number in (0, 1):
        # The key after the last is not counted: its reading closes the channel.
        mine = slice(number, None, 2)
        closed = {
            "time": np.append(time[mine], end + number),
            "key": np.append(key[mine], keys),
            "value": np.append(value[mine], 0.0),
        }
        channels.append(_number(f"readings-{number}", closed))
    beats = len(cuts)
    asks = {
        "time": np.concatenate([cuts, len(key) + 1 + np.arange(len(asked))]),
        "key": np.concatenate([np.full(beats, -1), asked]),
        "is_heartbeat": np.arange(beats + len(asked)) < beats,
    }
    return Input([*channels, _number("asks", asks)], cuts)


def _draw_barriers(workload: Workload, rng: np.random.Generator) -> Input:
    n, per = workload.n, workload.per_marker
    index = np.arange(n)
    time = index + index // per + 1
    value = rng.integers(0, 1000, n)
    barriers = np.arange(1, (n - 1) // per + 1) * (per + 1)
    channels = [_number(f"values-{s}", {"time": time[s::2], "value": value[s::2]}) for s in (0, 1)]
    cuts = time[n * np.arange(1, workload.slices) // workload.slices]
    return Input([*channels, _number("barriers", {"time": barriers})], cuts)


def _draw_pages(workload: Workload, rng: np.random.Generator) -> Input:
    n, per = workload.n, workload.per_marker
    page = rng.integers(0, 2, n)
    time = 4 * np.arange(n) + 10
    end = 4 * n + 20
    updates: dict[str, list[Array]] = {"time": [], "page": [], "version": []}
    for number in (0, 1):
        after = time[np.flatnonzero(page == number)[per - 1 :: per]] + 1 + number
        times = np.concatenate([[1 + number], after, [end + number]])
        updates["time"].append(times)
        updates["page"].append(np.full(len(times), number))
        updates["version"].append(np.arange(len(times)))
    order = np.argsort(np.concatenate(updates["time"]))
    channels = []
    for number in (0, 1):
        closing = end + 10 + 2 * np.arange(2) + number
        views = {
            "time": np.append(time[number::2], closing),
            "page": np.append(page[number::2], [0, 1]),
        }
        channels.append(_number(f"views-{number}", views))
    columns = {name: np.concatenate(parts)[order] for name, parts in updates.items()}
    cuts = time[n * np.arange(1, workload.slices) // workload.slices]
    return Input([*channels, _number("updates", columns)], cuts)


def _draw_bids(workload: Workload, rng: np.random.Generator) -> Input:
    n, auctions = workload.n, workload.keys
    # From the size of a window on, so that none begins before time does.
    time = workload.size + np.arange(n) * max(SHORTEST_MS, n // BIDS_PER_MS) // n
    auction = rng.integers(0, auctions, n)
    price = rng.integers(1, 10_000, n)
    channels = []
    for number in (0, 1):
        # The auction after the last is not counted: its bid closes the channel, and every window.
        mine = slice(number, None, 2)
        bids = {
            "time": np.append(time[mine], time[-1] + 2 * workload.size + number),
            "auction": np.append(auction[mine], auctions),
            "price": np.append(price[mine], 0),
        }
        channels.append(_number(f"bids-{number}", bids))
    cuts = time[n * np.arange(1, workload.slices) // workload.slices]
    return Input(channels, cuts)


def _number(name: str, columns: dict[str, Array]) -> Drawn:
    return Drawn(name, {**columns, "seq": np.arange(len(columns["time"]))})
