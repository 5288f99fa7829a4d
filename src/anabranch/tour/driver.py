"""The driver: one process that runs the tour's query, and is made to be killed.

`python -m anabranch.tour.driver HOME` reads `HOME/events`, publishes into `HOME/published` and keeps
its state in `HOME/checkpoint`. It says on standard output, as JSON lines, what each batch did. It ends
with whoever started it: when standard input closes, it goes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.model.program import Program
from anabranch.plan.layouts import choose_layout
from anabranch.spark.session.startup import SHORT_LIVED
from anabranch.tour.example_program import load_program
from anabranch.tour.traffic import SOURCES

SHARDS = 4
FAILED = 1


def main(home: Path, scratch: Path) -> int:
    """Run the query to its end; return an exit code."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_query(load_program(), home, scratch)
    except AnabranchError as error:
        tell(failed=str(error))
        return FAILED
    return 0


def run_query(program: Program, home: Path, scratch: Path) -> None:
    """Start Spark and the query, and tell of each batch."""
    from anabranch.spark import Files, run, start_session, watch, write_directory

    settings = {
        # A process that is killed does not tidy up. So all that it leaves is in one place.
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": f"{SHORT_LIVED} -Djava.io.tmpdir={scratch}",
    }
    session = start_session("anabranch-tour", **settings)
    wiring = choose_layout(program, SHARDS)
    tell(way=wiring.way, shards=wiring.shards, spark=session.version)
    feed = Files.of(program, home / "events", format="json", files_per_batch=1, sources=SOURCES)
    result = run(program, feed, shards=SHARDS)
    published = home / "published"
    query = write_directory(
        result, output=published, checkpoint=home / "checkpoint", format="json", available_now=True
    )
    for batch in watch(query, output=published):
        tell(batch=batch)
    session.stop()


def tell(**what: Any) -> None:
    """Say something to whoever started this process."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
