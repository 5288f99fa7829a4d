"""Deltas: the states that a shard folded before an event that the root runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.model.events import Event
from anabranch.model.order import OrderKey


class Delta(NamedTuple):
    """The states that a shard folded before an event that the root runs, by state type.

    Only one shard sends the event itself: its home shard.
    """

    key: OrderKey
    shard: int
    states: dict[str, Any]
    event: Event | None
    root: int
