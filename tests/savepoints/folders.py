"""Small savepoints to try things on."""

from pathlib import Path

import pyarrow as pa

from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.ledger import Ledger
from anabranch.savepoints.drafts import begin_draft
from anabranch.savepoints.manifest import LedgerRecord, Manifest, record_standings


def describe(name: str = "one", **changes) -> Manifest:
    standings = {"a": Standing(7, 9, 4, ((0, 1, 2),)), "b": Standing(9, 9, None)}
    about = {
        "name": name,
        "made_at": "2026-03-01T12:00:00+00:00",
        "anabranch": "0.1.0",
        "program": "levels",
        "runtime": "reference",
        "fingerprint": {"events": "Reading(time)"},
        "watermark": 7,
        "watermarks": {"a": 7, "b": 9},
        "standings": record_standings(standings),
        "ledger": LedgerRecord(*Ledger(3, 2, 0, 0, 0, 1)),
        "schema": {"version": 1},
    }
    return Manifest(**about | changes)


def make_savepoint(path: Path, **changes) -> Path:
    with begin_draft(path) as draft:
        fill(draft)
        return draft.seal(describe(path.name, **changes))


def fill(draft) -> None:
    nested = pa.table({"key": [1, 2], "value": [[{"a": 1}], [{"a": 2}, {"a": 3}]]})
    draft.write_table("state/part-0.parquet", nested)
    draft.write_table("state/part-1.parquet", pa.table({"key": [3], "value": [[{"a": 4}]]}))
    draft.write_table("pending/Reading/part-0.parquet", pa.table({"channel": ["a"], "time": [9]}))


def list_tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
