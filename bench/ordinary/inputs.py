"""Inputs of the corpus as files: each folder is cut at the same times, so that batches bring the same span."""

import base64
import csv
import json
import os
from bisect import bisect_right
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from anabranch.sources import Files
from bench.ordinary.cases import Case, Input, Rows, Tables

SEED = 7
_EPOCH = 1_700_000_000
_SUFFIXES = {"parquet": "parquet", "json": "jsonl", "csv": "csv"}


def draw(case: Case, n: int) -> Tables:
    """Return the rows of a case, the same each time."""
    return case.draw(n, Random(SEED))


def write_input(case: Case, tables: Tables, folder: Path, files: int) -> None:
    """Write every input as `files` files in its folder."""
    first, *_ = tables.values()
    size = -(-len(first) // files)
    edges = [_time(row) for row in first[size - 1 :: size]][: files - 1]
    for name, rows in tables.items():
        (folder / name).mkdir(parents=True)
        if rows is first:
            cuts = [size * number for number in range(1, files)]
        else:
            times = [_time(row) for row in rows]  # In order, where there are several inputs.
            cuts = [bisect_right(times, edge) for edge in edges]
        bounds = [0, *cuts, len(rows)]
        for number in range(files):
            part = rows[bounds[number] : bounds[number + 1]]
            file = folder / name / f"{number:04}.{_SUFFIXES[case.inputs[name].format]}"
            _WRITERS[case.inputs[name].format](file, part, rows)
            # Spark's file source goes by the time of change.
            os.utime(file, (_EPOCH + number, _EPOCH + number))


def list_sources(case: Case, folder: Path, **options: Any) -> list[Files]:
    """Return the sources of a case, as a user declares them."""
    return [
        Files(folder / name, **_describe(given), **options) for name, given in case.inputs.items()
    ]


def _describe(given: Input) -> dict[str, Any]:
    return {"format": given.format, "lateness": given.lateness, **given.options}


def _time(row: dict[str, Any]) -> datetime:
    found: datetime = next(value for value in row.values() if isinstance(value, datetime))
    return found


def _write_parquet(file: Path, rows: Rows, whole: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # One schema for all files, whichever nulls or decimals a part has.
    schema = pa.Table.from_pylist(whole[:1000] + whole[-1:]).schema
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)


def _write_json(file: Path, rows: Rows, whole: Rows) -> None:
    lines = [json.dumps(row, default=_encode) + "\n" for row in rows]
    file.write_text("".join(lines), encoding="utf-8")


def _write_csv(file: Path, rows: Rows, whole: Rows) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(whole[0]))
        writer.writeheader()
        writer.writerows(
            {k: _encode(v) if isinstance(v, datetime) else v for k, v in row.items()}
            for row in rows
        )


def _encode(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    assert isinstance(value, Decimal), value
    return str(value)


_WRITERS = {"parquet": _write_parquet, "json": _write_json, "csv": _write_csv}
