"""FlameStream's own programs, as it writes them: a state that drifts round a cycle."""

import itertools
from typing import Any, NamedTuple

from tests.speculation.flamestream.flows import BARRIER, Flow
from tests.speculation.flamestream.operations import Broadcast, Grouping, Map, Merge


class Drift(NamedTuple):
    """A state on its way back to the grouping that it came from."""

    key: Any
    value: Any


class Entry(NamedTuple):
    """What comes from outside."""

    key: Any
    value: Any


def drift(start, add):
    """Return the map that makes the next state of a state and an item, and drops other groups."""

    def combine(group):
        *before, last = group
        if isinstance(last, Drift):
            return []
        if not before:
            return [Drift(last.key, add(start, last.value))]
        # An item right after an item still waits for the state between them.
        (state,) = before
        return [Drift(last.key, add(state.value, last.value))] if isinstance(state, Drift) else []

    return combine


def make_stateful(start, add, *first):
    """Return `(state, item) -> state` as a flow, after some other operations."""
    names = [f"first {n}" for n in range(len(first))]
    operations = {
        **dict(zip(names, first, strict=True)),
        "merge": Merge(),
        "group": Grouping(lambda item: item.key, window=2),
        "combine": Map(drift(start, add)),
        "both": Broadcast(),
    }
    path = [*names, "merge", "group", "combine", "both", BARRIER]
    edges = (*itertools.pairwise(path), ("both", "merge"))
    return Flow(operations, edges, path[0])


drifting_sum = make_stateful(0, lambda total, value: total + value)
word_count = make_stateful(
    0,
    lambda count, _: count + 1,
    Map(lambda text: [Entry(word, 1) for word in text.split()]),
)
