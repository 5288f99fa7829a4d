"""Lists and bags: what can be promised of many items, in order and without."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.shapes import MISSING, Fork, Join
from anabranch.model.slices import Slices
from anabranch.state.durable.codec import list_records
from anabranch.state.value_order import is_written_alike, write_canonically
from anabranch.state.values import Order, check_order, rank_item

Items = tuple[Any, ...]

Counts = tuple[tuple[Any, int], ...]
"""Items in the order of their bytes, each with how often it is there."""


@dataclass(frozen=True)
class ListOf:
    """Items in order; with `last`, only so many of the last.

    As it stands it keeps the order in which events come, per key, and can't be cut: of two parts, nobody
    could say which item came first. With `ordered_by`, a field or a function of the item, it keeps that
    order instead, and among equals that of their bytes; then it may be cut, and folded apart. If items are
    records that are no events, name the record as `of`.

    >>> ListOf(last=2).add((3, 1), 2)
    (1, 2)
    >>> ListOf(ordered_by=lambda item: item).add((1, 3), 2)
    (1, 2, 3)
    """

    of: Any = None
    ordered_by: Order | None = None
    last: int | None = None
    by: None = None

    def __post_init__(self) -> None:
        if self.ordered_by is not None:
            check_order("ListOf", self.ordered_by)
        if self.last is not None and (type(self.last) is not int or self.last < 1):
            raise ProgramError(
                "ListOf keeps nothing", expected="last of 1 or more", got=repr(self.last)
            )

    @property
    def init(self) -> Items:
        """Return no items."""
        return ()

    @property
    def zero(self) -> Any:
        """Return no items, or MISSING where order is that of events."""
        return MISSING if self.ordered_by is None else ()

    @property
    def fork(self) -> Fork | None:
        """Return how to cut it, if items say their order."""
        return None if self.ordered_by is None else self._fork

    @property
    def join(self) -> Join | None:
        """Return how to put it together, if items say their order."""
        return None if self.ordered_by is None else self._join

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that items may be, or hold."""
        return list_records(self.of)

    def _fork(self, state: Items, left: Slices, right: Slices) -> tuple[Items, Items]:
        return state, ()

    def _join(self, a: Items, b: Items) -> Items:
        if not a or not b:
            return a or b
        return self._keep(tuple(sorted((*a, *b), key=self._rank)))

    def same(self, a: Items, b: Items) -> bool:
        """Compare exactly."""
        return is_written_alike(a, b)

    def add(self, state: Items, item: Any) -> Items:
        """Return the items with one more in its place: the end, unless it says another."""
        if self.ordered_by is None:
            return self._keep((*state, item))
        place = bisect_right(state, self._rank(item), key=self._rank)
        return self._keep((*state[:place], item, *state[place:]))

    def value(self, state: Items) -> Items:
        """Return the items."""
        return state

    def _keep(self, items: Items) -> Items:
        return items if self.last is None else items[-self.last :]

    def _rank(self, item: Any) -> tuple[Any, bytes]:
        assert self.ordered_by is not None
        return rank_item(self.ordered_by, item)


