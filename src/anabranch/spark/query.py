"""From a program and frames to a frame: the whole of a run, as an ordinary Spark query."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.eventtime.sources import Source
from anabranch.model.events import Tag
from anabranch.model.program import Program
from anabranch.plan.wiring import wire
from anabranch.spark.envelopes import SCHEMA
from anabranch.spark.intake import Reading, take_in
from anabranch.spark.said import COLUMNS
from anabranch.spark.shards import Job
from anabranch.state.codec import make_codec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SHARDS = 16


@dataclass(frozen=True)
class Feed:
    """A frame that brings events: which column says what, and what its sources promise.

    A frame of one source has a name, `Feed(frame, "north", tag=Txn, seq="offset", lateness=5)`; a
    frame of several has a column that names them and declares each: `source_column="topic",
    sources=[Source("a", lateness=5), …]`. Likewise `tag=` or `tag_column=`. Fields are read from
    the columns of their names. A row with a value in the column `heartbeat` is a promise, no event.
    """

    frame: DataFrame
    name: str | None = None
    tag: Tag | str | None = None
    time: str = "time"
    seq: str | None = None
    lateness: int | None = 0
    strict: bool = False
    ahead: int | None = None
    tag_column: str | None = None
    source_column: str | None = None
    sources: Sequence[Source] = ()
    heartbeat: str | None = None

    def declared(self) -> list[Source]:
        """Return the sources that this frame brings."""
        if (self.name is None) == (self.source_column is None):
            raise InputError(
                "a feed does not say which source it is",
                expected='a name, Feed(frame, "north", …), or source_column= and sources=',
                got="both" if self.name else "neither",
            )
        if self.name is not None:
            return [Source(self.name, self.lateness, self.strict, self.ahead)]
        if not self.sources:
            raise InputError(
                f"the sources in column {self.source_column!r} are not declared",
                expected="sources=[Source('a'), Source('b', lateness=5), …]",
                got="none",
                cure="a source that shows up later could not be waited for",
            )
        return list(self.sources)

    def reading(self) -> Reading:
        """Return how rows are read."""
        tag = self.tag.__name__ if isinstance(self.tag, type) else self.tag
        return Reading(
            tag, self.name, self.time, self.seq, self.tag_column, self.source_column, self.heartbeat
        )


def run(program: Program, feeds: Iterable[Feed], *, shards: int = SHARDS) -> DataFrame:
    """Return what a program says of its feeds, as a frame with the columns of `said.COLUMNS`.

    Streaming frames give a streaming frame, to be written with any `writeStream` in append mode;
    batch frames give the answer of the whole input. Rows of kind `output` are the program's, `late`
    and `rejected` are the events it could not use, `ledger` counts everything. The number of
    shards is fixed for a checkpoint; Spark's partitions are free.
    """
    feeds = list(feeds)
    if not feeds:
        raise InputError("there is nothing to run on", expected="at least one Feed", got="none")
    streaming = {feed.frame.isStreaming for feed in feeds}
    if len(streaming) > 1:
        raise InputError("some feeds are streams and some are not", cure="make all of them alike")
    sources: dict[str, Source] = {}
    for source in (source for feed in feeds for source in feed.declared()):
        if source.name in sources:
            raise InputError(f"source {source.name!r} is declared by two feeds")
        sources[source.name] = source
    _check_columns(program, feeds, sources)
    ended = streaming == {False}
    job = Job(program, wire(program, shards), sources, make_codec(program), ended)
    _ship_by_value(program)
    envelopes = [f.frame.mapInArrow(_make_mapper(job, f.reading()), SCHEMA) for f in feeds]
    return _fold(job, reduce(lambda a, b: a.unionByName(b), envelopes))


def _fold(job: Job, envelopes: DataFrame) -> DataFrame:
    from anabranch.spark.operators import DELTA_SCHEMA, LeafOperator, RootOperator

    forked = job.wiring.way == "forked"
    leaves = envelopes.groupBy("shard").transformWithStateInPandas(
        LeafOperator(job), DELTA_SCHEMA if forked else COLUMNS, "append", "None"
    )
    if not forked:
        return leaves
    return leaves.groupBy("root").transformWithStateInPandas(
        RootOperator(job), COLUMNS, "append", "None"
    )


def _make_mapper(
    job: Job, reading: Reading
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def map_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = (row for batch in batches for row in batch.to_pylist())
        envelopes = list(take_in(job, reading, rows))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([shard for shard, _, _ in envelopes], pa.int32()),
                pa.array([kind for _, kind, _ in envelopes], pa.string()),
                pa.array([payload for _, _, payload in envelopes], pa.binary()),
            ],
            ["shard", "kind", "payload"],
        )

    return map_rows


def _check_columns(program: Program, feeds: list[Feed], sources: dict[str, Source]) -> None:
    for feed in feeds:
        known = feed.frame.columns
        asked = [feed.time, feed.seq, feed.tag_column, feed.source_column, feed.heartbeat]
        for column in asked:
            if column is not None and column not in known:
                raise InputError(
                    f"column {column!r} is not found",
                    expected=f"one of {', '.join(known)}",
                    got=column,
                )
        if feed.tag is None and feed.tag_column is None:
            raise InputError(
                "a feed does not say which events it brings",
                expected="tag=Txn, or tag_column='type'",
                got="neither",
            )
        if feed.seq is None and any(s.ahead is not None for s in feed.declared()):
            raise InputError(
                "`ahead` needs a sequence", expected="seq=, the column of the sequence"
            )


def _ship_by_value(program: Program) -> None:
    """Let workers have the user's own module even where they can't import it."""
    from pyspark import cloudpickle

    modules = {tag.__module__ for tag in program.tags}
    for state_type in program.state_types:
        for handler in state_type.handlers.values():
            modules |= {getattr(f, "__module__", "") for f in (handler.update, handler.output)}
    for name in modules:
        module: Any = sys.modules.get(name)
        file = getattr(module, "__file__", None) or ""
        ours = name.partition(".")[0] in ("", "anabranch", "builtins", "__main__")
        if module is not None and not ours and "site-packages" not in file:
            cloudpickle.register_pickle_by_value(module)
