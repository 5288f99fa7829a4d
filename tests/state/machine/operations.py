"""What a machine's programs do to a field of their state: by the library, and in plain Python beside it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from anabranch.state import Bag, Count, Dictionary, ListOf, Max, SetOf, Sum, Value

FREE = ("count", "total", "top", "kinds", "names", "bag", "share")
"""Those of which the order does not matter."""
ALL = (*FREE, "recent", "chain")


class Operation(NamedTuple):
    """A state and how it takes a number; then the same with ints, tuples, sets and dicts alone."""

    shape: Any
    add: Callable[[Any, int], Any]
    show: Callable[[Any], Any]
    start: Any
    step: Callable[[Any, int], Any]
    tell: Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


def count_one(counts: dict[int, int], name: int) -> dict[int, int]:
    return counts | {name: counts.get(name, 0) + 1}


def list_items(counts: dict[int, int]) -> list[list[int]]:
    return [list(pair) for pair in sorted(counts.items())]


OPERATIONS = {
    "count": Operation(Count(), lambda s, a: Count().add(s), same, 0, lambda n, a: n + 1, same),
    "total": Operation(Sum(), lambda s, a: Sum().add(s, a), same, 0, lambda n, a: n + a, same),
    "top": Operation(
        Max(), lambda s, a: Max().add(s, a), same,
        None, lambda n, a: a if n is None else max(n, a), same,
    ),
    "kinds": Operation(
        SetOf(), lambda s, a: SetOf().add(s, a % 3), sorted,
        frozenset(), lambda n, a: n | {a % 3}, sorted,
    ),
    "names": Operation(
        Dictionary(Count()), lambda s, a: Dictionary(Count()).add(s, a % 3),
        lambda s: list_items(Dictionary(Count()).value(s)),
        {}, lambda n, a: count_one(n, a % 3), list_items,
    ),
    "bag": Operation(
        Bag(), lambda s, a: Bag().add(s, a % 4), lambda s: list(Bag().value(s)),
        (), lambda n, a: tuple(sorted((*n, a % 4))), list,
    ),
    # Raises for a zero: such an event is rejected, and nothing of it stays.
    "share": Operation(
        Sum(), lambda s, a: Sum().add(s, 12 // a), same, 0, lambda n, a: n + 12 // a, same
    ),
    "recent": Operation(
        ListOf(last=3), lambda s, a: ListOf(last=3).add(s, a), list,
        (), lambda n, a: (*n, a)[-3:], list,
    ),
    "chain": Operation(
        Value(start=1), lambda s, a: (s * 31 + a) % 1009, same, 1, lambda n, a: (n * 31 + a) % 1009, same
    ),
}  # fmt: skip
