"""The request of a user for a run: flags, paths and limits, and their validation, for every runtime."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from anabranch.cli.run.run_outputs import PartFormat
from anabranch.errors import InputError, MissingExtraError
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.tolerance import Tolerance
from anabranch.microbatch.job.path_choice import Columnar
from anabranch.paths import check_output_apart, strip_scheme
from anabranch.reference.rows import STANDARD
from anabranch.speculation.output_changes import Mode

TRIGGER = "1 second"
"""Interval at which --follow lists the folder on Spark, whose own default would list it 100 times a second."""

LOCAL_TRIGGER = "100 ms"
"""Interval at which --follow lists the folder in an embedded run."""

_UNITS = {
    "ms": "milliseconds", "millisecond": "milliseconds", "milliseconds": "milliseconds",
    "s": "seconds", "second": "seconds", "seconds": "seconds",
    "min": "minutes", "minute": "minutes", "minutes": "minutes",
    "h": "hours", "hour": "hours", "hours": "hours",
}  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True)
class RunPlace:
    """The flags that choose where and how to run."""

    master: Annotated[
        str | None,
        Parameter(
            help="Run on this Spark master: local[2], spark://host:7077 (default: in this process, "
            "without Spark)."
        ),
    ] = None
    spark: Annotated[bool, Parameter(help="Run on Spark on all cores of this machine.")] = False
    reference: Annotated[
        bool,
        Parameter(
            help="Run one event after the other. This run defines what the program means: slow, on "
            "one core, without a checkpoint."
        ),
    ] = False
    cores: Annotated[
        int | None, Parameter(help="Number of cores (default: all cores of this machine).")
    ] = None
    checkpoint: Annotated[
        str | None,
        Parameter(help="Checkpoint folder of a stream (default OUTPUT/_checkpoint)."),
    ] = None
    shards: Annotated[
        int | None,
        Parameter(
            help="Number of shards (default 16, or fewer where that is faster; fixed for "
            "a checkpoint, and then taken from it)."
        ),
    ] = None
    files_per_batch: Annotated[
        int | None, Parameter(help="Number of files of a folder per batch (default 1).")
    ] = None
    max_record_bytes: Annotated[
        int | None,
        Parameter(
            help="Maximum size of an event, in bytes (default 1048576); larger ones are rejected."
        ),
    ] = None

    columnar: Annotated[
        Columnar,
        Parameter(
            help="Take the columnar path where the program allows it (auto, the default), "
            "refuse a program that does not (require), or take the row path (never)."
        ),
    ] = "auto"

    idle_after_s: Annotated[
        float | None,
        Parameter(
            help="Seconds after which a channel of a folder without new events is idle and "
            "no longer holds back the watermark (default: as declared by the channel, or never)."
        ),
    ] = None

    follow: Annotated[
        bool,
        Parameter(
            help="Keep running and read files that are added to the --input folder, until "
            "Ctrl-C or SIGTERM (default: read the existing files and end)."
        ),
    ] = False

    trigger: Annotated[
        str | None,
        Parameter(
            help="With --follow: interval between listings of the folder, a number and a unit (ms, "
            f"seconds, minutes, hours; default {LOCAL_TRIGGER!r}, on Spark {TRIGGER!r}). A longer batch "
            "delays the next listing."
        ),
    ] = None

    @property
    def on_spark(self) -> bool:
        """Return whether to run on Spark."""
        return self.master is not None or self.spark


HERE = RunPlace()
"""In this process, without Spark: the embedded runtime."""


@dataclass(frozen=True)
class RunRequest:
    """The request of a user: where to run, the inputs, the outputs and the limits."""

    place: RunPlace
    inputs: tuple[str, ...] = ()
    output: str | None = None
    format: PartFormat = "parquet"
    lateness: int | Estimated | None = None
    unique_times: bool = False
    unbounded: bool = False
    most_rejected: Tolerance | None = None
    mode: Mode = "settled"
    to_file: bool = False
    """Whether `output` is one file, or standard output, and not a folder of batches."""

    def __post_init__(self) -> None:
        """Refuse paths on other file systems; turn `file:` URLs into plain paths."""
        inputs = (x if x == STANDARD else strip_scheme(x, "input") for x in self.inputs)
        object.__setattr__(self, "inputs", tuple(inputs))
        if self.output is not None and self.output != STANDARD:
            object.__setattr__(self, "output", strip_scheme(self.output, "output"))
            check_output_apart(self.output, [x for x in self.inputs if x != STANDARD])
        if self.place.checkpoint is not None:
            local = strip_scheme(self.place.checkpoint, "checkpoint")
            object.__setattr__(self, "place", replace(self.place, checkpoint=local))

    @property
    def master(self) -> str:
        """Return Spark's master."""
        return self.place.master or f"local[{self.place.cores or '*'}]"

    @property
    def checkpoint(self) -> str | None:
        """Return the checkpoint folder, if the user gave one."""
        return self.place.checkpoint

    @property
    def files_per_batch(self) -> int:
        """Return the number of files per batch."""
        return 1 if self.place.files_per_batch is None else self.place.files_per_batch

    @property
    def trigger(self) -> dict[str, Any]:
        """Return Spark's trigger: the existing files only, or an interval."""
        if not self.place.follow:
            return {"availableNow": True}
        return {"processingTime": read_interval(self.place.trigger or TRIGGER)}

    @property
    def folder(self) -> str | None:
        """Return the folder among the inputs, if there is one."""
        return next((name for name in self.inputs if Path(name).is_dir()), None)

    @property
    def is_stream(self) -> bool:
        """Return whether the folder is read as a stream, which does not end.

        Without Spark, a stream needs an output folder, for its checkpoint. If there is none, the files
        of the folder are the whole input.
        """
        if self.folder is None:
            return False
        return self.place.on_spark or not (self.output is None or self.to_file)


