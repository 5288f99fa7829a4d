"""Bytewax, event by event, one worker, without recovery: as quick as it gets."""

import socket
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from answers import keep, read_task
from bytewax._bytewax import cluster_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition


class Part(StatefulSourcePartition):
    """A socket."""

    def __init__(self, number: int, port: int) -> None:
        self.number = number
        self.reader = socket.create_connection(("127.0.0.1", port))
        self.reader.setblocking(False)
        self.rest = b""

    def next_batch(self) -> list[Any]:
        try:
            data = self.reader.recv(1 << 20)
        except BlockingIOError:
            return []
        if not data:
            raise StopIteration
        *lines, self.rest = (self.rest + data).split(b"\n")
        fields = (line.split(b",") for line in lines)
        return [("0", (self.number, int(when), int(value))) for when, _, value in fields]

    def next_awake(self) -> datetime:
        return datetime.now(UTC) + timedelta(milliseconds=1)

    def snapshot(self) -> None:
        return None


class Sockets(FixedPartitionedSource):
    """All channels."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports

    def list_parts(self) -> list[str]:
        return [str(number) for number in range(len(self.ports))]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> Part:
        return Part(int(for_part), self.ports[int(for_part)])


class Merge(StatefulBatchLogic):
    """Merge the channels by time."""

    def __init__(self, resume: None) -> None:
        self.queues: list[deque[tuple[int, int]]] = [deque(), deque(), deque()]
        self.last = [-1, -1, -1]
        self.total = 0

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Queue what arrived, then close what is complete."""
        for number, when, value in values:
            self.queues[number].append((when, value))
            self.last[number] = when
        marks, emitted = self.queues[2], []
        while marks and marks[0][0] <= min(self.last[:2]):
            until, _ = marks.popleft()
            for queue in self.queues[:2]:
                while queue and queue[0][0] < until:
                    self.total += queue.popleft()[1]
            emitted.append((until, self.total))
            self.total = 0
        return emitted, False

    def snapshot(self) -> None:
        return None


class Kept(StatelessSinkPartition):
    def __init__(self, emitted: list[Any]) -> None:
        self.emitted = emitted

    def write_batch(self, items: list[Any]) -> None:
        moment = time.time()
        self.emitted.extend((when, total, moment) for _, (when, total) in items)


class KeptSink(DynamicSink):
    def __init__(self, emitted: list[Any]) -> None:
        self.emitted = emitted

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Kept:
        return Kept(self.emitted)


def main() -> None:
    """Run until the channels have ended."""
    task = read_task()
    emitted: list[Any] = []
    flow = Dataflow("latency")
    stream = op.input("in", flow, Sockets(task.ports))
    op.output("out", op.stateful_batch("merge", stream, Merge), KeptSink(emitted))
    cluster_main(flow, [], 0, worker_count_per_proc=1)
    keep(task, emitted)


if __name__ == "__main__":
    main()
