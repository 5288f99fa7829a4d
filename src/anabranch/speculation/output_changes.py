"""Output changes: the outputs of a speculative run, and their retractions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

from anabranch.eventtime.channels import Rejected
from anabranch.model.events import Event
from anabranch.model.order import OrderKey
from anabranch.model.values.maps import Map

Mode = Literal["settled", "speculative"]
"""Whether outputs are emitted once, when they are settled, or at once, with retractions."""

OutputId = tuple[OrderKey, int]
"""The unique id of an output in a run: the order key of its event, and its index."""


class OutputChange(NamedTuple):
    """An output (`op` is 1) or a retraction (-1). The id is the one that the output settles with."""

    op: int
    id: OutputId
    value: Any
    event: Event


class Settled(NamedTuple):
    """The events that a watermark has settled: how many were processed, faults, and outputs of timers."""

    processed: int
    faults: list[Rejected]
    emitted: list[OutputChange] = []  # noqa: RUF012 - never changed


class CorrectedRow(Protocol):
    """A row of a run: an `OutputChange`, or the equivalent of another runtime."""

    @property
    def id(self) -> Any: ...

    @property
    def value(self) -> Any: ...

    def _replace(self, *, op: int) -> Self: ...


SomeRow = TypeVar("SomeRow", bound=CorrectedRow)


def list_outputs(key: OrderKey, event: Event, outputs: Iterable[Any]) -> list[OutputChange]:
    """Return the rows for the outputs of an event."""
    return [OutputChange(1, (key, index), value, event) for index, value in enumerate(outputs)]


def order_rows(row: OutputChange) -> tuple[OutputId, int]:
    """Return the sort key of rows that are emitted together."""
    return row.id, row.op


def compare(
    before: Mapping[Any, SomeRow],
    now: Iterable[SomeRow],
    order: Callable[[Any], Any] | None = None,
) -> list[SomeRow]:
    """Return the retractions and outputs that turn the rows `before`, by id, into the rows `now`.

    Retractions of ids that do not exist any more are first, in the `order` of their ids.
    """
    rows: list[SomeRow] = []
    current = set()
    for row in now:
        current.add(row.id)
        old = before.get(row.id)
        if old is None:
            rows.append(row)
        elif not is_alike(old.value, row.value):
            rows += [old._replace(op=-1), row]
    vanished = sorted((name for name in before if name not in current), key=order)
    return [*(before[name]._replace(op=-1) for name in vanished), *rows]


class Amount(NamedTuple):
    """The number of emitted rows, retractions included, and of the valid outputs."""

    emitted: int = 0
    valid: int = 0

    @property
    def ratio(self) -> float:
        """Return the number of emitted rows per valid output: 1.0 if there were no retractions."""
        return self.emitted / self.valid if self.valid else 1.0

    @property
    def extra(self) -> float:
        """Return the share of emitted rows beyond the valid outputs."""
        return self.ratio - 1

    def __str__(self) -> str:
        return f"{self.emitted:,} rows emitted for {self.valid:,} valid outputs, {self.extra:.1%} extra"


def measure(rows: Iterable[OutputChange]) -> Amount:
    """Return the number of emitted rows, and of valid outputs."""
    ops = [row.op for row in rows]
    return Amount(len(ops), sum(ops))


def is_alike(a: Any, b: Any, most: int | None = None) -> bool:
    """Return whether two values are identical: stricter than `==`, for which 1 equals 1.0 and True.

    A `Map` of more than `most` entries counts as changed: the comparison would cost more than it saves.

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
