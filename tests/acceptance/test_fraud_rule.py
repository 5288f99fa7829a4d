"""A fraud rule on lines that are out of order, repeated and broken, by a driver that is killed and restarted."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

from tests.acceptance.sizes import choose_size
from tests.conftest import clean_environment

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("fraud_job.py")
LINES, FILES = choose_size(small=4_000, full=200_000), 5
PATIENCE_S = 240
LATENESS_MS = 5_000


def make_lines(rng):
    """Return lines in order of arrival: each a payment, a payment again, or nothing that can be read."""
    arrivals = []
    for number in range(LINES):
        moment = number * 20 + rng.randrange(20)
        cents = rng.choice([rng.randrange(1, 100), rng.randrange(50_000, 90_000), 700])
        fields = {"time": moment, "id": f"p{number}", "account": f"a{rng.randrange(LINES // 40)}"}
        line = json.dumps({**fields, "cents": cents})
        delay = 0
        if rng.random() < 0.05:  # Out of order; some by more than the channel allows.
            delay = rng.randrange(1, LATENESS_MS * 11 // 10)
        arrivals.append((moment + delay, line))
        if rng.random() < 0.01:
            arrivals.append((moment + delay + rng.randrange(1, 400), line))
        if rng.random() < 0.005:
            broken = [line[: len(line) // 2], line.replace(f'"cents": {cents}', '"cents": "much"')]
            arrivals.append((moment, rng.choice([*broken, line.replace('"time"', '"tme"')])))
    arrivals.sort(key=lambda pair: pair[0])
    return [line for _, line in arrivals]


def read_payment(line):
    """Return a line's payment, or None; by no rule of ours but JSON and the types of four fields."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    kinds = {"time": int, "id": str, "account": str, "cents": int}
    return row if all(isinstance(row.get(name), kind) for name, kind in kinds.items()) else None


def find_answer(lines):
    """Return the alerts, the ids of late lines, and the broken lines, from all lines at once."""
    good, late, broken, largest = [], [], [], None
    for place, line in enumerate(lines):
        row = read_payment(line)
        if row is None:
            broken.append(line)
        elif largest is not None and row["time"] < largest - LATENESS_MS:
            late.append(row["id"])
        else:
            largest = row["time"] if largest is None else max(largest, row["time"])
            good.append((row["time"], place, row))
    # No more than the watermark has passed: what is within the lateness of the end is still awaited.
    settled = [
        (moment, place, row) for moment, place, row in good if moment < largest - LATENESS_MS
    ]
    alerts, last, seen = [], {}, set()
    for moment, _, row in sorted(settled, key=lambda item: item[:2]):
        if row["id"] in seen:
            continue
        seen.add(row["id"])
        tried = last.pop(row["account"], None)
        if row["cents"] < 100:
            last[row["account"]] = moment
        elif tried is not None and row["cents"] >= 50_000 and moment - tried <= 60_000:
            alerts.append((row["account"], row["id"], row["cents"], moment - tried))
    counts = {"input": len(lines), "processed": len(settled), "late": len(late)}
    counts |= {"rejected": len(broken), "pending": len(good) - len(settled), "shed": 0}
    return sorted(alerts), sorted(late), sorted(broken), counts


def launch(python, home):
    """Start the job in a group of processes of its own, to which its JVM belongs."""
    arguments = [home / "in", home / "out", home / "checkpoint", "1"]
    with (home / "log").open("ab") as log:
        return subprocess.Popen(
            [python, JOB, *arguments],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=clean_environment(),
        )


def list_batches(home):
    return sorted(int(path.name.partition("=")[2]) for path in home.glob("out/batch=*"))


def kill_in_a_batch(process, home):
    """Let the job publish two batches and begin another, then kill it and its JVM."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(list_batches(home)) < 2 or not (home / "checkpoint/offsets/2").exists():
            assert process.poll() is None, (home / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, (home / "log").read_text()[-3000:]
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def read_published(home, kind, columns):
    return duckdb.sql(f"select {columns} from '{home}/out/batch=*/{kind}/*.parquet'").fetchall()


@pytest.mark.timeout(2 * PATIENCE_S + 120)
def test_oracle_a_killed_job_gives_each_alert_once(installed, tmp_path):
    lines = make_lines(random.Random(7))
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        part = lines[len(lines) * number // FILES : len(lines) * (number + 1) // FILES]
        (tmp_path / "in" / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in part))
    alerts, late, broken, counts = find_answer(lines)
    assert alerts
    assert late
    assert broken
    assert len(set(lines)) < len(lines), "some lines are repeated"

    python = installed / "python"
    kill_in_a_batch(launch(python, tmp_path), tmp_path)
    before = list_batches(tmp_path)
    assert before == [*range(len(before))]
    assert 2 <= len(before) < FILES, "the kill came too late"
    again = launch(python, tmp_path)
    try:
        assert again.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        if again.poll() is None:
            os.killpg(again.pid, signal.SIGKILL)

    rows = read_published(tmp_path, "outputs", "id, account, payment, cents, after_ms")
    assert len({name for name, *_ in rows}) == len(rows)
    assert sorted(tuple(rest) for _, *rest in rows) == alerts
    kept = read_published(tmp_path, "late", "event->>'id'")
    assert sorted(name for (name,) in kept) == late
    assert sorted(raw for (raw,) in read_published(tmp_path, "rejected", "raw")) == broken
    for batch in list_batches(tmp_path):
        ledger = json.loads((tmp_path / f"out/batch={batch}/_ledger.json").read_text())
        assert ledger["input"] == sum(n for name, n in ledger.items() if name != "input")
    assert ledger == counts
