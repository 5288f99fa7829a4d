"""Lists and bags: states of many items, ordered and unordered."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import KW_ONLY, dataclass
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.shapes import MISSING, Fork, Join
from anabranch.model.slices import Slices
from anabranch.state.durable.codec import list_records
from anabranch.state.value_order import is_written_alike, write_canonically
from anabranch.state.values import Order, check_order, rank_item

Items = tuple[Any, ...]

Counts = tuple[tuple[Any, int], ...]
"""Items in the order of their durable bytes, each with its count."""


@dataclass(frozen=True)
class ListOf:
    """A list of items; with `last`, only that many of the last items.

    By default items are in the order of events, per key, and the list can't be forked: the order of items of
    two parts is unknown. With `ordered_by`, a field or a function of the item, items are in that order, ties
    in the order of their durable bytes; then the list can be forked and joined. If items are records but not
    events, give the record type as `of`.

    >>> ListOf(last=2).add((3, 1), 2)
    (1, 2)
    >>> ListOf(ordered_by=lambda item: item).add((1, 3), 2)
    (1, 2, 3)
    """

    of: Any = None
    _: KW_ONLY
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
        """Return the empty tuple."""
        return ()

    @property
    def zero(self) -> Any:
        """Return the empty tuple, or MISSING if items are in the order of events."""
        return MISSING if self.ordered_by is None else ()

    @property
    def fork(self) -> Fork | None:
        """Return the fork, or None if there is no `ordered_by`."""
        return None if self.ordered_by is None else self._fork

    @property
    def join(self) -> Join | None:
        """Return the join, or None if there is no `ordered_by`."""
        return None if self.ordered_by is None else self._join

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that items may be, or contain."""
        return list_records(self.of)

    def _fork(self, state: Items, left: Slices, right: Slices) -> tuple[Items, Items]:
        return state, ()

    def _join(self, a: Items, b: Items) -> Items:
        if not a or not b:
            return a or b
        return self._keep(tuple(sorted((*a, *b), key=self._rank)))

    def same(self, a: Items, b: Items) -> bool:
        """Return whether two states are exactly equal."""
        return is_written_alike(a, b)

    def add(self, state: Items, item: Any) -> Items:
        """Return the items with one inserted: at the end, or at its place in `ordered_by`."""
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
    """A multiset of items.

    One part may remove an item that another part has added: until they are joined, its count there is
    negative. So a bag can be forked even if items are removed. Items are equal if their durable bytes are.

    >>> bag = Bag()
    >>> bag.join(bag.add(bag.zero, "a"), bag.remove(bag.zero, "a"))
    ()
    """

    of: Any = None
    _: KW_ONLY
    by: None = None

    @property
    def init(self) -> Counts:
        """Return the empty tuple."""
        return ()

    zero = init

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that items may be, or contain."""
        return list_records(self.of)

    def fork(self, state: Counts, left: Slices, right: Slices) -> tuple[Counts, Counts]:
        """Return the items for the left side, and none for the right."""
        return state, ()

    def join(self, a: Counts, b: Counts) -> Counts:
        """Return the items of both, with the sums of their counts."""
        if not a or not b:
            return a or b
        counts: dict[bytes, tuple[Any, int]] = {}
        for item, count in (*a, *b):
            data = write_canonically(item)
            counts[data] = (item, count + counts.get(data, (item, 0))[1])
        return tuple(counts[data] for data in sorted(counts) if counts[data][1])

    def same(self, a: Counts, b: Counts) -> bool:
        """Return whether two states are exactly equal."""
        return is_written_alike(a, b)

    def add(self, state: Counts, item: Any) -> Counts:
        """Return the bag with an item added."""
        return self._change(state, item, 1)

    def remove(self, state: Counts, item: Any) -> Counts:
        """Return the bag with an item removed."""
        return self._change(state, item, -1)

    def value(self, state: Counts) -> Items:
        """Return the items, each repeated by its count."""
        return tuple(item for item, count in state for _ in range(count))

    def size(self, state: Counts) -> int:
        """Return the number of items."""
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
    """A `Bag` whose items a fork distributes evenly over both sides, and a join combines.

    Flink calls it list state of an operator.

    >>> SplitList().fork((("a", 1), ("b", 2)), Slices(), Slices())
    ((('a', 1), ('b', 1)), (('b', 1),))
    """

    def fork(self, state: Counts, left: Slices, right: Slices) -> tuple[Counts, Counts]:
        """Return the items divided evenly, alternating between left and right."""
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
    """Items of several owners; each side of a fork gets all of them, and a join keeps each once.

    An item is identified by its owner and its durable bytes, so a join keeps one copy of an item of both
    sides; to store two equal items of one owner, number them. Flink calls it union list state of an operator.

    >>> union = UnionList()
    >>> both = union.fork(union.add(union.zero, "task 1", 7), Slices(), Slices())
    >>> union.value(union.join(*both))
    (('task 1', 7),)
    """

    of: Any = None
    _: KW_ONLY
    by: None = None

    @property
    def init(self) -> Items:
        """Return the empty tuple."""
        return ()

    zero = init

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that items may be, or contain."""
        return list_records(self.of)

    def fork(self, state: Items, left: Slices, right: Slices) -> tuple[Items, Items]:
        """Return all items for both sides."""
        return state, state

    def join(self, a: Items, b: Items) -> Items:
        """Return the items of both, each once."""
        found = {write_canonically(pair): pair for pair in (*a, *b)}
        return tuple(found[data] for data in sorted(found))

    def same(self, a: Items, b: Items) -> bool:
        """Return whether two states are exactly equal."""
        return is_written_alike(a, b)

    def add(self, state: Items, owner: Any, item: Any) -> Items:
        """Return the items with an item of an owner added."""
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