def is_file_name(output: str, kind: str | None) -> bool:
    """Return whether an output is one file, and not a folder: by its name, or by what is there.

    >>> is_file_name("out.jsonl", None), is_file_name("out", None), is_file_name("out.txt", "jsonl")
    (True, False, True)
    """
    if output == STANDARD:
        return True
    path = Path(strip_scheme(output, "output"))
    if path.is_dir():
        return False
    # A name with an unknown ending is a file too: as the name of a folder it would be a surprise.
    return path.is_file() or bool(path.suffix)


def read_interval(text: str) -> str:
    """Return an interval in the notation of Spark.

    >>> read_interval("5s"), read_interval("1 minute")
    ('5 seconds', '1 minutes')
    """
    found = re.fullmatch(r"\s*(\d{1,9})\s*([a-z]+)\s*", text)
    if found is None or found[2] not in _UNITS:
        raise InputError(
            "--trigger is not an interval",
            expected="a whole number and a unit: 500 ms, 5 seconds, 1 minute, 1 hour",
            got=repr(text),
        )
    return f"{int(found[1])} {_UNITS[found[2]]}"


def refuse_flags(place: RunPlace, why: str = "--reference") -> None:
    """Raise `InputError` for flags that do not apply to the reference, which was chosen by the flag `why`."""
    given = {
        name: getattr(place, name)
        for name in (
            "follow", "columnar", "cores", "checkpoint", "shards", "files_per_batch",
            "max_record_bytes", "idle_after_s", "trigger",
        )
        if getattr(place, name) != getattr(HERE, name)
    }  # fmt: skip
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        raise InputError(
            f"{flag} does not apply to a run with {why}, which folds one event after the other",
            expected=f"{flag} without {why}",
            got=flag if value is True else f"{flag} {value}",
        )


def check_place(place: RunPlace) -> None:
    """Raise `InputError` if two places to run are given, or a wrong number of cores."""
    if place.reference and place.on_spark:
        raise InputError(
            "--reference and Spark don't go together",
            expected="one of --reference, --spark and --master",
            got="--reference and " + ("--spark" if place.master is None else "--master"),
        )
    if place.cores is None:
        return
    if place.cores < 1:
        raise InputError(
            "--cores is not a number of cores", expected="1 or more", got=str(place.cores)
        )
    if place.master is not None:
        raise InputError(
            "--cores does not apply to a Spark master, which has its own",
            expected="--master local[2], or --spark --cores 2",
            got=f"--master {place.master} --cores {place.cores}",
        )


def check_packages() -> None:
    """Raise `MissingExtraError` if a package of the embedded runtime is not installed."""
    try:
        import numpy as np  # noqa: F401 - both are needed below, and one error names both
        import pyarrow as pa  # noqa: F401
    except ImportError as missing:
        raise MissingExtraError(
            "the embedded runtime needs pyarrow and numpy, which are not installed",
            expected="the extra `local`",
            got=f"no {missing.name}",
            cure="pip install 'anabranch[local]'; or --reference, which needs neither for JSON lines "
            "and CSV",
        ) from missing


