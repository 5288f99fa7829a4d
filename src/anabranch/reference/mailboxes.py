"""Mailboxes: queues in which events wait until all events that they depend on have arrived.

As in Flumina, a mailbox keeps a queue and a timer per stream. It releases the head of a queue when
each stream that it is ordered with has either a later head, or an empty queue and a later timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from anabranch.model.order import OrderKey
from anabranch.reference.node_assignment import Stream

Request = tuple[OrderKey, Any]
"""An event at its owner; or None at the nodes below: the request to send their state for it."""

_NOTHING_YET: OrderKey = (-(1 << 64),)


class Mailbox:
    """The queues and timers of one node."""

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
        """Move a stream's timer. A heartbeat is never queued."""
        self._timers[stream] = max(self._timers[stream], key)

    def release(self, changed: Stream) -> Iterator[tuple[Stream, OrderKey, Any]]:
        """Yield the requests that are released by a change of one stream."""
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
        """Return the number of queued events; requests from above and snapshots are not events."""
        return sum(bool(event) for queue in self._queues.values() for _, event in queue)
