"""An online matcher of two streams, up to a dependence relation, with the earliest verdict.

Two streams are equivalent if one becomes the other by swapping neighbours that do not depend on
each other. The matcher keeps only unmatched items. A new item cancels an equal item of the other
side if neither has an unmatched item below it. If it cannot, and it depends on an unmatched item
of the other side, then the streams differ whatever follows. Otherwise the item waits.
So unmatched items of the two sides are never equal and never dependent.

The method and its proofs are DiffStream's (Kallas, Niksic, Stanford, Alur; OOPSLA 2020): the
verdict is reached at the earliest possible item, and no method can keep fewer items.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from anabranch.equivalence.difference import Arrival, Difference, Side
from anabranch.equivalence.poset import GLOBAL, Element, Poset

T = TypeVar("T")

MOST_EXPECTED: Final = 5
"""The maximum number of expected items in a difference."""


def depends_fully(left: object, right: object) -> bool:
    """Return True for every two items: the streams are compared as sequences."""
    return True


def depends_never(left: object, right: object) -> bool:
    """Return False for every two items: the streams are compared as multisets.

    Use it with `bucket=lambda item: item` where items are hashable; otherwise each new item is
    compared with all unmatched items.
    """
    return False


def _equal(left: object, right: object) -> bool:
    return bool(left == right)


class Matcher(Generic[T]):
    """Compare two streams while they arrive, in any interleaving.

    depends: whether the order of two items matters. Must be symmetric, and the same for equal
            items: if x depends on y and x equals z, then z depends on y.
    same: equality of items, `==` unless given. Under `==` a NaN equals nothing, not even itself.
    bucket: optional, for speed. Items of different buckets must be unequal and, unless one of
        them is in `GLOBAL`, independent.
    context: how many of the last items of each side a difference shows.

    >>> matcher = Matcher(depends_fully)
    >>> matcher.add(Side.LEFT, "a")
    >>> matcher.add(Side.RIGHT, "b").expected
    (Arrival(side=<Side.LEFT: 'left'>, position=0, item='a'),)
    """

    def __init__(
        self,
        depends: Callable[[T, T], bool],
        *,
        same: Callable[[T, T], bool] = _equal,
        bucket: Callable[[T], Hashable] | None = None,
        context: int = 3,
    ) -> None:
        if context < 0:
            raise ValueError(f"context must be 0 or more items, got {context}")
        self._depends = depends
        self._bucket = bucket
        self._unmatched = {side: Poset(depends, same) for side in Side}
        self._count = dict.fromkeys(Side, 0)
        self._recent: dict[Side, deque[T]] = {side: deque(maxlen=context) for side in Side}
        self._difference: Difference[T] | None = None

    @property
    def unmatched(self) -> tuple[int, int]:
        """Return the number of unmatched items: left, right."""
        return len(self._unmatched[Side.LEFT]), len(self._unmatched[Side.RIGHT])

    def add(self, side: Side, item: T) -> Difference[T] | None:
        """Add the next item of one side; return the difference once there is one.

        After the first difference, further items are ignored and the same difference is returned.
        """
        if self._difference is not None:
            return self._difference
        side = Side(side)
        position = self._count[side]
        self._count[side] = position + 1
        self._recent[side].append(item)
        bucket = GLOBAL if self._bucket is None else self._bucket(item)
        own, other = self._unmatched[side], self._unmatched[side.other]
        blocker = own.find_dependent(item, bucket)
        if blocker is None:
            counterpart = other.find_minimal(item, bucket)
            if counterpart is not None:
                other.remove(counterpart)
                return None
        conflict = other.find_dependent(item, bucket)
        if conflict is None:
            own.append(item, position, bucket, blocker)
        else:
            self._difference = self._report_conflict(Arrival(side, position, item), conflict)
        return self._difference

    def finish(self) -> Difference[T] | None:
        """Return the difference of the streams as if both ended here, or None if they are equivalent.

        The matcher does not change: more items may be added afterwards.
        """
        if self._difference is not None or self.unmatched == (0, 0):
            return self._difference
        left, right = (self._list_minimal(side) for side in Side)
        if not left:
            return self._build(Side.LEFT, None, right, ended=True)
        return self._build(Side.RIGHT, right[0] if right else None, left, ended=True)

    def _report_conflict(self, came: Arrival[T], conflict: Element[T]) -> Difference[T]:
        """Return the difference: the items that must precede `came`, the minimal one below `conflict` first."""
        root = conflict
        while root.blocker is not None:
            root = root.blocker
        other = came.side.other
        also = (
            element
            for element in self._unmatched[other].minimal()
            if element is not root and self._depends(element.item, came.item)
        )
        owed = [root, *islice(also, MOST_EXPECTED - 1)]
        expected = tuple(Arrival(other, element.position, element.item) for element in owed)
        return self._build(came.side, came, expected, ended=False)

    def _list_minimal(self, side: Side) -> tuple[Arrival[T], ...]:
        first = islice(self._unmatched[side].minimal(), MOST_EXPECTED)
        return tuple(Arrival(side, element.position, element.item) for element in first)

    def _build(
        self,
        side: Side,
        came: Arrival[T] | None,
        expected: tuple[Arrival[T], ...],
        *,
        ended: bool,
    ) -> Difference[T]:
        came_position = self._count[side] if came is None else came.position
        positions = {side: came_position, side.other: expected[0].position}
        named = expected if came is None else (came, *expected)
        # The deciding item has no counterpart either, but it is never stored.
        surplus = {side: 0 if ended else 1, side.other: 0}
        return Difference(
            side=side,
            came=came,
            expected=expected,
            ended=ended,
            left_position=positions[Side.LEFT],
            right_position=positions[Side.RIGHT],
            left_context=self._show(Side.LEFT, named),
            right_context=self._show(Side.RIGHT, named),
            left_unmatched=len(self._unmatched[Side.LEFT]) + surplus[Side.LEFT],
            right_unmatched=len(self._unmatched[Side.RIGHT]) + surplus[Side.RIGHT],
        )

    def _show(self, side: Side, named: tuple[Arrival[T], ...]) -> tuple[Arrival[T], ...]:
        """Return the last few items of a side and the named ones, in order of position."""
        recent = self._recent[side]
        first = self._count[side] - len(recent)
        shown = {at: Arrival(side, at, item) for at, item in enumerate(recent, first)}
        shown |= {arrival.position: arrival for arrival in named if arrival.side is side}
        return tuple(shown[position] for position in sorted(shown))


def compare(
    left: Iterable[T],
    right: Iterable[T],
    depends: Callable[[T, T], bool],
    *,
    same: Callable[[T, T], bool] = _equal,
    bucket: Callable[[T], Hashable] | None = None,
    context: int = 3,
) -> Difference[T] | None:
    """Compare two finite streams; return their difference, or None if they are equivalent.

    The streams are read alternately and only as far as needed. Whether there is a difference does
    not depend on the order of reading; which of several differences is found first may.

    >>> compare("acb", "cab", lambda x, y: "b" in (x, y)) is None
    True
    """
    matcher = Matcher(depends, same=same, bucket=bucket, context=context)
    for side, item in _alternate(left, right):
        difference = matcher.add(side, item)
        if difference is not None:
            return difference
    return matcher.finish()


def _alternate(left: Iterable[T], right: Iterable[T]) -> Iterator[tuple[Side, T]]:
    """Yield an item of each in turn; when one has ended, yield the rest of the other."""
    turns = deque([(Side.LEFT, iter(left)), (Side.RIGHT, iter(right))])
    while turns:
        side, items = turns.popleft()
        for item in islice(items, 1):
            yield side, item
            turns.append((side, items))