def check_order(order: RunRequest) -> None:
    """Raise `InputError` for a request that can't be run, before Spark starts."""
    check_flags(order)
    _check_output(order)


def check_flags(order: RunRequest) -> None:
    """Raise `InputError` for flags with wrong values, or that exclude each other, on Spark."""
    if order.unbounded:
        raise InputError(
            "--unbounded does not apply to Spark, where files end and a folder does not",
            expected="--input DIR instead of --unbounded",
            got="--unbounded",
        )
    if order.output == STANDARD or (order.output and Path(order.output).is_file()):
        raise InputError(
            "on Spark, outputs go to a folder",
            expected="--output DIR, with one folder per batch",
            got="standard output" if order.output == STANDARD else f"the file {order.output!r}",
        )
    check_values(order)


def check_local(order: RunRequest) -> None:
    """Raise `InputError` for a request that the embedded runtime can't run."""
    check_values(order)
    if not order.to_file:
        _check_output(order)


def check_values(order: RunRequest) -> None:
    """Raise `InputError` for flags with wrong values, or that exclude each other."""
    _check_follow(order)
    shards = order.place.shards
    if shards is not None and shards < 1:
        raise InputError(
            "--shards is not a number of shards", expected="1 or more", got=str(shards)
        )
    if order.files_per_batch < 1:
        raise InputError(
            "--files-per-batch is not a number of files",
            expected="1 or more",
            got=str(order.files_per_batch),
        )
    if order.place.max_record_bytes is not None and order.place.max_record_bytes < 1:
        raise InputError(
            "--max-record-bytes is not a number of bytes",
            expected="1 or more",
            got=str(order.place.max_record_bytes),
        )
    if order.is_stream and len(order.inputs) > 1:
        raise InputError(
            "a folder must be the only input",
            expected="one --input DIR, or one --input FILE or more",
            got=", ".join(order.inputs),
            cure="put the files into the folder",
        )
    for flag, value in (
        ("--checkpoint", order.checkpoint),
        ("--idle-after-s", order.place.idle_after_s),
    ):
        if value is not None and not order.is_stream:
            lacks_folder = order.folder is None
            raise InputError(
                f"{flag} needs a stream",
                expected="--input DIR, a folder to which files are added"
                + ("" if lacks_folder else ", and --output DIR"),
                got="files, which are read once to their end"
                if lacks_folder
                else "no output folder, so that the files are read once to their end",
            )


def _check_follow(order: RunRequest) -> None:
    if not order.place.follow:
        if order.place.trigger is not None:
            raise InputError(
                "--trigger needs --follow",
                expected="it together with --follow",
                got=f"--trigger {order.place.trigger}",
            )
        return
    read_interval(order.place.trigger or TRIGGER)
    if order.folder is None or order.output is None or order.to_file:
        raise InputError(
            "--follow needs a folder to read and a folder to write",
            expected="--input DIR, to which files are added, and --output DIR",
            got="no folder as --input"
            if order.folder is None
            else "no --output"
            if order.output is None
            else f"the file {order.output!r}",
        )


def _check_output(order: RunRequest) -> None:
    if order.output is None or not any(Path(order.output).glob("batch=*")):
        return
    if not order.is_stream:
        raise InputError(
            f"{order.output!r} already has the batches of a run",
            expected="a new folder",
            got="a folder with batch=…",
            cure="give another --output; published batches are never overwritten",
        )
    if not find_checkpoint(order, Path(order.output)).exists():
        raise InputError(
            f"{order.output!r} has the batches of a run with another checkpoint",
            expected="the --checkpoint that made them, or a new --output",
            got=f"no checkpoint at {find_checkpoint(order, Path(order.output))}",
            cure="give one of them; a new checkpoint numbers its batches from 0, and they would count as "
            "replays of those in the folder",
        )


def find_checkpoint(order: RunRequest, folder: Path) -> Path:
    """Return the checkpoint folder of a run."""
    # Spark does not read a folder with a leading underscore as data.
    return Path(order.checkpoint) if order.checkpoint else folder / "_checkpoint"


def keep_shards(order: RunRequest) -> RunRequest:
    """Return the request with the number of shards of its checkpoint, if the user gave none."""
    if order.folder is None or order.output is None or order.place.shards is not None:
        return order
    from anabranch.microbatch.runs.ownership import read_begin
    from anabranch.spark.checkpoint.provenance import find_shards

    checkpoint = find_checkpoint(order, Path(order.output))
    shards = find_shards(checkpoint) or read_begin(checkpoint).shards
    return replace(order, place=replace(order.place, shards=shards))
