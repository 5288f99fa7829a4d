"""The driver: a process that runs the tour's query, and that the tour kills.

`python -m anabranch.tour.driver HOME SCRATCH` reads `HOME/events`, publishes into `HOME/published` and
keeps its state in `HOME/checkpoint`. It starts Spark while the events are still being written, and waits
for them. It reports each batch on standard output as a JSON line, and ends when standard input closes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError
from anabranch.model.program import Program
from anabranch.tour.example_program import load_program
from anabranch.tour.traffic import CHANNELS, CLOCK, PARTS

if TYPE_CHECKING:
    from anabranch.microbatch.runs.batch_progress import Batch

FAILED = 1
MOST_CORES = 8
INTERVAL_S = 0.05
WATCH_S: Any = 0.2
"""Interval of polling the query: the tour kills it within a batch, so it must be short. Spark takes a float."""


def main(home: Path, scratch: Path) -> int:
    """Run the query to its end; return an exit code."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_query(load_program(), home, scratch)
    except AnabranchError as error:
        report(failed=str(error))
        return FAILED
    return 0


def run_query(program: Program, home: Path, scratch: Path) -> None:
    """Start Spark and the query, and report each batch and the shares of its tasks."""
    from anabranch.tour.fold_tasks import measure_shares

    cores = max(2, min(os.cpu_count() or 2, MOST_CORES))
    session = open_session(scratch, cores)
    report(spark=session.version, cores=cores)
    events, published = home / "events", home / "published"
    while not events.is_dir():
        time.sleep(INTERVAL_S)
    query = start_query(program, events, published, home / "checkpoint")
    for batch in watch_query(query, published):
        report(batch=describe(batch, published))
    report(**measure_shares(session, query)._asdict())
    session.stop()


def open_session(scratch: Path, cores: int) -> Any:
    """Start a session with all its files in one folder, since a killed process does not remove them."""
    from anabranch.spark import start_session
    from anabranch.spark.session.startup import SHORT_LIVED

    settings = {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": f"{SHORT_LIVED} -Djava.io.tmpdir={scratch}",
    }
    return start_session(name="anabranch-tour", master=f"local[{cores}]", ui=False, **settings)


def start_query(program: Program, events: Path, published: Path, checkpoint: Path) -> Any:
    """Start the query on the folders of all channels: a batch is a slice of each."""
    from anabranch.spark import Files, run, write_directory

    sources = [
        Files(
            events / channel.name,
            files_per_batch=1 if channel.name == CLOCK else PARTS,
            channel=channel.name,
            event="Hour" if channel.name == CLOCK else "Tip",
            lateness=channel.lateness,
            heartbeat="heartbeat",
        )
        for channel in CHANNELS
    ]
    result = run(program, sources, columnar="require")
    return write_directory(result, output=published, checkpoint=checkpoint, available_now=True)


def watch_query(query: Any, published: Path) -> Iterator[Batch]:
    """Yield each batch when it is done."""
    from anabranch.spark import watch

    yield from watch(query, output=published, interval_s=WATCH_S)


def describe(batch: Batch, published: Path) -> dict[str, Any]:
    """Return the fields of a batch that the tour shows: its events, ledger, watermarks, and Spark's time."""
    from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger

    before = find_last_batch(published, before=batch.number)
    known = 0 if before is None else read_ledger(before).input
    return {
        "number": batch.number,
        "events": 0 if batch.ledger is None else batch.ledger.input - known,
        "seconds": batch.rows / batch.rows_per_s if batch.rows_per_s else 0.0,
        "ledger": batch.ledger,
        "watermarks": batch.watermarks,
    }


def report(**fields: Any) -> None:
    """Write a line for the process that started this one."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
