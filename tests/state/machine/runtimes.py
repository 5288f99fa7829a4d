"""Where a machine's programs run: in the reference, in shards in this process, and on Spark."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa

from anabranch import Program
from anabranch.eventtime.channels import Channel
from anabranch.microbatch.exchange.partition_keys import find_keys
from anabranch.microbatch.restore.shard_restore import restore_shard
from anabranch.microbatch.runs.ownership import find_last
from anabranch.microbatch.savepoints.seeds import Seed
from anabranch.microbatch.shards.deferred_outputs import DeferredOutputs
from anabranch.microbatch.shards.root import Root
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.values.fields import encode_value
from anabranch.reference.sequential import run
from anabranch.savepoints.folders import open_savepoint
from anabranch.savepoints.objects import read_snapshot, write_snapshot
from anabranch.savepoints.snapshot import Snapshot
from anabranch.spark.inspect import state_frames
from anabranch.spark.savepoints import creation
from anabranch.spark.savepoints.first_batch import SeedingReader
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.schemas import read_schema
from tests.microbatch.streams import Stream, read_published
from tests.microbatch.test_microbatches import Engine, to_row
from tests.spark.savepoints.test_spark_savepoints import Run


class Options(NamedTuple):
    """What may change when a run goes on, and may change nothing."""

    shards: int = 1
    hot_keys: tuple[int, ...] = ()
    columns: bool = False


class Emitted(NamedTuple):
    """What became of a batch."""

    outputs: list[Any]
    late: list[tuple[str, int]]
    rejected: int
    ledger: tuple[int, ...]


@dataclass
class Reference:
    """The sequential fold, which goes on from a snapshot with every batch."""

    program: Program
    channels: tuple[Channel, ...]
    options: Options
    folder: Path
    start: Snapshot | None = None

    def take(self, items: list[Any]) -> Emitted:
        answer = run(self.program, items, self.channels, start=self.start)
        self.start = answer.snapshot()
        late = [(late.event.channel, late.event.seq) for late in answer.late]
        told = [encode_value(value) for value in answer.values]
        return Emitted(told, sorted(late), len(answer.rejected), tuple(answer.ledger))

    def crash(self, items: list[Any]) -> None:
        run(self.program, items, self.channels, start=self.start)

    def save(self, target: Path) -> None:
        write_snapshot(
            self.start or run(self.program, [], self.channels).snapshot(), self.program, target
        )

    def restore(self, savepoint: Path) -> None:
        self.start = read_snapshot(savepoint, self.program)


@dataclass
class Shards:
    """As many shards as are asked for, with roots and speakers, in memory; savepoints are those of Spark."""

    program: Program
    channels: tuple[Channel, ...]
    options: Options
    folder: Path
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        shards, hot_keys, columns = self.options
        self.engine = Engine(self.program, self.channels, shards, hot_keys, columns=columns)
        self.engine.batch([[]])

    def take(self, items: list[Any]) -> Emitted:
        before = len(self.engine.emitted)
        self.engine.batch(
            [[to_row(item) for item in items if item.channel == s.name] for s in self.channels]
        )
        emitted = self.engine.emitted[before:]
        assert len({(s.kind, s.id) for s in emitted if s.kind == "output"}) == sum(
            s.kind == "output" for s in emitted
        )
        return Emitted(
            [json.loads(s.value) for s in emitted if s.kind == "output"],
            sorted((s.channel, s.seq) for s in emitted if s.kind == "late"),
            sum(s.kind == "rejected" for s in emitted),
            tuple(self.engine.ledger),
        )

    def crash(self, items: list[Any]) -> None:
        """Take a batch of which nothing stays; what workers remember in their caches does."""
        engine = self.engine
        kept = [dict(store.values) for store in self.list_stores()]
        pages = [dict(store.pages) for store in self.list_stores()]
        emitted = len(engine.emitted)
        self.take(items)
        for store, values, held in zip(self.list_stores(), kept, pages, strict=True):
            store.values, store.pages = values, held
        del engine.emitted[emitted:]

    def list_stores(self) -> list[MemoryStore]:
        return [*self.engine.stores, *self.engine.root_stores, *self.engine.deferred_stores]

    def save(self, target: Path) -> None:
        values = Values(list(self.list_values()))
        offsets = self.folder / "checkpoint" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / "0").write_text("v1\n{}", encoding="utf-8")
        with (
            patch.object(state_frames, "read_values", lambda *_: values),
            patch.object(creation, "find_batch", lambda *_: 0),
        ):
            creation.create_savepoint(target, checkpoint=offsets.parent, spark=object())

    def list_values(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Yield what the stores hold as Spark's reader of a checkpoint does."""
        keys = find_keys(self.engine.job.layout.shards)
        stores = [(0, keys[n], store) for n, store in enumerate(self.engine.stores)]
        stores += [(1, n, store) for n, store in enumerate(self.engine.root_stores)]
        stores += [(2, n, store) for n, store in enumerate(self.engine.deferred_stores)]
        for operator, key, store in stores:
            for name, data in store.values.items():
                yield operator, key, name, data
            for (book, page), data in store.pages.items():
                yield operator, key, f"{book}/{page}", data

    def restore(self, savepoint: Path) -> None:
        """Go on from a savepoint as a seeding batch does."""
        engine, job = self.engine, self.engine.job
        opened = open_savepoint(savepoint)
        migration = Migration(read_schema(opened.manifest.schema), self.program)
        seed = Seed(job, opened, migration)
        letters = []
        for part in SeedingReader(seed).partitions({}, {}):
            letters += seed.deal_rest() if part.table is None else seed.deal_table(part.table)
        shards, roots = job.layout.shards, range(len(engine.root_stores))
        engine.stores = [MemoryStore() for _ in range(shards)]
        engine.root_stores = [MemoryStore() for _ in roots]
        engine.deferred_stores = [MemoryStore() for _ in roots]
        spines: dict[int, Any] = {}
        for number, store in enumerate(engine.stores):
            mine = ((kind, data) for to, kind, data in letters if to == number)
            spines |= restore_shard(job, number, store, mine).spines
        for root, spine in spines.items():
            Root(job, engine.root_stores[root]).restore(spine)
            for store in engine.deferred_stores if job.layout.deferring else ():
                DeferredOutputs(job, store).restore(spine)


