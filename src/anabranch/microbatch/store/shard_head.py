"""The head of a shard: the small part of its state, read and written with every batch."""

from __future__ import annotations

from typing import Any, NamedTuple


class Head(NamedTuple):
    """The small part of a shard's state: read and written with every batch.

    `pages` says of each page of pending events its earliest time, and how many are counted here.
    `clock_ms` is the recorded time of the last batch, if anybody has to know it. `held` says what else
    there must be in the store.
    """

    standings: dict[str, tuple[Any, ...]]
    ledger: tuple[int, ...]
    pages: dict[int, tuple[int, int]]
    made_by: dict[str, str]
    clock_ms: int | None = None
    held: dict[str, int] | None = None
