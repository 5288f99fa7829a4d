"""Published batches: folders `batch=N` with rows, a ledger and watermarks, which become visible by one rename."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.held_back import ChannelStatus
from anabranch.eventtime.idleness import record
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.event_columns import describe_kind, read_event_schema
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.runs.part_files import FOLDERS, Format, write_nothing
from anabranch.model.events import Heartbeat
from anabranch.paths import resolve_path

if TYPE_CHECKING:
    import pyarrow as pa

LEDGER = "_ledger.json"
"""The ledger, beside the rows of a batch. Spark ignores names that begin with an underscore."""
COLUMNS = "_columns.json"
"""The columns of each folder of a batch, which `read_outputs` uses as the schema: as Spark DDL, and for Arrow."""
WATERMARKS = "_watermarks.json"
"""The watermarks of the program and of each channel after the batch."""


class Watermarks(NamedTuple):
    """The program's watermark, that of each channel, and the batch in which each moved last.

    `about` has the other fields of each channel's `ChannelStatus`.
    """

    program: int
    channels: dict[str, int]
    since: dict[str, int] | None = None
    about: dict[str, dict[str, Any]] | None = None

    @property
    def statuses(self) -> dict[str, ChannelStatus]:
        """Return the status of each channel."""
        about = self.about or {}
        return {
            name: ChannelStatus(time, **about.get(name, {})) for name, time in self.channels.items()
        }


def add_accounts(
    draft: Path,
    batch: int,
    counts: list[dict[str, Any]],
    format: Format,  # noqa: A002
    columns: OutputColumns,
) -> None:
    """Write the ledger, the watermarks and the columns beside the rows of a batch."""
    balance, watermarks = sum_up(counts), find_watermarks(counts)
    before = find_last_batch(draft.parent, before=batch)
    if before is None:
        write_nothing(draft, format, columns)
    (draft / COLUMNS).write_text(
        json.dumps(_describe_columns(columns), indent=2) + "\n", encoding="utf-8"
    )
    if not counts and before is not None:
        # Without input rows no shard has run: the counts of the batch before are still valid.
        balance, watermarks = read_ledger(before), read_watermarks(before)
    watermarks = _note_since(watermarks, None if before is None else read_watermarks(before), batch)
    (draft / LEDGER).write_text(json.dumps(balance._asdict()) + "\n", encoding="utf-8")
    text = json.dumps(watermarks._asdict(), sort_keys=True)
    (draft / WATERMARKS).write_text(text + "\n", encoding="utf-8")
    balance.check(f"batch {batch}")


def read_ledger(batch: Path) -> Ledger:
    """Return the ledger that was published with a batch."""
    return Ledger(**json.loads((batch / LEDGER).read_text(encoding="utf-8")))


def _describe_columns(columns: OutputColumns) -> dict[str, str]:
    """Return the columns of each folder of a batch, as Spark DDL and as an Arrow schema in base64."""
    found: dict[str, str] = {}
    for kind, folder in FOLDERS.items():
        if kind == "output":
            ddl, schema = columns.ddl, columns.schema
        else:
            ddl = describe_kind(kind, timestamped=columns.timestamped)
            schema = read_event_schema(kind, timestamped=columns.timestamped)
        found[folder] = ddl
        found[f"{folder}.arrow"] = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return found


def read_schema(batch: Path, folder: str) -> pa.Schema:
    """Return the Arrow schema of a folder of a published batch."""
    import pyarrow as pa

    return pa.ipc.read_schema(
        pa.py_buffer(base64.b64decode(read_columns(batch)[f"{folder}.arrow"]))
    )


def read_columns(batch: Path) -> dict[str, str]:
    """Return the columns of each folder of a published batch, as Spark DDL."""
    columns: dict[str, str] = json.loads((batch / COLUMNS).read_text(encoding="utf-8"))
    return columns


def read_watermarks(batch: Path) -> Watermarks:
    """Return the watermarks that were published with a batch."""
    return Watermarks(**json.loads((batch / WATERMARKS).read_text(encoding="utf-8")))


def read_waivers(output: str | Path) -> list[Heartbeat]:
    """Return the watermarks that a query set on behalf of its channels, as heartbeats.

    A channel that joined a running query got the watermark that was reached; an idle channel got one by the
    clock. With these heartbeats and the same input, the reference gives the same outputs as the query.
    """
    found: list[tuple[str, int, int | None]] = []
    known: dict[str, int] = {}
    joined: set[str] = set()
    for _, batch in sorted(list_batches(output).items()):
        for name, status in read_watermarks(batch).statuses.items():
            if status.joined is not None and name not in joined:
                joined.add(name)
                found.append((name, status.joined, None))
            if status.waived is not None and known.get(name) != status.waived:
                known[name] = status.waived
                found.append((name, status.waived, status.last))
    return record(found)


def list_batches(folder: str | Path) -> dict[int, Path]:
    """Return the published batches of a folder by number; raise `InputError` on other names `batch=…`."""
    found: dict[int, Path] = {}
    for path in resolve_path(folder, "output").glob("batch=*"):
        number = path.name.partition("=")[2]
        if not (number.isdecimal() and number.isascii() and path.is_dir()):
            raise InputError(
                f"{path} is not a batch of a query",
                expected="folders batch=0, batch=1, … and nothing else of that name in an output folder",
                got=path.name,
                cure="move it elsewhere: readers of the folder would take its rows for outputs",
            )
        found[int(number)] = path
    return found


def find_last_batch(folder: str | Path, *, before: int | None = None) -> Path | None:
    """Return the last published batch of a folder, or the last one before the number `before`."""
    numbers = list_batches(folder)
    known = [number for number in numbers if before is None or number < before]
    return numbers[max(known)] if known else None


def read_counts(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the ledger rows among result rows."""
    import pyarrow.compute as pc

    values = rows.column("value").filter(pc.equal(rows.column("kind"), "ledger"))
    return [json.loads(value) for value in values.to_pylist()]


