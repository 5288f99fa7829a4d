"""The dependence graph on slices, stored as bundles so that a thousand slices stay cheap.

A dependence between two event types connects many slices at once: all on one side of it with
all on the other. Such a bundle takes linear space where its edges are quadratic.
Slices that share events are connected too: two nodes side by side can't both handle them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from anabranch.model.dependence import Dependence, Same
from anabranch.model.slices import Equals, Shard, Slice, choices_overlap


@dataclass
class Bundle:
    """Two groups of slices, by number; no slice of one may run in parallel with one of the other."""

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)


def bundle_up(dependence: Dependence, slices: Sequence[Slice]) -> list[Bundle]:
    """Return the slices that must not run in parallel, because they depend or overlap, as bundles."""
    by_type: dict[type, list[int]] = {}
    for number, part in enumerate(slices):
        by_type.setdefault(part.event_type, []).append(number)
    bundles: list[Bundle] = []
    event_types = list(by_type)
    for place, a in enumerate(event_types):
        for b in event_types[place:]:
            for same in dependence.restrictions(a, b):
                bundles += _bundle_pair(slices, by_type[a], by_type[b], same)
        bundles += _bundle_overlaps(slices, by_type[a])
    return bundles


def _bundle_pair(
    slices: Sequence[Slice], lefts: list[int], rights: list[int], same: Same
) -> list[Bundle]:
    """Return the bundles of two event types: by the exact values of cuts, else compared one by one."""
    exact: dict[tuple[object, ...], Bundle] = {}
    loose_left: list[int] = []
    loose_right: list[int] = []
    shards = _find_even_shards([slices[n] for n in (*lefts, *rights)], same)
    for numbers, side, loose in ((lefts, "left", loose_left), (rights, "right", loose_right)):
        for number in numbers:
            choices = [(name, slices[number].choice(name)) for name in same]
            if all(isinstance(choice, Equals) or name in shards for name, choice in choices):
                value = tuple(choice for _, choice in choices)
                getattr(exact.setdefault(value, Bundle()), side).append(number)
            else:
                loose.append(number)
    bundles = list(exact.values())
    bundles += [_bundle_one(slices, n, rights, same, left=True) for n in loose_left]
    bundles += [_bundle_one(slices, n, lefts, same, left=False) for n in loose_right]
    return bundles


def _find_even_shards(parts: Sequence[Slice], fields: Iterable[str]) -> set[str]:
    """Return the fields by which all slices are cut into the same shards: these are exact too."""
    found = set()
    for name in fields:
        cuts = {
            (c.count, c.but) if isinstance(c := part.choice(name), Shard) else None
            for part in parts
        }
        if len(cuts) == 1 and None not in cuts:
            found.add(name)
    return found


def _bundle_overlaps(slices: Sequence[Slice], numbers: list[int]) -> list[Bundle]:
    """Return the bundles of slices of one event type that share events; compare only candidates."""
    parts = [slices[n] for n in numbers]
    fields = {name for part in parts for name, _ in part.where}
    sourced = all(part.channel is not None for part in parts)
    exact = _find_even_shards(parts, fields) | {
        name for name in fields if all(isinstance(part.choice(name), Equals) for part in parts)
    }
    near: dict[tuple[object, ...], list[int]] = {}
    for number, part in zip(numbers, parts, strict=True):
        cut = tuple(part.choice(name) for name in sorted(exact))
        near.setdefault((part.channel if sourced else None, *cut), []).append(number)
    bundles = []
    for group in near.values():
        for place, number in enumerate(group):
            others = [n for n in group[place + 1 :] if slices[number].overlaps(slices[n])]
            if others:
                bundles.append(Bundle([number], others))
    return bundles


def _bundle_one(
    slices: Sequence[Slice], number: int, others: list[int], same: Same, *, left: bool
) -> Bundle:
    mine = slices[number]
    near = [
        other
        for other in others
        if all(choices_overlap(f, mine.choice(f), slices[other].choice(f)) for f in same)
    ]
    return Bundle([number], near) if left else Bundle(near, [number])


class Islands:
    """Connected components, to which slices are added one at a time (union-find)."""

    def __init__(self, count: int, bundles: Sequence[Bundle]) -> None:
        self._parent = list(range(count))
        self._sides: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._present: list[tuple[list[int], list[int]]] = [([], []) for _ in bundles]
        for number, bundle in enumerate(bundles):
            for side, members in enumerate((bundle.left, bundle.right)):
                for member in members:
                    self._sides[member].append((number, side))
        self.count = 0

    def add(self, slice_number: int) -> int:
        """Add a slice and connect it; return the number of components."""
        self.count += 1
        for bundle, side in self._sides[slice_number]:
            mine, across = self._present[bundle][side], self._present[bundle][1 - side]
            mine.append(slice_number)
            if not across:
                continue
            # Slices that wait on a side become one component when the other side has its first slice.
            for other in (*across, *mine):
                self._union(slice_number, other)
            del mine[1:], across[1:]
        return self.count

    def find(self, slice_number: int) -> int:
        """Return the representative of a slice's component."""
        parent = self._parent
        while parent[slice_number] != slice_number:
            parent[slice_number] = parent[parent[slice_number]]
            slice_number = parent[slice_number]
        return slice_number

    def _union(self, a: int, b: int) -> None:
        first, second = self.find(a), self.find(b)
        if first != second:
            self._parent[second] = first
            self.count -= 1


def connect(dependence: Dependence, slices: Sequence[Slice]) -> list[list[int]]:
    """Return the connected components, as numbers of slices, in order of first member."""
    islands = Islands(len(slices), bundle_up(dependence, slices))
    for number in range(len(slices)):
        islands.add(number)
    found: dict[int, list[int]] = {}
    for number in range(len(slices)):
        found.setdefault(islands.find(number), []).append(number)
    return list(found.values())
