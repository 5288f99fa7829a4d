"""The parts of a batch: each task writes its files, and returns only the counts to the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anabranch.microbatch.exchange.csv_files import READ_OPTIONS
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.exchange.packed_rows import unpack
from anabranch.microbatch.runs.part_files import (
    Format,
    PublishingError,
    explain_disk,
    write_parts,
)
from anabranch.spark.sinks.results import Result

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def write_rows(result: Result, draft: Path, format: Format) -> list[dict[str, Any]]:  # noqa: A002
    """Write the rows of a batch into `draft/outputs`, `late` and `rejected`; return the ledger's rows.

    The batch is computed once, and to its end, because Spark's state needs that. If a file that a task wrote
    is not in the draft, the batch fails.
    """
    with explain_disk("a batch", draft):
        draft.mkdir(parents=True, exist_ok=True)
    writer = _make_writer(str(draft), format, result.columns)
    rows = result.packs.mapInArrow(writer, "value string, file string").collect()
    check_parts(draft, [row.file for row in rows if row.file is not None])
    return [json.loads(row.value) for row in rows if row.value is not None]


def check_parts(draft: Path, files: Iterable[str]) -> None:
    """Raise `PublishingError` if the driver does not see every file that tasks wrote."""
    missing = sorted(name for name in files if not (draft / name).is_file())
    if missing:
        raise PublishingError(
            f"{len(missing)} files of a batch are not in the output folder",
            where=str(draft),
            expected="a folder that is the same for the driver and all executors",
            got=f"no {missing[0]}, which a task wrote",
            cure="use a folder on a file system that all of them share",
        )


def read_parts(
    spark: SparkSession,
    places: Sequence[str],
    ddl: str,
    format: str,  # noqa: A002 - Spark's own word
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows of part files with the columns of a Spark DDL string."""
    chosen = dict(options or {})
    if format != "csv":
        return spark.read.schema(ddl).options(**chosen).format(format).load(list(places))
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    wanted = cast("StructType", StructType.fromDDL(ddl))
    # Spark's CSV reader has no bytes; the files have them as base64.
    data = {f.name for f in wanted if isinstance(f.dataType, BinaryType)}
    spelled = StructType(
        [StructField(f.name, StringType() if f.name in data else f.dataType) for f in wanted]
    )
    found = spark.read.schema(spelled).options(**READ_OPTIONS, **chosen).csv(list(places))
    quoted = {name: f"`{name.replace('`', '``')}`" for name in found.columns}
    return found.selectExpr(
        *(f"unbase64({q}) AS {q}" if name in data else q for name, q in quoted.items())
    )


def _make_writer(
    draft: str,
    format: Format,  # noqa: A002 - Spark's own word
    columns: OutputColumns,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        rows = chain.from_iterable(map(unpack, batches))
        # A second attempt of a task writes the same file again.
        name = f"part-{context.partitionId():05}"
        values, files = write_parts(rows, Path(draft), name, format, columns)
        yield pa.record_batch(
            {
                "value": pa.array([*values, *([None] * len(files))], pa.string()),
                "file": pa.array([*([None] * len(values)), *files], pa.string()),
            }
        )

    return write
