"""Many random runs, for hours: `make soak`, or `python -m tests.local.soak SEEDS FIRST`.

Prints progress; a seed that fails is printed with the command that runs it again, and the others go on.
"""

import logging
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.local.random_runs import try_in_scratch

STEP = 100


def try_some(seeds: range) -> tuple[Counter[str], list[str]]:
    """Run seeds; return what was tried, and the text of each failure."""
    logging.disable(logging.WARNING)
    tried: Counter[str] = Counter()
    failures = []
    for seed in seeds:
        try:
            tried += try_in_scratch(seed)
        except Exception:  # noqa: BLE001 - the soak reports it and goes on
            failures.append(traceback.format_exc())
    return tried, failures


def soak(count: int, first: int = 0) -> int:
    """Run seeds on all cores; return the number of those that failed."""
    began = time.monotonic()
    tried: Counter[str] = Counter()
    failed = 0
    steps = [
        range(start, min(start + STEP, first + count))
        for start in range(first, first + count, STEP)
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found, failures in pool.map(try_some, steps):
            tried += found
            failed += len(failures)
            for text in failures:
                print(text, flush=True)  # noqa: T201
            done = tried["seeds"] + failed
            rate = done / (time.monotonic() - began)
            left = (count - done) / rate / 60
            print(  # noqa: T201
                f"{done:,} of {count:,} seeds, {tried['crashes']:,} crashes, {failed} failed, "
                f"{rate:.0f}/s, {left:.0f} min left",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    sys.exit(bool(soak(*map(int, sys.argv[1:]))))
