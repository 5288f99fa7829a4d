"""How much does the intake of the same events cost in other types, formats and qualities?

The same events are read from files and brought to shards: with integers from Parquet, which is the baseline, as
timestamps, with text keys, as JSON lines, as CSV, and with 0.5 % broken lines, on the columnar path and on the row path
(Python objects). "Arrow decodes …" is the time of Arrow's own reader of the same file, which no intake is faster
than. Shares are of the time of the contender. `ANABRANCH_BENCH_ROWS` sets the number of events.
"""

import csv
import json
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from anabranch import EventTime, Program, depends, on
from anabranch.eventtime.channels import Channel
from anabranch.microbatch.ingest.file_rows import Folder, read_rows, take_in_rows
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.shards.columnar_shard import ColumnShard
from anabranch.microbatch.shards.row_shard import RowShard
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.plan.layouts import choose_layout
from anabranch.sources.files import FileFormat, Files, Taken, list_files
from anabranch.state import Count, MapOf
from anabranch.state.durable.codec import make_codec

ROWS = int(os.environ.get("ANABRANCH_BENCH_ROWS", "200000"))
KEYS = 500
SHARDS = 4
START = datetime(2026, 1, 1, tzinfo=UTC)


class Measured(NamedTuple):
    """An event of integers and floats."""

    time: int
    key: int
    value: float


class Timed(NamedTuple):
    """The same, with a timestamp, whose name is not `time`."""

    at: EventTime[datetime]
    key: int
    value: float


class Named(NamedTuple):
    """The same, with a text as its key."""

    time: int
    key: str
    value: float


class Filled(NamedTuple):
    """The same, with an optional field and a default."""

    time: int
    key: str
    value: float
    maybe: int | None
    note: str = "none"


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    """A place."""

    x: int
    y: float


class Rich(NamedTuple):
    """The same, with fields of other types."""

    time: int
    key: str
    value: float
    price: Decimal
    colour: Colour
    place: Place


Row = dict[str, Any]


def draw_rows() -> list[Row]:
    """Return the events, as rows with all their fields."""
    return [
        {
            "time": 1000 * n, "at": (START + timedelta(milliseconds=n)).isoformat(), "key": n * 7919 % KEYS,
            "value": n % 1000 / 8, "maybe": n if n % 3 else None, "price": f"{n % 1000}.50",
            "colour": "red" if n % 2 else "blue", "place": {"x": n, "y": 0.5},
        }
        for n in range(ROWS)
    ]  # fmt: skip


def choose(rows: list[Row], event_type: Any, *, text: bool) -> list[Row]:
    """Return the fields of an event type of rows; with `text`, keys are texts."""
    names = [name for name in event_type._fields if name in rows[0]]
    chosen = [{name: row[name] for name in names} for row in rows]
    return [row | {"key": f"user-{row['key']}"} for row in chosen] if text else chosen


def write_parquet(rows: list[Row], file: Path) -> None:
    """Write rows as Parquet, timestamps and decimals in their own types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    if "at" in columns:
        columns["at"] = columns["at"].cast(pa.timestamp("us", "UTC"))
    if "price" in columns:
        columns["price"] = columns["price"].cast(pa.decimal128(12, 2))
    pq.write_table(pa.table(columns), file)


def write_json(rows: list[Row], file: Path) -> None:
    """Write rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_broken(rows: list[Row], file: Path) -> None:
    """Write rows as JSON lines, of which one in 200 is broken."""
    lines = (json.dumps(row) for row in rows)
    cut = (line if n % 200 else line[:-7] for n, line in enumerate(lines, 1))
    file.write_text("\n".join(cut), encoding="utf-8")


