"""The producer: values of two channels at a fixed rate and a barrier per 1,000 of them, over TCP.

A line is `time,seq,value`. The first 12 seconds warm the reader up; after that the moment at which
each barrier was made is noted. A barrier can be answered when both channels of values have gone past
it, which is a tick later: that is the least that a latency can be.
"""

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

CHANNELS = ("values-0", "values-1", "barriers")
TICK_S = 0.01
PER_BARRIER = 1_000


class Schedule(NamedTuple):
    """How fast, how long, and for how long nothing is noted."""

    per_second: int = 10_000
    seconds: int = 20
    warm_s: int = 12


def listen() -> list[socket.socket]:
    """Open a port for each channel, wherever there is one free."""
    return [socket.create_server(("127.0.0.1", 0)) for _ in CHANNELS]


def produce(servers: list[socket.socket], schedule: Schedule, ended: Path) -> None:
    """Serve one reader; when all is sent, write what was made when into the file `ended`."""
    readers = [server.accept()[0] for server in servers]
    for reader in readers:
        reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made: dict[int, float] = {}
    totals: dict[int, int] = {}
    clock = count = total = barriers = 0
    behind_s = 0.0
    started = time.time()
    for tick in range(int((schedule.seconds + schedule.warm_s) / TICK_S)):
        wait = started + tick * TICK_S - time.time()
        time.sleep(max(0.0, wait))
        behind_s = max(behind_s, -wait)
        lines: list[list[str]] = [[], [], []]
        fresh: list[int] = []
        for _ in range(int(schedule.per_second * TICK_S)):
            clock += 1
            value = count * 7919 % 1000
            lines[count % 2].append(f"{clock},{count // 2},{value}\n")
            total += value
            count += 1
            if count % PER_BARRIER == 0:
                clock += 1
                lines[2].append(f"{clock},{barriers},0\n")
                fresh.append(clock)
                totals[clock] = total
                total = 0
                barriers += 1
        if tick * TICK_S >= schedule.warm_s:
            made |= dict.fromkeys(fresh, time.time())
        for reader, part in zip(readers, lines, strict=True):
            reader.sendall("".join(part).encode())
    record: dict[str, Any] = {"made": made, "totals": totals, "behind_s": behind_s}
    # Some readers stop at the end of a stream, and forget what they hold: leave them a moment.
    time.sleep(2)
    draft = ended.with_suffix(".draft")
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.rename(ended)
    for reader in readers:
        reader.close()


if __name__ == "__main__":
    the_servers = listen()
    print(",".join(str(server.getsockname()[1]) for server in the_servers), flush=True)
    produce(the_servers, Schedule(*(int(word) for word in sys.argv[2:5])), Path(sys.argv[1]))
