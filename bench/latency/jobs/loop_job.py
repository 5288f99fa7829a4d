"""The floor: a loop over three sockets in plain Python, which merges by time."""

import selectors
import socket
import time
from collections import deque

from answers import keep, read_task


def main() -> None:
    """Read until all channels have ended."""
    task = read_task()
    selector = selectors.DefaultSelector()
    queues: list[deque[tuple[int, int]]] = [deque() for _ in task.ports]
    last, rests = [-1] * len(task.ports), [b""] * len(task.ports)
    emitted: list[tuple[int, int, float]] = []
    total = 0
    for number, port in enumerate(task.ports):
        reader = socket.create_connection(("127.0.0.1", port))
        selector.register(reader, selectors.EVENT_READ, number)
    while selector.get_map():
        for ready, _ in selector.select():
            number = ready.data
            data = ready.fileobj.recv(1 << 20)  # type: ignore[union-attr]
            if not data:
                selector.unregister(ready.fileobj)
            *lines, rests[number] = (rests[number] + data).split(b"\n")
            for line in lines:
                when, _, value = line.split(b",")
                queues[number].append((int(when), int(value)))
                last[number] = int(when)
        while queues[2] and queues[2][0][0] <= min(last[:2]):
            until, _ = queues[2].popleft()
            for queue in queues[:2]:
                while queue and queue[0][0] < until:
                    total += queue.popleft()[1]
            emitted.append((until, total, time.time()))
            total = 0
    keep(task, emitted)


if __name__ == "__main__":
    main()
