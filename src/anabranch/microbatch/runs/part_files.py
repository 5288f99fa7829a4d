"""Part files: the files of a batch with outputs, late events and rejected events, in their own columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import AnabranchError, InputError
from anabranch.microbatch.exchange.csv_files import write_csv
from anabranch.microbatch.exchange.event_columns import convert_events, read_event_schema
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.model.values.fields import encode_value
from anabranch.publication import publish_file

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["json", "parquet", "csv"]

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
            events = partial(read_event_schema, kind, timestamped=columns.timestamped)
            schema = columns.schema if kind == "output" else events()
            _write_file(schema.empty_table(), draft / folder / f"part-none.{format}", format)


def write_parts(
    batches: Iterable[pa.RecordBatch],
    draft: Path,
    name: str,
    format: Format,  # noqa: A002 - Spark's own word
    columns: OutputColumns,
) -> tuple[list[str], list[str]]:
    """Write result rows of every kind into files of a batch; return the ledger's rows and the files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds: dict[str, list[pa.RecordBatch]] = {}
    files: list[str] = []
    for batch in batches:
        for kind in batch.column("kind").unique().to_pylist():
            rows = batch.filter(pc.equal(batch.column("kind"), kind))
            kinds.setdefault(kind, []).append(rows)
    ledgers = kinds.pop("ledger", [])
    for kind, parts in kinds.items():
        events = partial(convert_events, kind, timestamped=columns.timestamped)
        convert = columns.convert if kind == "output" else events
        table = pa.concat_tables(map(convert, parts))
        folder = draft / FOLDERS[kind]
        with explain_disk("a part of a batch", folder):
            _write_file(table, folder / f"{name}.{format}", format)
        files.append(f"{FOLDERS[kind]}/{name}.{format}")
    return [value for rows in ledgers for value in rows.column("value").to_pylist()], files


def _write_file(table: pa.Table, file: Path, format: Format) -> None:  # noqa: A002
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    with publish_file(file) as partial:
        if format == "parquet":
            # No dictionary for ids: they hardly ever repeat.
            repeats = [name for name in table.column_names if name not in ("id", "_id")]
            pq.write_table(table, partial, use_dictionary=repeats)
            return
        if format == "csv":
            write_csv(table, partial)
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
