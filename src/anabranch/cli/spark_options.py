"""Flags of a run on Spark, and their validation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from anabranch.errors import InputError
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.tolerance import Tolerance
from anabranch.microbatch.job.path_choice import Columnar
from anabranch.paths import check_output_apart, strip_scheme
from anabranch.reference.rows import STANDARD
from anabranch.speculation.output_changes import Mode

TRIGGER = "1 second"
"""Interval at which --follow lists the folder. Spark's own default would list it 100 times a second."""

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
            help="Run on this Spark master: local[2], spark://host:7077. --input may be a folder."
        ),
    ] = None
    spark: Annotated[bool, Parameter(help="Run on Spark on all cores of this machine.")] = False
    checkpoint: Annotated[
        str | None,
        Parameter(help="On Spark: checkpoint folder of a stream (default OUTPUT/_checkpoint)."),
    ] = None
    shards: Annotated[
        int | None,
        Parameter(
            help="On Spark: number of shards (default 16, or fewer where that is faster; fixed for "
            "a checkpoint, and then taken from it)."
        ),
    ] = None
    files_per_batch: Annotated[
        int | None, Parameter(help="On Spark: number of files of a folder per batch (default 1).")
    ] = None
    max_record_bytes: Annotated[
        int | None,
        Parameter(
            help="On Spark: maximum size of an event, in bytes (default 1048576); larger ones are rejected."
        ),
    ] = None

    columnar: Annotated[
        Columnar,
        Parameter(
            help="On Spark: take the columnar path where the program allows it (auto, the default), "
            "refuse a program that does not (require), or take the row path (never)."
        ),
    ] = "auto"

    idle_after_s: Annotated[
        float | None,
        Parameter(
            help="On Spark: seconds after which a channel of a folder without new events is idle and "
            "no longer holds back the watermark (default: as declared by the channel, or never)."
        ),
    ] = None

    follow: Annotated[
        bool,
        Parameter(
            help="On Spark: keep running and read files that are added to the --input folder, until "
            "Ctrl-C or SIGTERM (default: read the existing files and end)."
        ),
    ] = False

    trigger: Annotated[
        str | None,
        Parameter(
            help="With --follow: interval between listings of the folder, a number and a unit (ms, "
            f"seconds, minutes, hours; default {TRIGGER!r}). A longer batch delays the next listing."
        ),
    ] = None

    @property
    def on_spark(self) -> bool:
        """Return whether to run on Spark."""
        return self.master is not None or self.spark


HERE = RunPlace()
"""In this process, without Spark."""


@dataclass(frozen=True)
class SparkRequest:
    """The request of a user: where to run, the inputs, the outputs and the limits."""

    place: RunPlace
    inputs: tuple[str, ...] = ()
    output: str | None = None
    format: Literal["json", "parquet"] = "parquet"
    lateness: int | Estimated | None = None
    unique_times: bool = False
    unbounded: bool = False
    most_rejected: Tolerance | None = None
    mode: Mode = "settled"

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
        return self.place.master or "local[*]"

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
        """Return the folder to read as a stream, if the input is one."""
        return next((name for name in self.inputs if Path(name).is_dir()), None)


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


def refuse_flags(place: RunPlace) -> None:
    """Raise `InputError` for flags that need Spark."""
    if place.follow:
        raise InputError(
            "--follow needs Spark: without Spark, a run reads its input to the end",
            expected="it together with --master or --spark",
            got="--follow",
            cure="add --spark, which runs on all cores of this machine",
        )
    if place.columnar != "auto":
        raise InputError(
            "--columnar needs Spark",
            expected="it together with --master or --spark",
            got=f"--columnar {place.columnar}",
        )
    for name in (
        "checkpoint",
        "shards",
        "files_per_batch",
        "max_record_bytes",
        "idle_after_s",
        "trigger",
    ):
        value = getattr(place, name)
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{flag} needs Spark",
                expected="it together with --master or --spark",
                got=f"{flag} {value}",
            )


def check_order(order: SparkRequest) -> None:
    """Raise `InputError` for a request that can't be run, before Spark starts."""
    check_flags(order)
    _check_output(order)


def check_flags(order: SparkRequest) -> None:
    """Raise `InputError` for flags with wrong values, or that exclude each other."""
    if order.unbounded:
        raise InputError(
            "--unbounded does not apply to Spark, where files end and a folder does not",
            expected="--input DIR instead of --unbounded",
            got="--unbounded",
        )
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
    if order.output == STANDARD or (order.output and Path(order.output).is_file()):
        raise InputError(
            "on Spark, outputs go to a folder",
            expected="--output DIR, with one folder per batch",
            got="standard output" if order.output == STANDARD else f"the file {order.output!r}",
        )
    if order.folder is not None and len(order.inputs) > 1:
        raise InputError(
            "a folder must be the only input",
            expected="one --input DIR, or one --input FILE or more",
            got=", ".join(order.inputs),
            cure="put the files into the folder",
        )
    if order.folder is None and order.checkpoint is not None:
        raise InputError(
            "--checkpoint needs a stream",
            expected="--input DIR, a folder to which files are added",
            got="files, which are read once to their end",
        )
    if order.folder is None and order.place.idle_after_s is not None:
        raise InputError(
            "--idle-after-s needs a stream",
            expected="--input DIR, a folder to which files are added",
            got="files, which are read once to their end",
        )


def _check_follow(order: SparkRequest) -> None:
    if not order.place.follow:
        if order.place.trigger is not None:
            raise InputError(
                "--trigger needs --follow",
                expected="it together with --follow",
                got=f"--trigger {order.place.trigger}",
            )
        return
    read_interval(order.place.trigger or TRIGGER)
    if order.folder is None or order.output is None:
        raise InputError(
            "--follow needs a folder to read and a folder to write",
            expected="--input DIR, to which files are added, and --output DIR",
            got="no --output" if order.folder else "no folder as --input",
        )


def _check_output(order: SparkRequest) -> None:
    if order.output is None or not any(Path(order.output).glob("batch=*")):
        return
    if order.folder is None:
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


def find_checkpoint(order: SparkRequest, folder: Path) -> Path:
    """Return the checkpoint folder of a run."""
    # Spark does not read a folder with a leading underscore as data.
    return Path(order.checkpoint) if order.checkpoint else folder / "_checkpoint"


def keep_shards(order: SparkRequest) -> SparkRequest:
    """Return the request with the number of shards of its checkpoint, if the user gave none."""
    if order.folder is None or order.output is None or order.place.shards is not None:
        return order
    from anabranch.spark.checkpoint.ownership import read_begin
    from anabranch.spark.checkpoint.provenance import find_shards

    checkpoint = find_checkpoint(order, Path(order.output))
    shards = find_shards(checkpoint) or read_begin(checkpoint).shards
    return replace(order, place=replace(order.place, shards=shards))
