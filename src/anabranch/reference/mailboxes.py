"""Mailboxes: where events wait until everything they depend on is known.

As in Flumina, a mailbox keeps a queue and a timer per stream, and lets the head of a queue pass
when each stream it is ordered with has either a later head, or nothing queued and a timer that
has gone by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from anabranch.model.order import OrderKey
from anabranch.reference.node_assignment import Stream

Request = tuple[OrderKey, Any]
"""An event at its owner, or, at those below, the request to hand in their state for it (None)."""

_NOTHING_YET: OrderKey = (-(1 << 64),)


class Mailbox:
    """The waiting room of one node."""

    __slots__ = ("_conflicts", "_queues", "_timers")

    def __init__(self, conflicts: dict[Stream, tuple[Stream, ...]]) -> None:
        self._conflicts = conflicts
        self._queues: dict[Stream, deque[Request]] = {stream: deque() for stream in conflicts}
        self._timers: dict[Stream, OrderKey] = dict.fromkeys(conflicts, _NOTHING_YET)

    def put(self, stream: Stream, key: OrderKey, request: Any) -> None:
        """Queue a request and move the stream's timer."""
        assert key > self._timers[stream], (
            f"{stream} went back from {self._timers[stream]} to {key}"
        )
        self._queues[stream].append((key, request))
        self._timers[stream] = key

    def advance(self, stream: Stream, key: OrderKey) -> None:
        """Move a stream's timer: a heartbeat is never queued."""
        self._timers[stream] = max(self._timers[stream], key)

    def release(self, changed: Stream) -> Iterator[tuple[Stream, OrderKey, Any]]:
        """Yield everything that may pass, now that one stream has changed."""
        queues, conflicts = self._queues, self._conflicts
        work = [changed, *conflicts[changed]]
        while work:
            stream = work.pop()
            queue = queues[stream]
            released = False
            while queue and self._may_pass(stream, queue[0][0]):
                key, request = queue.popleft()
                released = True
                yield stream, key, request
            if released:
                work += conflicts[stream]

    def _may_pass(self, stream: Stream, key: OrderKey) -> bool:
        queues, timers = self._queues, self._timers
        for other in self._conflicts[stream]:
            queue = queues[other]
            if (queue[0][0] if queue else timers[other]) < key:
                return False
        return True

    def waiting(self) -> int:
        """Return how many events wait here; requests from above and snapshots are not events."""
        return sum(bool(event) for queue in self._queues.values() for _, event in queue)
