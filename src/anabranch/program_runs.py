"""The function `run`: run a program on a list of events or on files, in this process or on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.ingest.file_items import read_items
from anabranch.model.events import Event, Heartbeat, Item, Malformed
from anabranch.model.program import Program
from anabranch.model.values.field_support import check_fields
from anabranch.reference.sequential import Answer
from anabranch.reference.sequential import run as fold
from anabranch.savepoints.snapshot import Snapshot
from anabranch.sources.files import Files
from anabranch.sources.source_options import Source, list_sources

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import SparkSession

    from anabranch.spark.run_options import RunKeywords
    from anabranch.spark.sinks.results import Result

INPUT = "input"
"""The channel of plain events."""


@overload
def run(
    program: Program,
    sources: Source | Iterable[Any],
    *,
    channels: Sequence[Channel] = (),
    ended: bool = True,
    start: Snapshot | None = None,
    spark: None = None,
) -> Answer: ...


@overload
def run(
    program: Program,
    sources: Source | Iterable[Any],
    *,
    channels: Sequence[Channel] = (),
    spark: SparkSession,
    **options: Unpack[RunKeywords],
) -> Result: ...


def run(
    program: Program,
    sources: Source | Iterable[Any],
    *,
    channels: Sequence[Channel] = (),
    ended: bool = True,
    start: Snapshot | None = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> Answer | Result:
    """Run a program on events, or on sources, and return its answer.

    `sources` is a list of events, or one or more sources such as `Files`. Events are plain (`Txn(1, "ann", 5)`, all
    of one channel, in the order of the list), or an `Event` each, with its channel; `channels` declares the
    channels of a list. The run reads the input that exists now. The input counts as ended, so that nothing
    stays pending, unless `ended=False`. With `start=answer.snapshot()` a run continues from an earlier one.

    Without `spark` the program runs in this process, one event after the other: this run is the reference
    for every other runtime. With `spark=session` it is `anabranch.spark.run`, with its options.
    """
    if spark is not None:
        from anabranch.spark.runs import run as run_on_spark

        _refuse_channels(channels)
        if start is not None or not ended:
            raise InputError(
                "`start` and `ended` apply to a run without Spark",
                expected="restore_savepoint(…) and Files(…, ended=…) of anabranch.spark",
                got="start=" if start is not None else "ended=False",
            )
        return run_on_spark(program, sources, spark=spark, **options)
    if options:
        raise InputError(
            f"{next(iter(options))} is an option of a run on Spark",
            expected="it together with spark=session",
            got="no session",
        )
    taken = [sources] if isinstance(sources, Source) else list(sources)
    if not any(isinstance(one, Source) for one in taken):
        items = list_items(program, taken)
    else:
        _refuse_channels(channels)
        check_fields(program)
        items, channels = _read_files(program, list_sources(taken))
    return fold(program, end_channels(items, channels) if ended else items, channels, start)


def list_items(program: Program, events: Iterable[Any]) -> list[Item]:
    """Return events as items; plain events get one channel, and numbers in the order of the list."""
    items: list[Item] = []
    for place, event in enumerate(events):
        if isinstance(event, Event | Heartbeat | Malformed):
            items.append(event)
        elif type(event) in program.inputs:
            items.append(Event(event, INPUT, place))
        else:
            known = ", ".join(event_type.__name__ for event_type in program.inputs)
            raise InputError(
                f"item {place} is not an event of {program.name}",
                expected=f"{known}, or Event(…) with its channel",
                got=repr(event)[:100],
            )
    return items


def _read_files(program: Program, sources: Sequence[Source]) -> tuple[list[Item], list[Channel]]:
    items: list[Item] = []
    channels: list[Channel] = []
    for source in sources:
        if not isinstance(source, Files):
            raise InputError(
                f"{type(source).__name__} can't be read without Spark",
                expected="Files(…), or a list of events",
                got=type(source).__name__,
                cure="run(program, …, spark=session)",
            )
        items += read_items(program, source)
        channels += source.declared()
    return items, channels


def _refuse_channels(channels: Sequence[Channel]) -> None:
    if channels:
        raise InputError(
            "channels= is given together with sources",
            expected="channels= only for a list of events; a source declares its own",
            got=", ".join(channel.name for channel in channels),
        )