@dataclass
class OnSpark:
    """A query on a folder of files; each batch is a life of its own."""

    session: Any
    program: Program
    channels: tuple[Channel, ...]
    options: Options
    folder: Path
    query: Run = field(init=False)
    told: int = -1

    def __post_init__(self) -> None:
        # Spark's channel of files goes on only where it began: all runs read one folder.
        self.query = Run(self.session, self.folder.parent, Stream(self.program, self.channels, []))
        (self.folder.parent / "in").mkdir(parents=True, exist_ok=True)

    def take(self, items: list[Any]) -> Emitted:
        if items:
            self.query.add([items])
            self.query.go(self.folder.name, **self.options._asdict())
        rows = [row for row in self.read() if row.batch > self.told]
        self.told = find_last(self.folder, "batch=*")
        outputs = [json.loads(row.value) for row in rows if row.kind == "output"]
        late = sorted((row.channel, row.seq) for row in rows if row.kind == "late")
        rejected = sum(row.kind == "rejected" for row in rows)
        return Emitted(outputs, late, rejected, tuple(self.query.ledger(self.folder.name)))

    def read(self) -> list[Any]:
        return read_published(self.folder, self.query.story.program)

    def crash(self, items: list[Any]) -> None:
        """Lose nothing: drivers and workers are killed elsewhere, in tests/faults."""

    def save(self, target: Path) -> None:
        checkpoint = self.query.places(self.folder.name)[1]
        creation.create_savepoint(target, checkpoint=checkpoint, spark=self.session)
        target.with_suffix(".files").write_text(str(self.query.files))

    def restore(self, savepoint: Path) -> None:
        """Go on from a savepoint; what was read after it was made has not come yet."""
        self.query.files = int(savepoint.with_suffix(".files").read_text())
        for file in (self.folder.parent / "in").iterdir():
            if file.suffix == ".json" and int(file.stem) >= self.query.files:
                file.unlink()
        self.query.restore(savepoint, self.folder.name, **self.options._asdict())


class Values:
    """As much of a DataFrame as making a savepoint takes, of rows in memory."""

    NAMES = ("operator", "key", "name", "data")

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def where(self, condition: str) -> "Values":
        negated, pattern = re.fullmatch(r"(not )?name rlike '(.*)'", condition).groups()
        return Values([r for r in self.rows if bool(re.search(pattern, r[2])) != bool(negated)])

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table([[row[n] for row in self.rows] for n in range(4)], self.NAMES)

    def mapInArrow(self, function: Any, schema: Any) -> Any:  # noqa: N802 - Spark's name
        batches = function(iter(self.toArrow().to_batches()))
        found = [SimpleNamespace(**row) for batch in batches for row in batch.to_pylist()]
        return SimpleNamespace(collect=lambda: found)
