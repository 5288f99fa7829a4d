"""Whole embedded runs on files: a case, its answer, and what a run has published and keeps."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch import Program
from anabranch.eventtime.channels import Channel
from anabranch.local import LocalRun, run
from anabranch.local.page_log import list_logs, read_log
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.model.events import Item
from anabranch.reference.sequential import run as fold
from anabranch.sources.files import ROW_BITS, Files
from tests.local.durable_effects import Disk, read_disk
from tests.microbatch.streams import Stream, read_published
from tests.runtimes.runtimes import Outcome, read_emitted, sum_up


@dataclass(frozen=True)
class Case:
    """A program, its input in files, and the options of its run."""

    program: Program
    channels: tuple[Channel, ...]
    items: list[Item]
    options: dict[str, Any]
    files: int = 3
    seed: str = ""

    @property
    def stream(self) -> Stream:
        return Stream(self.program, self.channels, self.items)

    def write(self, folder: Path) -> None:
        """Write the input; each file becomes a batch."""
        self.stream.write(folder, self.stream.cut(random.Random(self.seed), self.files))

    def start(self, inputs: Path, home: Path, **more: Any) -> LocalRun:
        """Start a run on the files that there are, as a new process would."""
        forget_tables()
        options = {"available_now": True, "sync": "system", "format": "json", "cores": 1}
        options |= {"output": home / "out", "checkpoint": home / "checkpoint"}
        options |= self.options | more
        return run(self.program, self.list_sources(inputs), **options)

    def list_sources(self, inputs: Path) -> list[Files]:
        return [self.stream.files(inputs)]

    def expect(self) -> Outcome:
        """Return the answer of the reference."""
        return sum_up(fold(self.program, self.items, self.channels))

    def read(self, home: Path) -> Outcome:
        """Return what a run has published; of outputs that were retracted, what is left."""
        rows = read_published(home / "out", self.program)
        kept: dict[tuple[str, str | None], int] = {}
        for row in rows:
            if row.kind == "output":
                kept[row.id, row.value] = kept.get((row.id, row.value), 0) + row.op
        assert set(kept.values()) <= {0, 1}
        others = [row for row in rows if row.kind != "output"]
        standing = sorted(key for key, count in kept.items() if count)
        found = read_emitted(others, read_ledger(find_last_batch(home / "out")))
        return found._replace(outputs=standing)


@dataclass(frozen=True)
class ParquetCase(Case):
    """A case with a folder of Parquet files for each channel: leaves are folded where they are read.

    The sequence of an event is the number of its file and its row.
    """

    def write(self, folder: Path) -> None:
        for channel in self.channels:
            (folder / channel.name).mkdir(parents=True)
            files: dict[int, list[dict[str, Any]]] = {}
            for item in self.items:
                if item.channel == channel.name:
                    files.setdefault(item.seq >> ROW_BITS, []).append(item.data._asdict())
            for number, rows in files.items():
                file = folder / channel.name / f"{number:04}.parquet"
                pq.write_table(pa.Table.from_pylist(rows), file)

    def list_sources(self, inputs: Path) -> list[Files]:
        types = {item.channel: type(item.data) for item in self.items}
        return [
            Files(inputs / c.name, event=types[c.name], lateness=c.lateness, files_per_batch=1)
            for c in self.channels
        ]


def read_batches(home: Path) -> Disk:
    """Return all that was published, byte by byte."""
    disk = read_disk(home / "out") if (home / "out").is_dir() else {}
    return {name: data for name, data in disk.items() if name.startswith("batch=")}


def read_state(home: Path) -> tuple[Any, Any, dict[str, bytes]]:
    """Return the last commit, the plan and all pages of a checkpoint."""
    (path,) = list_logs(home / "checkpoint").values()
    found = read_log(path)
    data = path.read_bytes()
    pages = {name: data[p.start : p.start + p.size] for name, p in found.places.items()}
    return found.commit, found.plan, pages
