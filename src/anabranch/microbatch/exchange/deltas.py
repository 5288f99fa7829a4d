"""Deltas: what a shard folded before an event that the root runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.model.events import Event
from anabranch.model.order import OrderKey


class Delta(NamedTuple):
    """What a shard folded before an event that the root runs, by state type.

    The event itself comes from one shard only: the one that it is at home in.
    """

    key: OrderKey
    shard: int
    states: dict[str, Any]
    event: Event | None
    root: int
