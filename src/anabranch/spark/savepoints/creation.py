"""Creation of savepoints: the state of a checkpoint at a committed batch, as a folder of Parquet files.

The query may continue meanwhile: each committed batch is a version of the state that does not change. One
task per shard reads and writes the entries; the driver writes everything that is small.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.microbatch.inspect.stored_state import Address, Overview, read_overview
from anabranch.microbatch.runs.ownership import read_begin
from anabranch.microbatch.savepoints.contents import (
    describe_savepoint,
    place_table,
    write_deltas,
    write_pending,
    write_shared,
    write_start,
)
from anabranch.microbatch.savepoints.source_offsets import NOTHING_READ
from anabranch.paths import resolve_path
from anabranch.savepoints.drafts import Draft, begin_draft, check_is_free
from anabranch.savepoints.file_names import SOURCE_LOGS
from anabranch.savepoints.manifest import SavepointError
from anabranch.spark.checkpoint.state_values import find_batch, find_batches
from anabranch.spark.inspect.state_frames import PENDING, StateView
from anabranch.spark.session.current_session import find_session
from anabranch.state.evolution.schemas import EntryKinds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PATIENCE_S = 0.5
"""The time between two checks whether a watermark has been reached."""


DELTAS = "name rlike '^((shard|root|deferred_outputs):)?(head|description|ledger|deltas)$'"


def create_savepoint(
    savepoint: str | Path,
    *,
    checkpoint: str | Path,
    batch: int | None = None,
    at: int | None = None,
    wait_s: float = 0.0,
    spark: SparkSession | None = None,
) -> Path:
    """Write the state of a checkpoint into a new folder, atomically; return the folder.

    The state is that of the last committed batch, of `batch`, or of the first batch whose watermark has
    reached `at`, for which the call waits up to `wait_s` seconds. The query may keep running. `spark` is the
    session (default: the active one).
    """
    spark = find_session((), spark)
    place, folder = resolve_path(checkpoint, "checkpoint"), resolve_path(savepoint, "savepoint")
    check_is_free(Path(savepoint))
    number = find_batch(place, batch) if at is None else _wait_for(spark, place, at, wait_s)
    view = StateView(spark, str(place), number)
    description = view.overview.description
    with begin_draft(folder) as draft:
        state = _write_state(view, draft)
        events = write_pending(description, view.collect_stores(PENDING), draft)
        overview = read_overview(view.collect_stores(DELTAS))
        schema = write_deltas(overview, state, events, draft)
        _copy_source_logs(place, draft)
        manifest = describe_savepoint(
            folder.name, overview, schema, runtime="spark", batch=number + read_begin(place).first,
            offsets=read_offsets(place, number),
        )  # fmt: skip
        return draft.seal(manifest)


def read_checkpoint(spark: SparkSession, checkpoint: Path) -> Overview:
    """Return the overview of a checkpoint at its last committed batch: everything but the state."""
    return StateView(spark, str(checkpoint), find_batch(checkpoint)).overview


def _wait_for(spark: SparkSession, checkpoint: Path, at: int, wait_s: float) -> int:
    """Return the first committed batch whose watermark has reached a time."""
    deadline = time.monotonic() + wait_s
    while True:
        batches = find_batches(checkpoint)
        if batches and StateView(spark, str(checkpoint), batches[-1]).watermark >= at:
            break
        if time.monotonic() >= deadline:
            reached = StateView(spark, str(checkpoint), batches[-1]).watermark if batches else None
            raise SavepointError(
                f"the watermark has not reached {at}",
                expected=f"a watermark of {at} or more",
                got="no batch yet" if reached is None else f"{reached} with batch {batches[-1]}",
                cure="wait for it with --wait-s SECONDS, or save the last batch, without --at",
            )
        time.sleep(PATIENCE_S)
    low, high = 0, len(batches) - 1
    while low < high:  # Watermarks never decrease.
        middle = (low + high) // 2
        if StateView(spark, str(checkpoint), batches[middle]).watermark >= at:
            high = middle
        else:
            low = middle + 1
    return batches[high]


# --- the state ----------------------------------------------------------------------------------


def _write_state(view: StateView, draft: Draft) -> EntryKinds:
    """Write the state table, each store's part as one file by the task that reads it; return its kinds."""
    import pyarrow as pa

    description = view.overview.description
    if description.plan.way == "shared":
        shared = "name rlike '^(shard:)?(head|description|state|entries/.*)$'"
        return write_shared(description, view.collect_stores(shared), draft)
    kinds = view.kinds

    def write(tables: Iterable[tuple[Address, pa.Table]]) -> Iterator[pa.Table]:
        for address, table in tables:
            if len(table):
                draft.write_table(place_table(description, address), table)
                yield pa.table({"rows": [len(table)]})

    written = view.map_state(kinds, pa.schema([("rows", pa.int64())]), write).collect()
    return kinds if written else write_start(description, draft)


# --- positions ----------------------------------------------------------------------------------


def _copy_source_logs(checkpoint: Path, draft: Draft) -> None:
    """Copy the logs of Spark's own sources, such as that of the files that were read."""
    for file in sorted((checkpoint / SOURCE_LOGS).rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            relative = file.relative_to(checkpoint).as_posix()
            draft.add_file(relative, file)


def read_offsets(checkpoint: Path, batch: int) -> tuple[str, ...]:
    """Return the offset of each source after a batch, as Spark writes it."""
    file = checkpoint / "offsets" / str(batch)
    try:
        _, _, *offsets = file.read_text(encoding="utf-8").splitlines()
        for offset in offsets:
            json.loads("null" if offset == NOTHING_READ else offset)
    except (OSError, ValueError) as error:
        raise SavepointError(
            f"{file} can't be read",
            expected="the offset of each source, as Spark wrote it",
            got=str(error),
            cure="`anabranch checkpoint verify` names the files that are damaged",
        ) from error
    return tuple(offsets)
