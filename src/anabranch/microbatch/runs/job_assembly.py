"""The job of a run, from a program, its sources and the options; the same for every runtime."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, check_units
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
from anabranch.microbatch.ingest.source_readings import make_reading
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.path_choice import describe_row_path, plan_path
from anabranch.microbatch.job.shard_counts import SHARDS, choose_shards
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.microbatch.runs.run_options import RunOptions
from anabranch.model.program import Program
from anabranch.model.values.field_support import check_fields
from anabranch.plan.layouts import choose_layout
from anabranch.sources.files import Files
from anabranch.sources.source_options import Source
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.durability_check import check_durable

_LOG = logging.getLogger("anabranch")


def check_program(program: object) -> None:
    """Raise `InputError` if the first argument of `run` is not a program."""
    if not isinstance(program, Program):
        raise InputError(
            "run() takes a program first",
            expected="run(program, Files(folder, …))",
            got=f"a {type(program).__name__}",
        )


def assemble_job(
    program: Program, sources: Sequence[Source], options: RunOptions, shards: int = SHARDS
) -> Job:
    """Return the job of a run; raise if the program or its sources cannot run.

    `shards` is the number of shards if the options do not give one; an early fold takes fewer.
    """
    ended = not _is_stream(sources)
    channels = collect_channels(sources)
    check_units(program, channels.values())
    check_fields(program)
    _check_columns(program, sources)
    for source in sources:
        source.check_schema(program)
    readings = [make_reading(source, program, options.max_record_bytes) for source in sources]
    folders = tuple(
        Folder(source, reading, tuple(sorted(channel.name for channel in source.declared())))
        for source, reading in zip(sources, readings, strict=True)
        if isinstance(source, Files)
    )
    mixed = frozenset(
        channel.name for source in sources if source.channel_column for channel in source.declared()
    )
    check_durable(program)
    numbered = all(source.is_numbered and source.json_column is None for source in sources)
    mode = options.mode

    def make(number: int) -> Job:
        speculative = mode == "speculative"
        layout = (choose_speculative_layout if speculative else choose_layout)(
            program, number, hot_keys=options.hot_keys
        )
        plan = plan_columns(program, layout, channels, numbered=numbered, mode=mode)
        found = plan_path(program, plan, options.columnar)
        codec = make_codec(program)
        return Job(
            program, layout, channels, codec, ended, found.plan, folders, mode, found.reason,
            frames=len(sources) - len(folders), mixed=mixed,
        )  # fmt: skip

    job = make(shards if options.shards is None else options.shards)
    if options.shards is None and can_look_ahead(job):
        few = choose_shards(job.layout, job.columns, shards)
        job = job if few == shards else make(few)
    job.fingerprint()  # Computed here, on the driver, and sent with the job.
    return job


def warn_of_row_path(job: Job) -> None:
    """Log the reason why a run takes the row path, if it is not the user's choice."""
    if job.row_reason is not None:
        _LOG.warning("%s", describe_row_path(job.program, job.row_reason))


def collect_channels(sources: Iterable[Source]) -> dict[str, Channel]:
    """Return the channels of all sources by name; raise if two sources declare one."""
    channels: dict[str, Channel] = {}
    for channel in (channel for source in sources for channel in source.declared()):
        if channel.name in channels:
            raise InputError(
                f"channel {channel.name!r} is declared by two sources",
                cure='give each a name of its own: channel="…"',
            )
        channels[channel.name] = channel
    return channels


def _is_stream(sources: Iterable[Source]) -> bool:
    """Return whether sources are streams; raise if some are and some are not."""
    streaming = {source.is_stream for source in sources}
    if len(streaming) > 1:
        raise InputError("some sources are streams and some are not", cure="make all of them alike")
    return True in streaming


def _list_time_columns(program: Program, source: Source) -> list[str]:
    """Return the columns with the times of a source's events."""
    reading = make_reading(source, program)
    event_types = [
        t for t in program.inputs if source.type_column or t.__name__ == reading.event_type
    ]
    return list(dict.fromkeys(reading.time_column(event_type) for event_type in event_types)) or [
        reading.time
    ]


def _check_columns(program: Program, sources: Sequence[Source]) -> None:
    for source in sources:
        known = source.known_columns()
        times = [] if source.json_column is not None else _list_time_columns(program, source)
        for column in (*source.list_columns(), *times):
            if known is not None and column not in known:
                raise InputError(
                    f"column {column!r} is not found",
                    expected=f"one of {', '.join(known)}",
                    got=column,
                )
        exact = [channel for channel in source.declared() if channel.needs_each_item]
        if not source.is_numbered and exact:
            named = "`max_ahead`" if exact[0].max_ahead is not None else "an estimated lateness"
            what = '`order="arrival"`' if exact[0].in_arrival_order else named
            raise InputError(
                f"{what} needs a sequence", expected="seq=, the column of the sequence"
            )
