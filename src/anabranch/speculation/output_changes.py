"""What a speculative run says: outputs, and retractions of outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

from anabranch.eventtime.channels import Rejected
from anabranch.model.events import Event
from anabranch.model.order import OrderKey
from anabranch.model.values.maps import Map

Mode = Literal["settled", "speculative"]
"""Whether outputs appear once they are stable, or at once, with retractions."""

OutputId = tuple[OrderKey, int]
"""What tells an output from every other one of a run: the order key of its event, and a number."""


class OutputChange(NamedTuple):
    """An output that is said (`op` is 1) or taken back (-1). The id is the one it settles with."""

    op: int
    id: OutputId
    value: Any
    event: Event


class Settled(NamedTuple):
    """What became of the events that a watermark has passed, and what timers had to say then."""

    processed: int
    faults: list[Rejected]
    emitted: list[OutputChange] = []  # noqa: RUF012 - never changed


class CorrectedRow(Protocol):
    """A row of a run: `Spoken` here, and what other runtimes make of it."""

    @property
    def id(self) -> Any: ...

    @property
    def value(self) -> Any: ...

    def _replace(self, *, op: int) -> Self: ...


SomeRow = TypeVar("SomeRow", bound=CorrectedRow)


def list_outputs(key: OrderKey, event: Event, outputs: Iterable[Any]) -> list[OutputChange]:
    """Return the rows of an event in its place."""
    return [OutputChange(1, (key, index), value, event) for index, value in enumerate(outputs)]


def order_rows(row: OutputChange) -> tuple[OutputId, int]:
    """Return what the rows of one moment are sorted by."""
    return row.id, row.op


def compare(
    before: Mapping[Any, SomeRow],
    now: Iterable[SomeRow],
    order: Callable[[Any], Any] | None = None,
) -> list[SomeRow]:
    """Return the retractions and rows that lead from rows by their ids to those of now.

    Retractions of what is no more come first, in the `order` of their ids.
    """
    rows: list[SomeRow] = []
    standing = set()
    for row in now:
        standing.add(row.id)
        old = before.get(row.id)
        if old is None:
            rows.append(row)
        elif not is_alike(old.value, row.value):
            rows += [old._replace(op=-1), row]
    vanished = sorted((name for name in before if name not in standing), key=order)
    return [*(before[name]._replace(op=-1) for name in vanished), *rows]


class Amount(NamedTuple):
    """How much was said, retractions included, to bring about the outputs that stand."""

    emitted: int = 0
    valid: int = 0

    @property
    def ratio(self) -> float:
        """Return how many rows were said for each that stands: 1.0 if none was in vain."""
        return self.emitted / self.valid if self.valid else 1.0

    @property
    def extra(self) -> float:
        """Return the share of what was said beyond what stands."""
        return self.ratio - 1

    def __str__(self) -> str:
        return f"{self.emitted:,} said for {self.valid:,} that stand, {self.extra:.1%} extra"


def measure(rows: Iterable[OutputChange]) -> Amount:
    """Count what was said, and what of it stands."""
    ops = [row.op for row in rows]
    return Amount(len(ops), sum(ops))


def is_alike(a: Any, b: Any, most: int | None = None) -> bool:
    """Say whether two values can't be told apart: stricter than `==`, for which 1 is 1.0 and True.

    A `Map` of more than `most` entries counts as changed: to look would cost more than it saves.

    >>> is_alike((1, "a"), (1, "a")), is_alike(1, 1.0), is_alike(0.0, -0.0)
    (True, False, False)
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in (int, str, bool, bytes):
        return bool(a == b)
    if kind is float:
        return repr(a) == repr(b)
    if issubclass(kind, tuple | list):
        return len(a) == len(b) and all(map(is_alike, a, b))
    if kind in (dict, Map):
        if most is not None and len(a) > most:
            return False
        return a.keys() == b.keys() and all(is_alike(a[key], b[key]) for key in a)
    return bool(a == b) and repr(a) == repr(b)