def sum_up(counts: list[dict[str, Any]]) -> Ledger:
    """Return the sum of the ledgers of a batch's operators."""
    return Ledger(*(sum(count[name] for count in counts) for name in Ledger._fields))


def find_watermarks(counts: list[dict[str, Any]]) -> Watermarks:
    """Return the watermarks that the shards of a batch report."""
    # All shards that report have the same watermark; shards without rows do not report.
    least = min((count["watermark"] for count in counts if "watermark" in count), default=NEVER)
    found: dict[str, int] = {}
    for count in counts:
        for name, time in count.get("channels", {}).items():
            found[name] = min(time, found.get(name, time))
    about = next((count["about"] for count in counts if "about" in count), None)
    return Watermarks(least, found, about=about)


def _note_since(watermarks: Watermarks, before: Watermarks | None, batch: int) -> Watermarks:
    """Add the batches in which each channel's watermark moved last, it sent rows last, and it joined."""
    old = Watermarks(NEVER, {}) if before is None else before
    unmoved = {
        name: (old.since or {}).get(name, batch)
        for name, time in watermarks.channels.items()
        if old.channels.get(name) == time
    }
    about = None
    if watermarks.about is not None:
        statuses, known = watermarks.statuses, old.statuses
        about = {
            name: {
                **fields,
                "active_in": _find_active(statuses[name], known.get(name), batch),
                "joined_in": _find_joined(statuses[name], known.get(name), batch),
            }
            for name, fields in watermarks.about.items()
        }
    since = dict.fromkeys(watermarks.channels, batch) | unmoved
    return watermarks._replace(since=since, about=about)


def _find_active(status: ChannelStatus, before: ChannelStatus | None, batch: int) -> int | None:
    old = ChannelStatus(NEVER) if before is None else before
    own = status.watermark if status.watermark != status.waived else old.watermark
    moved = (status.largest, status.last, own) != (old.largest, old.last, old.watermark)
    return batch if moved else old.active_in


def _find_joined(status: ChannelStatus, before: ChannelStatus | None, batch: int) -> int | None:
    if status.joined is None:
        return None
    return batch if before is None or before.joined is None else before.joined_in