def write_csv(rows: list[Row], file: Path) -> None:
    """Write rows as CSV."""
    with file.open("w", newline="", encoding="utf-8") as sheet:
        writer = csv.DictWriter(sheet, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


class Variant(NamedTuple):
    """The same events in one form."""

    event_type: Any
    form: FileFormat
    write: Callable[[list[Row], Path], None]
    broken: int = 0


VARIANTS = {
    "integers, Parquet": Variant(Measured, "parquet", write_parquet),
    "timestamps, Parquet": Variant(Timed, "parquet", write_parquet),
    "text keys, Parquet": Variant(Named, "parquet", write_parquet),
    "optional fields, Parquet": Variant(Filled, "parquet", write_parquet),
    "text keys, JSON": Variant(Named, "json", write_json),
    "timestamps, JSON": Variant(Timed, "json", write_json),
    "optional fields, JSON": Variant(Filled, "json", write_json),
    "0.5 % broken, JSON": Variant(Named, "json", write_broken, broken=ROWS // 200),
    "text keys, CSV": Variant(Named, "csv", write_csv),
    "timestamps, CSV": Variant(Timed, "csv", write_csv),
    "other types, Parquet": Variant(Rich, "parquet", write_parquet),
    "other types, JSON": Variant(Rich, "json", write_json),
}


def make_job(event_type: Any, *, columnar: bool) -> Job | None:
    """Return the job of a count per key; None if it can't take the columnar path."""
    program = Program(
        on(event_type, update=lambda n, e: n + 1),
        depends(event_type, event_type, same="key"),
        state=MapOf(Count(), by="key"),
    )
    layout, channels = choose_layout(program, SHARDS), {"s": Channel("s")}
    plan = plan_columns(program, layout, channels, numbered=True)
    if columnar and isinstance(plan, str):
        return None
    known = plan if columnar and not isinstance(plan, str) else None
    return Job(program, layout, channels, make_codec(program), columns=known)


def decode(form: str, file: Path) -> None:
    """Read a file as Arrow does."""
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    if form == "json":
        whole = file.read_bytes()
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(whole) + 1)
        pyarrow.json.read_json(pyarrow.BufferReader(whole), read_options=options)
    elif form == "csv":
        pyarrow.csv.read_csv(file, pyarrow.csv.ReadOptions(use_threads=False))
    else:
        pyarrow.parquet.read_table(file, use_threads=False)


def take_time(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least seconds of this process in three runs of some work, and its last result."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        result = work()
        spent.append(time.process_time() - start)
    return min(spent), result


def check(job: Job, envelopes: list[tuple[int, str, bytes]], broken: int) -> None:
    """Raise if shards do not count every event."""
    counted = 0
    for number in range(job.layout.shards):
        shard = (RowShard if job.columns is None else ColumnShard)(job, number, MemoryStore())
        shard.process([(kind, data) for to, kind, data in envelopes if to == number], None)
        counted += shard.ledger.input
        assert shard.ledger.balanced, shard.ledger
    assert counted == ROWS, f"{counted} events of {ROWS}, {broken} broken"


def measure_details() -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Read every variant on both paths, and check that no event is lost."""
    rates: dict[str, float] = {}
    shares: dict[str, dict[str, float]] = {}
    rows = draw_rows()
    for name, variant in VARIANTS.items():
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / f"a.{variant.form}"
            text = variant.event_type._field_defaults or variant.event_type in (Named, Rich)
            variant.write(choose(rows, variant.event_type, text=bool(text)), file)
            bare = 0.0
            if not variant.broken:
                bare, _ = take_time(lambda v=variant, f=file: decode(v.form, f))  # type: ignore[misc]
            for columnar in (True, False):
                job = make_job(variant.event_type, columnar=columnar)
                if job is None:
                    continue
                folder = Folder(
                    Files(place, format=variant.form), Reading(variant.event_type.__name__, "s")
                )
                spent, envelopes = take_time(lambda j=job, f=folder: take_in(j, f))  # type: ignore[misc]
                check(job, envelopes, variant.broken)
                shown = f"{name}{'' if columnar else ' (objects)'}"
                rates[shown] = ROWS / spent
                if bare:
                    shares[shown] = {f"Arrow decodes {variant.form}": bare / spent}
    return rates, shares


def take_in(job: Job, folder: Folder) -> list[tuple[int, str, bytes]]:
    """Return the envelopes of a folder's files."""
    found = list_files(folder.files, Taken())
    return [
        envelope
        for batches in read_rows(job, folder, found)
        for envelope in take_in_rows(job, folder, batches)
    ]
