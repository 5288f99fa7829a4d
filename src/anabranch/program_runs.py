"""The function `run`: run a program on events in memory, on sources in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Event, Heartbeat, Item, Malformed
from anabranch.model.program import Program
from anabranch.model.values.field_support import check_fields
from anabranch.reference.sequential import Answer
from anabranch.reference.sequential import run as fold
from anabranch.savepoints.snapshot import Snapshot
from anabranch.sources.files import Files
from anabranch.sources.source_options import Source, list_sources

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypedDict, Unpack

    from pyspark.sql import SparkSession

    from anabranch.eventtime.tolerance import Tolerance
    from anabranch.local.local_runs import LocalRun, Take
    from anabranch.local.page_log import Sync
    from anabranch.microbatch.runs.part_files import Format
    from anabranch.microbatch.runs.run_options import RunKeywords
    from anabranch.spark.sinks.results import Result

    class LocalKeywords(RunKeywords, TypedDict, total=False):
        """The keywords of a run on the embedded runtime."""

        output: str | Path | None
        checkpoint: str | Path | None
        format: Format
        for_each_batch: Take | None
        available_now: bool
        cores: int | None
        processes: bool | None
        sync: Sync
        poll_s: float
        most_rejected: float | str | Tolerance | None


INPUT = "input"
"""The channel of plain events."""

_STREAMS = ("local", "reference")


@overload
def run(
    program: Program,
    sources: Source | Iterable[Source],
    *,
    on: Literal["local"] | None = None,
    **options: Unpack[LocalKeywords],
) -> LocalRun: ...


@overload
def run(
    program: Program,
    sources: Iterable[Any],
    *,
    on: None = None,
    channels: Sequence[Channel] = (),
    ended: bool = True,
    start: Snapshot | None = None,
) -> Answer: ...


@overload
def run(
    program: Program,
    sources: Source | Iterable[Any],
    *,
    on: Literal["reference"],
    channels: Sequence[Channel] = (),
    ended: bool = True,
    start: Snapshot | None = None,
) -> Answer: ...


@overload
def run(
    program: Program,
    sources: Source | Iterable[Source],
    *,
    on: SparkSession,
    **options: Unpack[RunKeywords],
) -> Result: ...


def run(
    program: Program,
    sources: Source | Iterable[Any],
    *,
    on: Literal["local", "reference"] | SparkSession | None = None,
    **options: Any,
) -> Answer | LocalRun | Result:
    """Run a program on events in memory, or on sources.

    A list of events gives the `Answer`, at once: `run(program, [Txn(1, "ann", 5)]).values`. Events are plain, all of
    one channel and in the order of the list, or an `Event` each, with its channel; `channels` declares the channels.
    The input counts as ended, so that nothing stays pending, unless `ended=False`. With `start=answer.snapshot()` a
    run continues from an earlier one.

    Sources, such as `Files`, give the handle of a run that has started: `wait`, `stop`, `progress`, `watch`. It is a
    context manager, and Ctrl-C stops it after its batch. `output` is the folder of its results, `checkpoint` that of its
    state; the other options are those of `anabranch.local.run`. Without `output`, the rows are kept in memory:
    `run(program, files, available_now=True).result()`.

    `on` chooses the runtime: "local", this process (the default for sources); "reference", one event after the other
    (the default for a list of events), which reads the files that exist now and returns the `Answer`; or a
    `SparkSession`, for which this is `anabranch.spark.run`.
    """
    if "spark" in options:
        raise InputError(
            "run() has no spark=", expected="run(program, sources, on=session)", got="spark="
        )
    taken = sources if isinstance(sources, Source) else list(sources)
    listed = not isinstance(taken, Source) and not any(isinstance(one, Source) for one in taken)
    if on is None:
        on = "reference" if listed else "local"
    if not isinstance(on, str):
        from anabranch.spark.runs import run as run_on_spark

        _refuse(options, ("start", "ended"), "a run of the reference", 'on="reference"')
        _refuse(options, ("channels",), "a list of events", "channels of a source")
        return run_on_spark(program, taken, spark=on, **options)
    if on not in _STREAMS:
        raise InputError(
            f"there is no runtime {on!r}",
            expected='on="local", on="reference", or a SparkSession',
            got=repr(on),
        )
    if on == "reference":
        return _run_reference(program, taken, listed=listed, **options)
    if listed:
        raise InputError(
            "a list of events is run by the reference",
            expected='on="reference", or sources',
            got='on="local"',
            cure="anabranch.local.evaluate(program, {Txn: table}) runs a program on a table",
        )
    _refuse(options, ("start", "ended"), "a run of the reference", 'on="reference"')
    _refuse(options, ("channels",), "a list of events", "channels of a source")
    from anabranch.local.local_runs import run as run_here

    return run_here(program, taken, **options)


def _refuse(options: Mapping[str, Any], names: Iterable[str], what: str, instead: str) -> None:
    """Raise `InputError` for options that belong to another kind of run."""
    for name in names:
        if name in options:
            raise InputError(
                f"{name}= is an option of {what}", expected=instead, got=f"{name}= with sources"
            )


def _run_reference(
    program: Program,
    taken: Source | list[Any],
    *,
    listed: bool,
    channels: Sequence[Channel] = (),
    ended: bool = True,
    start: Snapshot | None = None,
    **others: Any,
) -> Answer:
    if others:
        raise InputError(
            f"{next(iter(others))}= does not apply to a run of the reference",
            expected="channels=, ended= or start=; or sources, for the other options",
            got=f"{next(iter(others))}=",
        )
    if listed:
        assert isinstance(taken, list)
        items = list_items(program, taken)
    else:
        _refuse({"channels": channels} if channels else {}, ("channels",), "a list of events",
                "channels of a source")  # fmt: skip
        check_fields(program)
        items, channels = _read_files(program, list_sources(taken))
    return fold(
        program, end_channels(items, channels=channels) if ended else items, channels, start
    )


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
    from anabranch.microbatch.ingest.file_items import read_items

    items: list[Item] = []
    channels: list[Channel] = []
    for source in sources:
        if not isinstance(source, Files):
            raise InputError(
                f"{type(source).__name__} can't be read by the reference",
                expected="Files(…), or a list of events",
                got=type(source).__name__,
                cure='run(program, …, on="local"), or on=session for Spark',
            )
        items += read_items(program, source)
        channels += source.declared()
    return items, channels
