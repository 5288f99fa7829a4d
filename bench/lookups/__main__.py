"""How long does a lookup of one key take over HTTP, while the query runs?

A query counts events by key; a replica follows it and gets requests for random keys, by wrk if it is installed,
else by a generator in Python, which is slower than the server. Every second some keys change; the delay between
the commit of a batch and its serving is measured as well. Answers are checked at the end.
`make bench ARGS="lookups --keys 100000,1000000 --seconds 20 --connections 16"`.
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from anabranch import Program, depends, on
from anabranch.state import Count, MapOf

RESULTS = Path(__file__).resolve().parent.parent / "results"
CHANGES = 10_000
"""How many events come every second while look-ups are measured."""


class Seen(NamedTuple):
    time: int
    key: int


class Asked(NamedTuple):
    time: int
    key: int


counts = Program(
    on(Seen, update=lambda count, seen: count + 1),
    on(Asked, output=lambda count, asked: count),
    depends(Asked, Seen, Asked, same="key"),
    depends(Seen, Seen, same="key"),
    state=MapOf(Count(), by="key"),
)


def main(arguments: list[str]) -> int:
    """Measure for each number of keys; print a line for each, and keep it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench lookups", description=__doc__)
    parser.add_argument("--keys", default="100000,1000000")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument(
        "--objects", action="store_true", help="row path: state as objects (default: columns)"
    )
    options = parser.parse_args(arguments)
    found = [
        measure(int(keys), options.seconds, options.connections, columns=not options.objects)
        for keys in options.keys.split(",")
    ]
    RESULTS.mkdir(exist_ok=True)
    record = {
        "bench": "lookups",
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "runs": found,
    }
    (RESULTS / "lookups.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


def measure(keys: int, seconds: int, connections: int, *, columns: bool) -> dict[str, Any]:
    """Run a query over so many keys, serve it, and put it under load."""
    from anabranch.spark import Frame, run, start_session, write_directory
    from anabranch.spark.inspect.follower import Follower
    from anabranch.spark.inspect.http_server import Server

    spark = start_session(name="lookups", ui=False)
    with tempfile.TemporaryDirectory(prefix="anabranch-lookups-") as place:
        home = Path(place)
        writer = Writer(home / "in", keys)
        # The last event is not stable, so it is not of a key of its own.
        writer.write([*range(keys), 0])
        frame = spark.readStream.schema("time long, key long, seq long").parquet(str(home / "in"))
        source = Frame(frame, channel="s", event=Seen, seq="seq")
        result = run(counts, [source], columnar="auto" if columns else "never")
        trigger = {"processingTime": "0 seconds"}
        query = write_directory(
            result, output=home / "out", checkpoint=home / "checkpoint", trigger=trigger
        )
        while not (home / "checkpoint" / "commits" / "0").exists():
            query.awaitTermination(0.2)
        since = time.monotonic()
        follower = Follower(query)
        loaded_s = time.monotonic() - since
        fresh: list[float] = []

        def note(copy: Any) -> None:
            committed = (home / "checkpoint" / "commits" / str(copy.batch)).stat().st_mtime
            fresh.append(time.time() - committed)

        with Server(follower, show=note) as server:
            feeding = threading.Thread(target=writer.go_on, args=(seconds,))
            feeding.start()
            load = press(server.port, keys, seconds, connections)
            feeding.join()
            check(server.port, writer)
        query.stop()
    found = {
        "keys": keys,
        "state": "columns" if columns else "objects",
        **load,
        "load_s": loaded_s,
        "served_after_ms": {
            "median": 1000 * statistics.median(fresh), "worst": 1000 * max(fresh),
            "batches": len(fresh),
        },
    }  # fmt: skip
    print(
        f"  {keys:>10,} keys in {found['state']}: p50 {load['p50_ms']:.2f} ms, p99 {load['p99_ms']:.2f} ms, "
        f"{load['per_s']:,.0f} lookups/s by {load['by']}, {connections} connections; replica loaded in "
        f"{loaded_s:.1f} s; a batch is served {1000 * statistics.median(fresh):,.0f} ms after its commit "
        f"(worst {1000 * max(fresh):,.0f} ms, {len(fresh)} batches)"
    )
    return found


class Writer:
    """What comes in: files of events, each by one rename; and how often each key was seen."""

    def __init__(self, folder: Path, keys: int) -> None:
        folder.mkdir(parents=True)
        self.folder, self.keys = folder, keys
        self.seen: dict[int, int] = {}
        self._seq = self._files = 0
        self._random = random.Random(1)

    def write(self, keys: Any) -> None:
        """Write one file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        line = list(keys)
        places = list(range(self._seq, self._seq + len(line)))
        self._seq += len(line)
        for key in line:
            self.seen[key] = self.seen.get(key, 0) + 1
        draft = self.folder / f".{self._files}"
        pq.write_table(pa.table({"time": places, "key": line, "seq": places}), draft)
        draft.rename(self.folder / f"{self._files:06}.parquet")
        self._files += 1

    def go_on(self, seconds: int) -> None:
        """Write a file every second."""
        for _ in range(seconds):
            self.write(self._random.randrange(self.keys) for _ in range(CHANGES))
            time.sleep(1)


def press(port: int, keys: int, seconds: int, connections: int) -> dict[str, Any]:
    """Ask for keys at random; return latencies in milliseconds and the rate."""
    wrk = shutil.which("wrk")
    if wrk is None:
        return press_slowly(port, keys, seconds, connections)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(
            "math.randomseed(1)\nrequest = function()\n"
            f'  return wrk.format("GET", "/state/" .. math.random(0, {keys - 1}))\nend\n'
        )
        script.flush()
        emitted = subprocess.run(
            [wrk, "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", script.name,
             f"http://127.0.0.1:{port}"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", emitted)
    if refused is not None:
        raise AssertionError(f"{refused[1]} lookups failed")
    return {"by": "wrk", **read_wrk(emitted)}


def read_wrk(emitted: str) -> dict[str, float]:
    r"""Return p50, p99 and the rate that wrk prints.

    >>> read_wrk("  50%  800.00us\n  99%    1.20ms\nRequests/sec:   2100.56")
    {'p50_ms': 0.8, 'p99_ms': 1.2, 'per_s': 2100.56}
    """
    units = {"us": 0.001, "ms": 1.0, "s": 1000.0}
    found = {}
    for share in ("50", "99"):
        number, unit = re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", emitted).groups()  # type: ignore[union-attr]
        found[f"p{share}_ms"] = float(number) * units[unit]
    rate = re.search(r"Requests/sec:\s+([\d.]+)", emitted)
    assert rate is not None
    return {**found, "per_s": float(rate[1])}


def press_slowly(port: int, keys: int, seconds: int, connections: int) -> dict[str, Any]:
    """Do what wrk does, in threads of Python: it measures more of the generator than of the server."""
    latencies: list[float] = []

    def ask(seed: int) -> None:
        channel, end = random.Random(seed), time.monotonic() + seconds
        with closing(HTTPConnection("127.0.0.1", port)) as client:
            while time.monotonic() < end:
                since = time.perf_counter()
                client.request("GET", f"/state/{channel.randrange(keys)}")
                reply = client.getresponse()
                reply.read()
                assert reply.status == 200
                latencies.append(1000 * (time.perf_counter() - since))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cuts = statistics.quantiles(latencies, n=100)
    return {
        "by": "threads of Python", "p50_ms": cuts[49], "p99_ms": cuts[98],
        "per_s": len(latencies) / seconds,
    }  # fmt: skip


def check(port: int, writer: Writer) -> None:
    """Wait until everything that came is served, then hold some answers against what was written."""
    asked = random.Random(2).sample(range(writer.keys), min(500, writer.keys))
    # The last event is not stable, as another one may have its time.
    asked = [key for key in asked if writer.seen[key] > 0]
    end = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/state?keys={','.join(map(str, asked))}"
        ) as reply:
            found = {one["key"]: one["value"] for one in json.load(reply)["found"]}
        wrong = [key for key in asked if found.get(key) != writer.seen[key]]
        if len(wrong) <= 1:
            return
        if time.monotonic() > end:
            raise AssertionError(f"{len(wrong)} of {len(asked)} answers are wrong")
        time.sleep(0.2)


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
