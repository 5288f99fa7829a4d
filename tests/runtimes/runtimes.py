"""The runtimes, behind one small interface: give a story, get what became of it."""

import json
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.result_rows import encode_json, identify
from anabranch.reference.sequential import Answer, run
from anabranch.reference.verification import prepare
from tests.microbatch.streams import Stream, read_published
from tests.vectors.flumina import Vector


class Outcome(NamedTuple):
    """What became of an input: all of it in a canonical order, values as their bytes in JSON."""

    outputs: list[tuple[str, str]]
    late: list[tuple[str, int | None, str]]
    rejected: list[tuple[str, int | None, str]]
    ledger: Ledger


class Place(NamedTuple):
    """Where a runtime may work: a session, started when it is first asked for, and a folder."""

    start: Callable[[], Any]
    folder: Path


class Runtime(Protocol):
    """Something that runs programs. It may try several ways, and returns the outcome of each."""

    @property
    def name(self) -> str: ...

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]: ...


def sum_up(answer: Any) -> Outcome:
    """Return the outcome that an answer, or a simulation, tells of."""
    return Outcome(
        sorted((f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in answer.outputs),
        sort_out(
            (late.event, f"{late.distance} behind its channel's watermark") for late in answer.late
        ),
        sort_out(answer.rejected),
        answer.ledger,
    )


def sort_out(pairs) -> list[tuple[str, int | None, str]]:
    found = [(item.channel, item.seq, reason) for item, reason in pairs]
    return sorted(found, key=lambda entry: (entry[0], entry[1] or 0, entry[2]))


@cache
def expect(story: Vector) -> Outcome:
    """Return what every runtime must make of a story."""
    return sum_up(fold(story))


@cache
def fold(story: Vector) -> Answer:
    return run(story.program, story.items, story.channels)


@dataclass(frozen=True)
class Reference:
    """The sequential fold."""

    name = "reference"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        assert fold(story).values == story.expected
        yield sum_up(fold(story))


@dataclass(frozen=True)
class Simulated:
    """One plan in the simulator, under many schedules with crashes and repeats."""

    plan: str
    seeds: range

    name = "simulated"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        plan = story.plans[self.plan]
        trial = prepare(story.program, plan, story.items, story.channels)
        for seed in self.seeds:
            # The outputs of a simulation are also in an order that the dependence relation allows.
            simulation, mismatch = trial.verify(seed)
            assert mismatch is None, f"replay with seed {seed}: {mismatch}"
            yield sum_up(simulation)


@dataclass(frozen=True)
class Speculative:
    """The speculative mode behind a barrier: channels take turns at random, some items at a time."""

    seeds: range

    name = "speculative"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        from anabranch.reference.speculative import run as emit

        for seed in self.seeds:
            rng = random.Random(seed)
            most = max(1, len(story.items) // rng.choice((5, 50)))
            sizes = (rng.randint(1, most) for _ in iter(int, 1))
            arrival = interleave(rng, story.items)
            yield sum_up(emit(story.program, arrival, story.channels, sizes=sizes).answer)


def interleave(rng: random.Random, items: list[Any]) -> list[Any]:
    """Let channels take turns at random, each in its own sequence."""
    turns = list(items)
    rng.shuffle(turns)
    queues: dict[str, deque[Any]] = {}
    for item in items:
        queues.setdefault(item.channel, deque()).append(item)
    return [queues[item.channel].popleft() for item in turns]


@dataclass(frozen=True)
class SparkBatch:
    """A frame that is not a stream, dealt out row by row: no task has a stretch of any channel."""

    shards: int = 3
    partitions: int = 2

    name = "spark batch"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        from anabranch.spark.runs import run as run_query

        session = open_session(place, self.partitions)
        stream = Stream(story.program, story.channels, story.items)
        frame = session.createDataFrame(stream.rows(), stream.schema).repartition(3)
        result = run_query(story.program, stream.source(frame), shards=self.shards)
        yield read_emitted(result.rows.collect())


@dataclass(frozen=True)
class SparkStreaming:
    """A stream in micro-batches cut at random, stopped and restarted on its checkpoint."""

    seed: str
    shards: int = 4
    partitions: int = 2
    batches: int = 3
    columns: bool = True

    name = "spark streaming"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        rng = random.Random(self.seed)
        session = open_session(place, self.partitions)
        stream = Stream(story.program, story.channels, story.items)
        parts = stream.cut(rng, self.batches)
        stop = rng.randint(1, max(1, len(parts) - 1))
        yield self.stream(session, stream, [parts[:stop], parts[stop:]], place.folder)

    def stream(self, session, stream: Stream, lives: list[list[list]], folder: Path) -> Outcome:
        """Run one life of the query after the other, each on the files that have come since."""
        from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
        from anabranch.spark.runs import run as run_query
        from anabranch.spark.sinks.directory import write_directory

        ran = 0
        for parts in filter(None, lives):
            stream.write(folder / "in", parts, start=ran)
            files = session.readStream.schema(stream.schema).option("maxFilesPerTrigger", 1)
            source = stream.source(files.json(str(folder / "in")))
            columnar = "auto" if self.columns else "never"
            result = run_query(stream.program, source, shards=self.shards, columnar=columnar)
            write_directory(
                result, output=folder / "out", checkpoint=folder / "checkpoint", available_now=True
            ).awaitTermination()
            ran += len(parts)
        # Each file was a batch of its own, and the restart was none of the answer's business.
        assert len(list((folder / "out").glob("batch=*"))) == ran
        rows = read_published(folder / "out", stream.program)
        return read_emitted(rows, read_ledger(find_last_batch(folder / "out")))


def open_session(place: Place, partitions: int):
    """Return a session of its own settings in the one JVM."""
    session = place.start().newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return session


def read_emitted(rows, ledger: Ledger | None = None) -> Outcome:
    """Return the outcome that a query's rows tell of."""
    if ledger is None:
        counts = [json.loads(row.value) for row in rows if row.kind == "ledger"]
        ledger = Ledger(*(sum(count[name] for count in counts) for name in Ledger._fields))
    return Outcome(
        sorted((row.id, row.value) for row in rows if row.kind == "output"),
        *(
            sort_out((row, row.reason) for row in rows if row.kind == kind)
            for kind in ("late", "rejected")
        ),
        ledger,
    )


@dataclass(frozen=True)
class Local:
    """An embedded run in micro-batches cut at random, stopped and started again on its checkpoint."""

    seed: str
    shards: int = 4
    cores: int = 1
    batches: int = 4
    columns: bool = True

    name = "local"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        rng = random.Random(self.seed)
        stream = Stream(story.program, story.channels, story.items)
        parts = stream.cut(rng, self.batches)
        stop = rng.randint(1, max(1, len(parts) - 1))
        yield self.stream(stream, [parts[:stop], parts[stop:]], place.folder)

    def stream(self, stream: Stream, lives: list[list[list]], folder: Path) -> Outcome:
        """Run one life after the other, each on the files that have come since."""
        from anabranch.local import run as start
        from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
        from anabranch.microbatch.store.column_entries import forget_tables

        ran = 0
        for parts in filter(None, lives):
            stream.write(folder / "in", parts, start=ran)
            start(
                stream.program,
                stream.files(folder / "in"),
                output=folder / "out",
                checkpoint=folder / "checkpoint",
                shards=self.shards,
                cores=self.cores,
                columnar="auto" if self.columns else "never",
                sync="system",
                available_now=True,
            ).wait()
            forget_tables()
            ran += len(parts)
        assert len(list((folder / "out").glob("batch=*"))) == ran
        rows = read_published(folder / "out", stream.program)
        return read_emitted(rows, read_ledger(find_last_batch(folder / "out")))
