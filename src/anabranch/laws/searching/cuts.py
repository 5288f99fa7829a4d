"""Cuts: the divisions of the events between the sides of a fork that a valid plan allows.

Both sides of a cut are non-empty, disjoint and independent of each other, and their state types
handle their events. A plan node always has some slice, so a division with an empty side is no cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from anabranch.model.events import LANE, EventType, field_names
from anabranch.model.program import ForkJoin, Program
from anabranch.model.slices import Choice, Equals, Shard, Slice, Slices, admits

Side = Literal["left", "right"]
Fill = Literal["bare", "left", "right", "both"]

SIDES: tuple[Side, ...] = ("left", "right")
CHANNELS = ("s1", "s2", "s3", "s4")
MAX_DESCENTS = 24
"""The most paths by one fork that are tried; each is filled in three ways."""
MAX_DEPTH = 3
"""The most forks above a state."""


@dataclass(frozen=True)
class Cut:
    """A fork, and the slices of its left and right side."""

    fork: ForkJoin
    left: Slices
    right: Slices

    def side(self, side: Side) -> tuple[str, Slices]:
        """Return the state type and the slices of one side."""
        return (self.fork.left, self.left) if side == "left" else (self.fork.right, self.right)


ForkPath = tuple[tuple[ForkJoin, Side], ...]
"""The forks, and the side of each, by which a state type is reached from the initial one."""


class Cuts:
    """All cuts of a program's forks, computed on demand and cached."""

    def __init__(self, program: Program, domains: Mapping[str, tuple[Any, ...]]) -> None:
        self.program = program
        self.domains = domains
        self._seeds: dict[tuple[Any, ...], tuple[tuple[Slice, Slice], ...]] = {}
        self._filled: dict[tuple[Any, ...], Cut] = {}
        self._options: dict[tuple[Any, ...], tuple[Cut, ...]] = {}

    @cached_property
    def everything(self) -> Slices:
        """Return the slices of the root of a plan."""
        return Slices(self.program.event_types)

    @cached_property
    def pool(self) -> tuple[Slice, ...]:
        """Return the slices from which cuts are built, coarse ones first."""
        found = itertools.chain.from_iterable(map(self._slice_type, self.program.event_types))
        return tuple(sorted(dict.fromkeys(found), key=_fineness))

    def _slice_type(self, event_type: EventType) -> Iterator[Slice]:
        keys = [field for field in sorted(self.domains) if field in field_names(event_type)]
        places: list[tuple[tuple[str, Choice], ...]] = [()]
        for size in (1, 2):
            for fields in itertools.combinations(keys, size):
                values = [self.domains[field][: 4 - size] for field in fields]
                places += [
                    tuple((f, Equals(v)) for f, v in zip(fields, chosen, strict=True))
                    for chosen in itertools.product(*values)
                ]
        for where in places:
            yield Slice(event_type, where)
            for channel in CHANNELS if not where else CHANNELS[:3]:
                yield Slice(event_type, where, channel=channel)
            for lane in self._lane_choices(event_type):
                yield Slice(event_type, tuple(sorted((*where, (LANE, lane)))))
        for field, n in itertools.product(keys, range(2)):
            if any(admits(field, Shard(n, 2), value) for value in self.domains[field]):
                yield Slice(event_type, ((field, Shard(n, 2)),))

    def _lane_choices(self, event_type: EventType) -> list[Choice]:
        lanes = self.program.lanes
        if lanes is None or not any(LANE in same for same in self._own_restrictions(event_type)):
            return []
        single: list[Choice] = [Equals(n) for n in range(min(lanes, 3))]
        return [*single, Shard(0, 2), Shard(1, 2)] if lanes > 1 else single

    def _own_restrictions(self, event_type: EventType) -> frozenset[tuple[str, ...]]:
        return self.program.dependence.restrictions(event_type, event_type)

    def seeds(self, fork: ForkJoin, within: Slices) -> tuple[tuple[Slice, Slice], ...]:
        """Return the cuts of a node's slices with one slice on each side."""
        key = (fork.parent, fork.left, fork.right, within)
        if key not in self._seeds:
            inside = [part for part in self.pool if _inside(part, within)]
            left, right = map(self.program.state_type, (fork.left, fork.right))
            self._seeds[key] = tuple(
                (a, b)
                for a, b in itertools.product(inside, repeat=2)
                if a.event_type in left.handlers
                and b.event_type in right.handlers
                and self._apart(a, [b])
            )
        return self._seeds[key]

    def _apart(self, part: Slice, others: Iterable[Slice]) -> bool:
        depend = self.program.dependence.depend
        return not any(part.overlaps(other) or depend(part, other) for other in others)

    def fill(
        self, fork: ForkJoin, within: Slices, seed: tuple[Slice, Slice], how: Fill = "bare"
    ) -> Cut:
        """Return a cut grown from a seed: one side, or both in turn, take all slices they can."""
        key = (fork.parent, fork.left, fork.right, within, seed, how)
        if key not in self._filled:
            left, right = [seed[0]], [seed[1]]
            takes_left = self.program.state_type(fork.left).handlers
            takes_right = self.program.state_type(fork.right).handlers
            flip = False
            for part in self.pool if how != "bare" else ():
                if not _inside(part, within) or _inside(part, [*left, *right]):
                    continue
                to_left = part.event_type in takes_left and self._apart(part, right)
                to_right = part.event_type in takes_right and self._apart(part, left)
                if to_left and to_right:
                    flip = not flip
                    to_left = how == "left" or (how == "both" and not flip)
                if to_left or to_right:
                    (left if to_left else right).append(part)
            self._filled[key] = Cut(fork, Slices(left), Slices(right))
        return self._filled[key]

    def can(self, name: str, within: Slices, path: ForkPath, fork: ForkJoin | None) -> bool:
        """Return whether a path can be followed from here, and at its end a cut by `fork`, if given."""
        if not path:
            return fork is None or bool(self.seeds(fork, within))
        return bool(self.options(name, within, path, fork))

    def options(
        self, name: str, within: Slices, path: ForkPath, fork: ForkJoin | None
    ) -> tuple[Cut, ...]:
        """Return the cuts for the first step of a path after which the other steps are possible."""
        key = (within, tuple((f.parent, f.left, f.right, s) for f, s in path), fork and id(fork))
        if key not in self._options:
            step, side = path[0]
            found: dict[Cut, None] = {}
            hows: tuple[Fill, ...] = ("bare", side, "both")
            for seed in _spread(self.seeds(step, within), MAX_DESCENTS):
                for how in hows:
                    cut = self.fill(step, within, seed, how)
                    child, inner = cut.side(side)
                    if cut not in found and self.can(child, inner, path[1:], fork):
                        found[cut] = None
            self._options[key] = tuple(found)
        return self._options[key]

    def paths(self, target: str, fork: ForkJoin | None = None) -> tuple[ForkPath, ...]:
        """Return the paths to states of a type (that `fork` can cut), shortest first.

        Paths one fork longer than needed are included: a fork may be right on the initial states
        of a run and wrong on states that were forked already.
        """
        start = self.program.initial.name
        paths: list[ForkPath] = [()]
        found: list[ForkPath] = []
        for length in range(MAX_DEPTH + 1):
            if found and length > len(found[0]) + 1:
                break
            found += [
                path
                for path in paths
                if (_end(path) or start) == target and self.can(start, self.everything, path, fork)
            ]
            longer = [
                (*path, (step, side))
                for path in paths
                for step in self.program.forks
                if step.parent == (_end(path) or start)
                for side in SIDES
            ]
            paths = [path for path in longer if self.can(start, self.everything, path, None)]
        return tuple(found)


def _end(path: ForkPath) -> str | None:
    if not path:
        return None
    fork, side = path[-1]
    return fork.left if side == "left" else fork.right


def _spread(items: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return at most `count` items, evenly from the whole list."""
    step = max(1, -(-len(items) // count))
    return items[::step]


def _fineness(part: Slice) -> tuple[int, int]:
    shards = sum(isinstance(choice, Shard) for _, choice in part.where)
    return len(part.where) + (part.channel is not None), shards


def _inside(part: Slice, within: Iterable[Slice]) -> bool:
    return any(_contains(outer, part) for outer in within)


def _contains(outer: Slice, inner: Slice) -> bool:
    """Return whether every event of one slice is certainly an event of another."""
    if outer.event_type is not inner.event_type or outer.channel not in (None, inner.channel):
        return False
    return all(_implies(field, inner.choice(field), choice) for field, choice in outer.where)


def _implies(field: str, narrow: Choice | None, wide: Choice) -> bool:
    if isinstance(narrow, Equals):
        return admits(field, wide, narrow.value)
    if isinstance(narrow, Shard) and isinstance(wide, Shard):
        return narrow.count % wide.count == 0 and narrow.index % wide.count == wide.index
    return False
