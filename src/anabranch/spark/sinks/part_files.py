"""Part files: each task writes its part of a batch, and returns only the counts to the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import AnabranchError, InputError
from anabranch.microbatch.exchange.event_columns import convert_events, read_event_schema
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.exchange.packed_rows import unpack
from anabranch.model.values.fields import encode_value
from anabranch.publication import publish_file
from anabranch.spark.sinks.results import Result

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["json", "parquet"]

FOLDERS = {"output": "outputs", "late": "late", "rejected": "rejected"}
"""The folders of a batch, by the kind of their rows."""


class PublishingError(AnabranchError, RuntimeError):
    """A batch could not be written, or files of it are missing. It is not committed, and not visible."""


@contextmanager
def explain_disk(what: str, folder: Path | str) -> Iterator[None]:
    """Raise `PublishingError`, with what could not be written and where, on an `OSError`."""
    try:
        yield
    except OSError as error:
        raise PublishingError(
            f"{what} can't be written",
            where=str(folder),
            expected="a folder that the driver and all executors can write to, with space for the batch",
            got=f"{type(error).__name__}: {error}",
            cure="fix that and start again: the batch is computed and published again",
        ) from error


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


def check_format(folder: Path, format: Format) -> None:  # noqa: A002 - Spark's own word
    """Raise `InputError` if a folder has batches of another format."""
    for batch in sorted(folder.glob("batch=[0-9]*")):
        found = next((f for name in FOLDERS.values() for f in batch.glob(f"{name}/part-*")), None)
        if found is not None:
            there = found.suffix.lstrip(".")
            if there != format:
                names = {"json": "jsonl"}
                raise InputError(
                    f"{folder} holds batches of another format",
                    expected=f"format {there}, as they are",
                    got=format,
                    cure=f"--format {names.get(there, there)}, or a new folder",
                )
            return


def write_nothing(draft: Path, format: Format, columns: OutputColumns) -> None:  # noqa: A002
    """Write an empty file into each folder that has no file, so that readers find the columns."""
    for kind, folder in FOLDERS.items():
        if not (draft / folder).is_dir():
            schema = columns.schema if kind == "output" else read_event_schema(kind)
            _write_file(schema.empty_table(), draft / folder / f"part-none.{format}", format)


def _make_writer(
    draft: str,
    format: Format,  # noqa: A002 - Spark's own word
    columns: OutputColumns,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        kinds: dict[str, list[pa.RecordBatch]] = {}
        files: list[str] = []
        for batch in chain.from_iterable(map(unpack, batches)):
            for kind in batch.column("kind").unique().to_pylist():
                rows = batch.filter(pc.equal(batch.column("kind"), kind))
                kinds.setdefault(kind, []).append(rows)
        ledgers = kinds.pop("ledger", [])
        for kind, parts in kinds.items():
            convert = columns.convert if kind == "output" else partial(convert_events, kind)
            table = pa.concat_tables(map(convert, parts))
            folder = Path(draft) / FOLDERS[kind]
            # A second attempt of a task writes the same file again.
            name = f"part-{context.partitionId():05}.{format}"
            with explain_disk("a part of a batch", folder):
                _write_file(table, folder / name, format)
            files.append(f"{FOLDERS[kind]}/{name}")
        values = [value for rows in ledgers for value in rows.column("value").to_pylist()]
        yield pa.record_batch(
            {
                "value": pa.array([*values, *([None] * len(files))], pa.string()),
                "file": pa.array([*([None] * len(values)), *files], pa.string()),
            }
        )

    return write


def _write_file(table: pa.Table, file: Path, format: Format) -> None:  # noqa: A002
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    with publish_file(file) as partial:
        if format == "parquet":
            # No dictionary for ids: they hardly ever repeat.
            repeats = [name for name in table.column_names if name not in ("id", "_id")]
            pq.write_table(table, partial, use_dictionary=repeats)
            return
        with partial.open("w", encoding="utf-8") as out:
            for row in table.to_pylist(maps_as_pydicts="strict"):
                present = {name: value for name, value in row.items() if value is not None}
                out.write(json.dumps(_encode_json(present), ensure_ascii=False) + "\n")


def _encode_json(value: Any) -> Any:
    """Return a value that JSON can encode; keys of maps become strings."""
    if isinstance(value, dict):
        return {str(encode_value(key)): _encode_json(one) for key, one in value.items()}
    return [_encode_json(one) for one in value] if isinstance(value, list) else encode_value(value)
