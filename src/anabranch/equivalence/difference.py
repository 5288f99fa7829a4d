"""The first difference between two streams, as data and as text."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")

LONGEST_REPR = 120


class Side(StrEnum):
    """Name one of the two streams under comparison."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> "Side":
        """Return the opposite side."""
        return Side.RIGHT if self is Side.LEFT else Side.LEFT


@dataclass(frozen=True, slots=True)
class Arrival(Generic[T]):
    """One item at a position (from 0) of one side's stream."""

    side: Side
    position: int
    item: T

    def __str__(self) -> str:
        return f"{self.side}[{self.position}] = {_shorten(self.item)}"


@dataclass(frozen=True, slots=True)
class Difference(Generic[T]):
    """The reason why no continuation can make two streams equivalent, or why their ends differ.

    side: the stream that deviates from the other: it contains `came`, or it ended too soon.
    came: the deciding item. After the end: an item that the other stream does not contain, if any.
    expected: items of the other stream that had to arrive first on `side`, the deciding one first.
    ended: whether the difference shows only at the end of both streams.
    left_position, right_position: the index in each stream at which the two deviate.
    left_context, right_context: the last few items of each stream, and those named above.
    left_unmatched, right_unmatched: how many items of each stream had no counterpart.
    """

    side: Side
    came: Arrival[T] | None
    expected: tuple[Arrival[T], ...]
    ended: bool
    left_position: int
    right_position: int
    left_context: tuple[Arrival[T], ...]
    right_context: tuple[Arrival[T], ...]
    left_unmatched: int
    right_unmatched: int

    def describe(self) -> str:
        """Return the difference as a few lines of plain text."""
        lines = [*(self._explain_end() if self.ended else self._explain_arrival())]
        lines += ["", "Around the first difference:"]
        named = {*map(_locate, self.expected)} | ({_locate(self.came)} if self.came else set())
        for side, context in ((Side.LEFT, self.left_context), (Side.RIGHT, self.right_context)):
            lines.append(f"  {side}")
            lines += _list_context(context, named)
        lines.append(
            f"Items without a counterpart: {self.left_unmatched} on the left, "
            f"{self.right_unmatched} on the right."
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.describe()

    def _explain_arrival(self) -> list[str]:
        owed, *others = self.expected
        lines = [
            f"The streams differ: an item of the {self.side} stream is too early, or one too many.",
            f"  got       {self.came}",
            f"  expected  {owed}",
        ]
        lines += [f"  and also  {arrival}" for arrival in others]
        lines.append(
            f"On the {self.side.other}, the expected item is first, and the order of the two matters."
        )
        return lines

    def _explain_end(self) -> list[str]:
        lines = [f"The streams differ: the {self.side} stream ended, and items are missing."]
        lines += [f"  missing   {arrival}" for arrival in self.expected]
        if self.came is not None:
            lines.append(f"  instead   {self.came}")
        return lines


def _locate(arrival: Arrival[T]) -> tuple[Side, int]:
    return arrival.side, arrival.position


def _list_context(context: tuple[Arrival[T], ...], named: set[tuple[Side, int]]) -> list[str]:
    """Return one line per item, with an arrow at the named items and dots for omitted ones."""
    if not context:
        return ["      (nothing)"]
    lines: list[str] = []
    expected_position = 0
    for arrival in context:
        if arrival.position != expected_position:
            lines.append("      ...")
        arrow = "-> " if _locate(arrival) in named else "   "
        lines.append(f"   {arrow}[{arrival.position}] {_shorten(arrival.item)}")
        expected_position = arrival.position + 1
    return lines


def _shorten(item: object) -> str:
    text = repr(item)
    return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 3] + "..."
