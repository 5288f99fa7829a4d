"""Orders: what a user asks of Spark by flags, and what of it can't be."""

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
"""How often a followed folder is listed. Spark's own default would list it a hundred times a second."""

_UNITS = {
    "ms": "milliseconds", "millisecond": "milliseconds", "milliseconds": "milliseconds",
    "s": "seconds", "second": "seconds", "seconds": "seconds",
    "min": "minutes", "minute": "minutes", "minutes": "minutes",
    "h": "hours", "hour": "hours", "hours": "hours",
}  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True)
class RunPlace:
    """Where to run, as the flags say it."""

    master: Annotated[
        str | None,
        Parameter(help="Run on Spark: local[2], spark://host:7077. --input may then be a folder."),
    ] = None
    spark: Annotated[bool, Parameter(help="Run on Spark, here, on all cores.")] = False
    checkpoint: Annotated[
        str | None,
        Parameter(help="On Spark: where a followed folder's state is; OUTPUT/_checkpoint."),
    ] = None
    shards: Annotated[
        int | None,
        Parameter(
            help="On Spark: number of shards (default 16, or fewer where that is faster; fixed for "
            "a checkpoint, and then taken from it)."
        ),
    ] = None
    files_per_batch: Annotated[
        int | None, Parameter(help="On Spark: how many files of a folder make a batch; 1.")
    ] = None
    max_record_bytes: Annotated[
        int | None,
        Parameter(help="On Spark: how large an event may be, or else it is rejected; 1048576."),
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
            help="On Spark: how many seconds a silent channel of a followed folder is waited for. For "
            "ever, unless a channel says otherwise."
        ),
    ] = None

    follow: Annotated[
        bool,
        Parameter(
            help="On Spark: stay, and take files that are added to the --input folder, until Ctrl-C or "
            "SIGTERM. Without it, a run takes the files that are there and ends."
        ),
    ] = False

    trigger: Annotated[
        str | None,
        Parameter(
            help="With --follow: how often to look for new files, a number and a unit (ms, seconds, "
            f"minutes, hours; default {TRIGGER!r}). A batch that takes longer delays the next look."
        ),
    ] = None

    @property
    def on_spark(self) -> bool:
        """Say whether to run on Spark."""
        return self.master is not None or self.spark


HERE = RunPlace()
"""In this process, without Spark."""


@dataclass(frozen=True)
class SparkRequest:
    """What a user asked for: where to run, on what, and where to put it."""

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
        """Refuse paths on other file systems; those of `file:` become plain ones."""
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
        """Return where the state is kept, if the user says so."""
        return self.place.checkpoint

    @property
    def files_per_batch(self) -> int:
        """Return how many files make a batch."""
        return 1 if self.place.files_per_batch is None else self.place.files_per_batch

    @property
    def trigger(self) -> dict[str, Any]:
        """Return Spark's trigger: take what is there, or look for files again and again."""
        if not self.place.follow:
            return {"availableNow": True}
        return {"processingTime": read_interval(self.place.trigger or TRIGGER)}

    @property
    def folder(self) -> str | None:
        """Return the folder to be followed, if the input is one."""
        return next((name for name in self.inputs if Path(name).is_dir()), None)


def read_interval(text: str) -> str:
    """Return an interval in Spark's words.

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
    """Refuse flags that mean nothing without Spark."""
    if place.follow:
        raise InputError(
            "--follow is for Spark: without it, a run reads its input to the end",
            expected="it together with --master or --spark",
            got="--follow",
            cure="add --spark, which runs on all cores of this machine",
        )
    if place.columnar != "auto":
        raise InputError(
            "--columnar is for Spark",
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
                f"{flag} is for Spark",
                expected="it together with --master or --spark",
                got=f"{flag} {value}",
            )


def check_order(order: SparkRequest) -> None:
    """Refuse what can't be run, before anything starts."""
    check_flags(order)
    _check_output(order)


def check_flags(order: SparkRequest) -> None:
    """Refuse flags that can't be, or not together."""
    if order.unbounded:
        raise InputError(
            "on Spark, files end and a folder does not",
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
            expected="--output DIR, which gets a folder for each batch",
            got="standard output" if order.output == STANDARD else f"the file {order.output!r}",
        )
    if order.folder is not None and len(order.inputs) > 1:
        raise InputError(
            "a folder is followed alone",
            expected="one --input DIR, or one --input FILE or more",
            got=", ".join(order.inputs),
            cure="put the files into the folder",
        )
    if order.folder is None and order.checkpoint is not None:
        raise InputError(
            "--checkpoint is for a stream that goes on",
            expected="--input DIR, a folder to which files are added",
            got="files, which are run once and to their end",
        )
    if order.folder is None and order.place.idle_after_s is not None:
        raise InputError(
            "--idle-after-s is for a stream that goes on",
            expected="--input DIR, a folder to which files are added",
            got="files, of which nobody is silent: all of them end",
        )


def _check_follow(order: SparkRequest) -> None:
    if not order.place.follow:
        if order.place.trigger is not None:
            raise InputError(
                "--trigger is for a folder that is followed",
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
            f"{order.output!r} already holds the batches of a run",
            expected="a new folder",
            got="a folder with batch=…",
            cure="another --output; what was published is never overwritten",
        )
    if not find_checkpoint(order, Path(order.output)).exists():
        raise InputError(
            f"{order.output!r} holds the batches of a run with another checkpoint",
            expected="the --checkpoint that made them, or a new --output",
            got=f"no checkpoint at {find_checkpoint(order, Path(order.output))}",
            cure="a new run would count its batches from 0, and they would be taken for replays",
        )


def find_checkpoint(order: SparkRequest, folder: Path) -> Path:
    """Return where the state of a run is kept."""
    # Spark does not take a name with an underscore for data.
    return Path(order.checkpoint) if order.checkpoint else folder / "_checkpoint"


def keep_shards(order: SparkRequest) -> SparkRequest:
    """Return an order with the number of shards of its checkpoint, if the user gave none."""
    if order.folder is None or order.output is None or order.place.shards is not None:
        return order
    from anabranch.spark.checkpoint.ownership import read_begin
    from anabranch.spark.checkpoint.provenance import find_shards

    checkpoint = find_checkpoint(order, Path(order.output))
    shards = find_shards(checkpoint) or read_begin(checkpoint).shards
    return replace(order, place=replace(order.place, shards=shards))