@dataclass(frozen=True)
class Bag:
    """Items without an order, each as often as it was put in and not taken out.

    A part may take out what another part has put in: until they are joined, it is there less than no times.
    So a bag may be cut, also where items go. Items are alike if they are written alike.

    >>> bag = Bag()
    >>> bag.join(bag.add(bag.zero, "a"), bag.remove(bag.zero, "a"))
    ()
    """

    of: Any = None
    by: None = None

    @property
    def init(self) -> Counts:
        """Return no items."""
        return ()

    zero = init

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that items may be, or hold."""
        return list_records(self.of)

    def fork(self, state: Counts, left: Slices, right: Slices) -> tuple[Counts, Counts]:
        """Leave the items on the left."""
        return state, ()

    def join(self, a: Counts, b: Counts) -> Counts:
        """Put the items together."""
        if not a or not b:
            return a or b
        counts: dict[bytes, tuple[Any, int]] = {}
        for item, count in (*a, *b):
            data = write_canonically(item)
            counts[data] = (item, count + counts.get(data, (item, 0))[1])
        return tuple(counts[data] for data in sorted(counts) if counts[data][1])

    def same(self, a: Counts, b: Counts) -> bool:
        """Compare exactly."""
        return is_written_alike(a, b)

    def add(self, state: Counts, item: Any) -> Counts:
        """Return the items with one more."""
        return self._change(state, item, 1)

    def remove(self, state: Counts, item: Any) -> Counts:
        """Return the items with one less."""
        return self._change(state, item, -1)

    def value(self, state: Counts) -> Items:
        """Return the items, each as often as it is there."""
        return tuple(item for item, count in state for _ in range(count))

    def size(self, state: Counts) -> int:
        """Return how many items there are."""
        return sum(max(0, count) for _, count in state)

    def _change(self, state: Counts, item: Any, by: int) -> Counts:
        data = write_canonically(item)
        place = bisect_left(state, data, key=lambda pair: write_canonically(pair[0]))
        known = place < len(state) and write_canonically(state[place][0]) == data
        count = by + (state[place][1] if known else 0)
        here = ((item, count),) if count else ()
        return (*state[:place], *here, *state[place + known :])


@dataclass(frozen=True)
class SplitList(Bag):
    """Items that are dealt out between the sides of a fork, and put together by a join.

    A `Bag` that is cut evenly: no side is left with all of it. Flink calls it list state of an operator.

    >>> SplitList().fork((("a", 1), ("b", 2)), Slices(), Slices())
    ((('a', 1), ('b', 1)), (('b', 1),))
    """

    def fork(self, state: Counts, left: Slices, right: Slices) -> tuple[Counts, Counts]:
        """Deal the items out, one to the left and one to the right."""
        sides: tuple[list[tuple[Any, int]], list[tuple[Any, int]]] = ([], [])
        turn = 0
        for item, count in state:
            half, odd = divmod(count, 2)
            for number, side in enumerate(sides):
                share = half + (odd if number == turn else 0)
                if share:
                    side.append((item, share))
            turn = (turn + odd) % 2
        return tuple(sides[0]), tuple(sides[1])


@dataclass(frozen=True)
class UnionList:
    """Items of many owners, of which each side of a fork gets all, and a join keeps each once.

    An item is known by its owner and its bytes, so what both sides have is one item, not two; an owner that
    has two alike puts a number beside them. Flink calls it union list state of an operator.

    >>> union = UnionList()
    >>> both = union.fork(union.add(union.zero, "task 1", 7), Slices(), Slices())
    >>> union.value(union.join(*both))
    (('task 1', 7),)
    """

    of: Any = None
    by: None = None

    @property
    def init(self) -> Items:
        """Return no items."""
        return ()

    zero = init

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that items may be, or hold."""
        return list_records(self.of)

    def fork(self, state: Items, left: Slices, right: Slices) -> tuple[Items, Items]:
        """Give both sides everything."""
        return state, state

    def join(self, a: Items, b: Items) -> Items:
        """Return the items of both, each once."""
        found = {write_canonically(pair): pair for pair in (*a, *b)}
        return tuple(found[data] for data in sorted(found))

    def same(self, a: Items, b: Items) -> bool:
        """Compare exactly."""
        return is_written_alike(a, b)

    def add(self, state: Items, owner: Any, item: Any) -> Items:
        """Return the items with one more of an owner."""
        data = write_canonically((owner, item))
        place = bisect_left(state, data, key=write_canonically)
        if place < len(state) and write_canonically(state[place]) == data:
            return state
        return (*state[:place], (owner, item), *state[place:])

    def value(self, state: Items) -> Items:
        """Return pairs of an owner and an item."""
        return state

    def of_owner(self, state: Items, owner: Any) -> Items:
        """Return the items of one owner."""
        return tuple(item for known, item in state if known == owner)
