"""The unmatched items of one side, ordered by dependence.

Of two items of a stream, the earlier is *below* the later if a chain of dependent items leads from
one to the other. A *minimal* item has nothing below it. Only minimal items are ever removed, so
the set below an item shrinks from the bottom.

Each item stores one predecessor, its *blocker*: of the items it depends on, one so recent that
no item searched between the two could block it. When a blocker is removed, the search resumes where
it had stopped. This keeps one edge per item, where the whole graph of immediate predecessors can
have as many as the square of its items, and no pair is compared twice.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class _Everywhere(Enum):
    GLOBAL = "GLOBAL"

    def __repr__(self) -> str:
        return self.value


GLOBAL: Final = _Everywhere.GLOBAL
"""The bucket of an item that may depend on items of any bucket."""


class Element(Generic[T]):
    """One unmatched item; two elements are the same only if they are one object."""

    __slots__ = ("blocker", "bucket", "item", "position", "waiting")

    def __init__(
        self, item: T, position: int, bucket: Hashable, blocker: "Element[T] | None"
    ) -> None:
        self.item = item
        self.position = position
        self.bucket = bucket
        self.blocker = blocker
        self.waiting: list[Element[T]] = []


class Chain(Generic[T]):
    """Elements in order of arrival; a search can go back from any of them."""

    __slots__ = ("_newer", "_older", "newest")

    def __init__(self) -> None:
        self.newest: Element[T] | None = None
        self._older: dict[Element[T], Element[T] | None] = {}
        self._newer: dict[Element[T], Element[T]] = {}

    def __len__(self) -> int:
        return len(self._older)

    def __iter__(self) -> Iterator[Element[T]]:
        return iter(self._older)

    def older(self, element: Element[T]) -> Element[T] | None:
        """Return the element that arrived just before this one, among those not removed."""
        return self._older[element]

    def append(self, element: Element[T]) -> None:
        """Add the newest element."""
        self._older[element] = self.newest
        if self.newest is not None:
            self._newer[self.newest] = element
        self.newest = element

    def remove(self, element: Element[T]) -> None:
        """Remove an element from any position of the chain."""
        older = self._older.pop(element)
        newer = self._newer.pop(element, None)
        if newer is None:
            self.newest = older
            if older is not None:
                del self._newer[older]
        else:
            self._older[newer] = older
            if older is not None:
                self._newer[older] = newer


class Bucket(Generic[T]):
    """The elements of one bucket, and those of them that are minimal in the whole poset."""

    __slots__ = ("chain", "minimal")

    def __init__(self) -> None:
        self.chain: Chain[T] = Chain()
        # Not a dict: finding its first key takes longer with each key removed from the front.
        self.minimal: OrderedDict[Element[T], None] = OrderedDict()


class Poset(Generic[T]):
    """The unmatched items of one side, ordered by dependence."""

    def __init__(self, depends: Callable[[T, T], bool], same: Callable[[T, T], bool]) -> None:
        self._depends = depends
        self._same = same
        self._all: Chain[T] = Chain()
        self._buckets: dict[Hashable, Bucket[T]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Element[T]]:
        """Iterate over the elements, oldest first."""
        return iter(self._all)

    def minimal(self) -> Iterator[Element[T]]:
        """Iterate over the elements with nothing below them, oldest first."""
        return (element for element in self._all if element.blocker is None)

    def find_dependent(self, item: T, bucket: Hashable) -> Element[T] | None:
        """Return an element that the item depends on, or None if it depends on none."""
        if bucket is GLOBAL:
            return self._search(self._all, self._all.newest, item)
        # GLOBAL first: a resumed search can start at a waiting element of its own bucket, but
        # it could not find its place among elements of GLOBAL that arrived after that element.
        for name in (GLOBAL, bucket):
            held = self._buckets.get(name)
            if held is not None:
                found = self._search(held.chain, held.chain.newest, item)
                if found is not None:
                    return found
        return None

    def find_minimal(self, item: T, bucket: Hashable) -> Element[T] | None:
        """Return the oldest minimal element that equals the item, or None."""
        held = self._buckets.get(bucket)
        if held is None:
            return None
        matches = (element for element in held.minimal if self._same(element.item, item))
        return next(matches, None)

    def append(
        self, item: T, position: int, bucket: Hashable, blocker: Element[T] | None
    ) -> Element[T]:
        """Add an item above all it depends on; `blocker` is the result of `find_dependent` for it."""
        element = Element(item, position, bucket, blocker)
        held = self._buckets.get(bucket)
        if held is None:
            held = self._buckets[bucket] = Bucket()
        self._all.append(element)
        held.chain.append(element)
        if blocker is None:
            held.minimal[element] = None
        else:
            blocker.waiting.append(element)
        return element

    def remove(self, element: Element[T]) -> None:
        """Remove a minimal element; elements that waited only for it become minimal."""
        assert element.blocker is None, "only a minimal element may be matched"
        # Oldest first: a search may read the blocker of an older, equal element, which must
        # not be the element being removed.
        for waiter in sorted(element.waiting, key=lambda waiter: waiter.position):
            blocker = self._resume(waiter, element)
            waiter.blocker = blocker
            if blocker is None:
                self._buckets[waiter.bucket].minimal[waiter] = None
            else:
                blocker.waiting.append(waiter)
        self._all.remove(element)
        held = self._buckets[element.bucket]
        held.chain.remove(element)
        del held.minimal[element]
        if not held.chain:
            del self._buckets[element.bucket]

    def _resume(self, waiter: Element[T], leaving: Element[T]) -> Element[T] | None:
        """Continue the waiter's search from where it had found the leaving element."""
        if waiter.bucket is GLOBAL:
            return self._search(self._all, self._all.older(leaving), waiter.item)
        chain = self._buckets[leaving.bucket].chain
        found = self._search(chain, chain.older(leaving), waiter.item)
        if found is None and leaving.bucket is GLOBAL:
            chain = self._buckets[waiter.bucket].chain
            found = self._search(chain, chain.older(waiter), waiter.item)
        return found

    def _search(self, chain: Chain[T], start: Element[T] | None, item: T) -> Element[T] | None:
        """Walk back from `start` to the first element that the item depends on."""
        element = start
        while element is not None:
            if self._depends(element.item, item):
                return element
            if self._same(element.item, item):
                # Equal items depend on the same items, so both searches have the same result.
                return element.blocker
            element = chain.older(element)
        return None
