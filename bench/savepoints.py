"""How fast are a savepoint and a restore of ten million keys?

Rates are in keys per second. The baseline folds one event per key from files into a new state, which is necessary
without savepoints. The last contender is Spark's own repartitioning of the same checkpoint, which rewrites it in
place. Shares are of the bytes of the checkpoint's state. `ANABRANCH_BENCH_KEYS` sets the number of keys.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch.spark import Files, run, start_session, write_directory
from bench.peers.programs import keyed_fold

KEYS = int(os.environ.get("ANABRANCH_BENCH_KEYS", "10000000"))
SLICES = 5
SHARDS = 16


def write_input(folder: Path) -> None:
    """Write one reading of each key, in the order of time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    keys = np.random.default_rng(7).permutation(KEYS)
    for number, part in enumerate(np.array_split(keys, SLICES)):
        first = 1 + number * -(-KEYS // SLICES)
        times = np.arange(first, first + len(part))
        table = pa.table({"time": times, "key": part, "value": part.astype(float)})
        pq.write_table(table, folder / f"{number:03}.parquet")


def take_time(work: Callable[[], Any]) -> float:
    """Return the keys a second of some work."""
    start = time.perf_counter()
    work()
    return KEYS / (time.perf_counter() - start)


def add_up(folder: Path) -> int:
    """Return the bytes below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_details() -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Fill a state, save it, restore it, and check that all keys are restored."""
    from anabranch.savepoints.folders import open_savepoint
    from anabranch.spark.savepoints.checkpoint_restore import restore_savepoint
    from anabranch.spark.savepoints.creation import create_savepoint

    spark = start_session(name="bench", ui=False)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_input(folder / "in")

        def source() -> list[Files]:
            return [
                Files(
                    folder / "in",
                    files_per_batch=1,
                    channel="in",
                    event="Reading",
                    unique_times=True,
                )
            ]

        def fill() -> None:
            result = run(keyed_fold, source(), shards=SHARDS)
            write_directory(
                result, output=folder / "out", checkpoint=folder / "checkpoint", available_now=True
            ).awaitTermination()

        rates = {"fold the events from files": take_time(fill)}
        saved = folder / "savepoint"
        state = add_up(folder / "checkpoint" / "state")
        rates["create a savepoint"] = take_time(
            lambda: create_savepoint(saved, checkpoint=folder / "checkpoint", spark=spark)
        )
        rates["verify it"] = take_time(lambda: open_savepoint(saved))
        manifest = open_savepoint(saved, verify=False).manifest
        rows = sum(record.rows or 0 for name, record in manifest.files.items() if "state/" in name)
        assert rows == KEYS, rows
        rates["restore it with 8 shards"] = take_time(
            lambda: restore_savepoint(
                saved,
                keyed_fold,
                source(),
                output=folder / "copy",
                checkpoint=folder / "copied",
                shards=8,
                partitions=2,
            )
        )
        again = create_savepoint(folder / "again", checkpoint=folder / "copied", spark=spark)
        files = open_savepoint(again).manifest.files
        assert sum(r.rows or 0 for name, r in files.items() if "state/" in name) == KEYS
        manager: Any = spark._streamingCheckpointManager
        rates["Spark's repartition, in place"] = take_time(
            lambda: manager.repartition(str(folder / "checkpoint"), 4)
        )
        shares = {
            "create a savepoint": {"size of the savepoint": add_up(saved) / state},
            "restore it with 8 shards": {
                "size of the new state": add_up(folder / "copied" / "state") / state
            },
        }
    return rates, shares
