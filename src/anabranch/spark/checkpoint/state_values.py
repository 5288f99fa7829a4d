"""The values in the state stores of a checkpoint at a committed batch, and the changes of each batch.

Spark keeps the state of each batch as a version, and its reader reads all shards at one version. So the
values are one consistent cut, also while the query runs, in this or another process. Nothing here changes a
checkpoint.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.microbatch.inspect.stored_state import ContentsError
from anabranch.paths import resolve_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VARIABLE = "data"
"""The only state variable of each operator: `SparkStore` creates it."""

_CHANGE = re.compile(r"^(\d+)(?:_[\w-]+)?\.changelog$")
_SNAPSHOT = re.compile(r"^(\d+)(?:_[\w-]+)?\.zip$")


VALUES = "operator int, key int, name string, data binary"
"""The columns of a value in a checkpoint's state: operator, key of the group, name, and bytes."""


def find_commits(checkpoint: str | Path) -> list[int]:
    """Return the committed batches in order, also those whose state was removed."""
    return _numbers(_list(f"{str(checkpoint).rstrip('/')}/commits"))


def find_batches(checkpoint: str | Path) -> list[int]:
    """Return the committed batches whose state is kept, in order.

    Spark keeps the last `spark.sql.streaming.minBatchesToRetain` batches (default 100).
    """
    place = str(checkpoint).rstrip("/")
    stores = [
        _find_versions(_list(f"{place}/state/{operator}/{partition}"))
        for operator in find_operators(checkpoint)
        for partition in _numbers(_list(f"{place}/state/{operator}"))
    ]
    # The state after a batch is the version of the next number.
    return [batch for batch in find_commits(checkpoint) if _is_kept(batch + 1, stores)]


def find_batch(checkpoint: str | Path, batch: int | None = None) -> int:
    """Return `batch`, or the last committed batch; raise `ContentsError` if its state is not kept."""
    known = find_batches(checkpoint)
    if not known:
        raise ContentsError(
            f"{checkpoint} has no committed batch",
            expected="the folder that a query was given as its checkpoint",
            cure="check the path; or wait for the first batch to end",
        )
    if batch is not None and batch not in known:
        raise ContentsError(
            f"the state of batch {batch} is not kept",
            where=str(checkpoint),
            expected=f"one of {known[0]} to {known[-1]}",
            got=str(batch),
            cure="Spark keeps the last 100, or spark.sql.streaming.minBatchesToRetain of them",
        )
    return known[-1] if batch is None else batch


def read_values(spark: SparkSession, checkpoint: str | Path, batch: int | None = None) -> DataFrame:
    """Return all values at a committed batch, as `sort_stores` takes them: operator, key, name, data."""
    chosen = find_batch(checkpoint, batch)
    return _unite(
        _read(spark, checkpoint, operator, batchId=chosen)
        .selectExpr(str(operator), "key.*", "user_map_key.name", "user_map_value.data")
        .toDF("operator", "key", "name", "data")
        for operator in find_operators(checkpoint)
    ).where("key >= 0")  # Below zero are relays.


def read_changes(spark: SparkSession, checkpoint: str | Path, first: int, last: int) -> DataFrame:
    """Return the values that the batches from `first` to `last` wrote: batch, operator, key, name, data.

    The data of a value that was removed is null. A batch may write a value more than once; rows are in
    the order in which each shard wrote them, until they are shuffled.
    """
    return _unite(
        _read(
            spark, checkpoint, operator,
            readChangeFeed="true", changeStartBatchId=first, changeEndBatchId=last,
        ).selectExpr(
            "batch_id",
            str(operator),
            "key.*",
            "user_map_key.name",
            "if(change_type = 'update', user_map_value.data, null)",
        ).toDF("batch", "operator", "key", "name", "data")
        for operator in find_operators(checkpoint)
    ).where("key >= 0")  # fmt: skip


def find_operators(checkpoint: str | Path) -> list[int]:
    """Return the numbers of a query's stateful operators."""
    return _numbers(_list(f"{str(checkpoint).rstrip('/')}/state"))


def _read(spark: SparkSession, checkpoint: str | Path, operator: int, **options: Any) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator)
    reader = reader.option("stateVarName", VARIABLE)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(checkpoint))


def _unite(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.union(b), frames)


def _find_versions(names: Iterable[str]) -> set[int]:
    """Return the versions that a store's files contain: snapshots, and the changes after them."""
    names = list(names)
    changes = {int(found[1]) for name in names if (found := _CHANGE.match(name))}
    kept = {int(found[1]) for name in names if (found := _SNAPSHOT.match(name))}
    if 1 in changes:
        kept.add(1)
    for version in sorted(changes):
        if version - 1 in kept:
            kept.add(version)
    return kept


def _is_kept(version: int, stores: list[set[int]]) -> bool:
    # A partition with only older versions is no longer used: the query now has fewer partitions.
    asked = [versions for versions in stores if max(versions, default=-1) >= version]
    return bool(asked) and all(version in versions for versions in asked)


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdecimal())


def _list(folder: str) -> list[str]:
    """Return the names in a folder of a checkpoint; none if the folder does not exist."""
    local = resolve_path(folder, "checkpoint")
    return [path.name for path in local.iterdir()] if local.is_dir() else []


def find_running_session() -> Any:
    """Return the Spark session of this process, of any thread, or None; do not import Spark for it."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    found: Any = SparkSession
    return found._instantiatedSession


def find_checkpoint(query: str | Path | StreamingQuery) -> str:
    """Return the path of a query's checkpoint."""
    if isinstance(query, str | Path):
        # Spark's working directory may differ from that of this process.
        return str(resolve_path(query, "checkpoint"))
    found: Any = query
    return str(found._jsq.streamingQuery().resolvedCheckpointRoot())
