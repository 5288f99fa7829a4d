"""A network of ordered channels whose random choices all come from one seed."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

Address = int
"""A node from zero on, or a channel below zero."""

Message = tuple[Any, ...]


class Network:
    """Deliver messages at least once, in order per channel, in any order between channels."""

    __slots__ = ("_active", "_channels", "_rng", "_seen", "duplicates", "messages", "repeat")

    def __init__(self, rng: random.Random, repeat: float) -> None:
        self._rng = rng
        self.repeat = repeat
        self._channels: dict[tuple[Address, Address], deque[tuple[int, Message]]] = {}
        self._active: list[tuple[Address, Address]] = []
        self._seen: dict[tuple[Address, Address], list[int]] = {}
        self.messages = 0
        self.duplicates = 0

    def send(self, sender: Address, receiver: Address, message: Message) -> None:
        """Put a message on the channel between two addresses."""
        pair = (sender, receiver)
        channel = self._channels.get(pair)
        if channel is None:
            channel = self._channels[pair] = deque()
            self._seen[pair] = [0, 0]  # messages sent, messages received
        if not channel:
            self._active.append(pair)
        self._seen[pair][0] += 1
        channel.append((self._seen[pair][0], message))
        self.messages += 1

    def deliver(self) -> tuple[Address, Message] | None:
        """Deliver the next message of some channel; return None when all are empty.

        A channel may deliver a message and keep it; the receiver drops repeated messages.
        """
        active, rng = self._active, self._rng
        while active:
            place = int(rng.random() * len(active))
            pair = active[place]
            channel = self._channels[pair]
            number, message = channel[0]
            if self.repeat and rng.random() < self.repeat:
                pass
            else:
                channel.popleft()
                if not channel:
                    active[place] = active[-1]
                    active.pop()
            counts = self._seen[pair]
            if number <= counts[1]:
                self.duplicates += 1
                continue
            counts[1] = number
            return pair[1], message
        return None

    def lose_everything(self) -> None:
        """Drop all messages in transit, before all nodes restart."""
        self._channels.clear()
        self._active.clear()
        self._seen.clear()
