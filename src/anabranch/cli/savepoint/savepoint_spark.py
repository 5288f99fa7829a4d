"""`anabranch savepoint create` and `restore`: savepoints of embedded runs and of queries on Spark."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.cli.flags import Json, Lateness, Strict, Target
from anabranch.cli.run.run_outputs import PART_FORMATS, FileKind
from anabranch.cli.run.run_request import HERE, RunPlace, RunRequest, find_checkpoint
from anabranch.cli.run.run_restore import restore_embedded
from anabranch.cli.run.run_spark import open_run, prepare_restore, restore_here
from anabranch.cli.savepoint.savepoint_local import create_embedded
from anabranch.cli.target_module import TargetModule, load_material
from anabranch.cli.terminal.screen import GOOD, Screen, count_things
from anabranch.errors import InputError
from anabranch.eventtime.disorder import read_lateness
from anabranch.eventtime.held_back import name_time
from anabranch.local.checkpoints import is_checkpoint, read_begun
from anabranch.microbatch.runs.ownership import PAIR, read_begin
from anabranch.paths import strip_scheme
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.drafts import check_is_free
from anabranch.savepoints.folders import Savepoint, open_savepoint
from anabranch.speculation.output_changes import Mode

Folder = Annotated[
    str, Parameter(help="Folder of events that the query reads, as in `anabranch run`.")
]
Published = Annotated[
    str,
    Parameter(help="Output folder: a new one, or that of the query that made the savepoint."),
]
Partitions = Annotated[
    int | None, Parameter(help="Number of Spark's partitions that share the shards (default 2).")
]


def create(
    checkpoint: Annotated[
        Path, Parameter(help="Checkpoint of a running or stopped run: OUTPUT/_checkpoint.")
    ],
    target: Annotated[Path, Parameter(help="Folder of the savepoint; it must not exist.")],
    /,
    *,
    batch: Annotated[
        int | None, Parameter(help="Committed batch to save (default: the last one).")
    ] = None,
    at: Annotated[
        int | None, Parameter(help="Save the first batch whose watermark has reached this time.")
    ] = None,
    wait_s: Annotated[
        float, Parameter(help="Seconds to wait until --at is reached (default 0).")
    ] = 0.0,
    master: Annotated[
        str, Parameter(help="Spark master that reads a checkpoint of Spark (default local[2]).")
    ] = "local[2]",
    json: Json = False,
) -> int:
    """Save the state of a query at a committed batch. The query may be running."""
    if batch is not None and at is not None:
        raise InputError("--batch and --at both choose a batch", expected="one of them")
    if wait_s < 0 or (wait_s and at is None):
        raise InputError(
            "--wait-s is the time to wait for --at",
            expected="0 or more seconds, together with --at",
            got=f"--wait-s {wait_s:g}",
        )
    checkpoint = Path(strip_scheme(checkpoint, "checkpoint"))
    target = Path(strip_scheme(target, "savepoint"))
    check_is_free(target)
    _check_is_apart(checkpoint, target)
    if is_checkpoint(checkpoint):
        screen = Screen(quiet=json)
        create_embedded(screen, checkpoint, target, batch=batch, at=at)
        return _show(screen, target, json=json)
    from anabranch.microbatch.savepoints.restore_checks import describe_place
    from anabranch.spark.checkpoint.state_values import find_batch

    if not (checkpoint / "commits").is_dir():
        inner = checkpoint / "_checkpoint"
        raise InputError(
            f"{checkpoint} is not a checkpoint",
            expected="the checkpoint folder of a query: OUTPUT/_checkpoint, or that of --checkpoint",
            got=describe_place(checkpoint),
            cure=f"name {inner}" if inner.is_dir() else None,
        )
    if at is None or wait_s == 0:
        find_batch(checkpoint, batch)
    screen = Screen(quiet=json)
    create_on_spark(screen, checkpoint, target, master, batch=batch, at=at, wait_s=wait_s)
    return _show(screen, target, json=json)


def create_on_spark(
    screen: Screen,
    checkpoint: Path,
    target: Path,
    master: str,
    *,
    batch: int | None = None,
    at: int | None = None,
    wait_s: float = 0.0,
) -> None:
    """Save the state of a query on Spark at a committed batch."""
    from anabranch.spark.savepoints.creation import create_savepoint
    from anabranch.spark.session.signals import end_on_signals
    from anabranch.spark.session.startup import start_session

    with end_on_signals():
        with screen.wait("starting Spark"):
            session = start_session(name="anabranch", master=master, ui=False)
        with screen.wait("saving"):
            create_savepoint(
                target, checkpoint=checkpoint, batch=batch, at=at, wait_s=wait_s, spark=session
            )


def restore(  # noqa: PLR0913 - one for each flag
    savepoint: Annotated[
        Path, Parameter(help="Folder of the savepoint; FOLDER/latest is the newest in FOLDER.")
    ],
    target: Target,
    /,
    *,
    input: Folder,  # noqa: A002 - the flag's name
    output: Published,
    format: Annotated[  # noqa: A002 - the flag's name
        FileKind, Parameter(help="Format of the outputs (default parquet).")
    ] = "parquet",
    lateness: Lateness = None,
    unique_times: Strict = False,
    partitions: Partitions = None,
    place: RunPlace = HERE,
    json: Json = False,
) -> int:
    """Create a checkpoint that continues from a savepoint; run it by `anabranch run` with the same flags.

    The checkpoint is that of an embedded run, or, with --master or --spark, of one on Spark; the savepoint may
    be of either. The program may be a newer one if its `changes` declare the differences. --shards and --partitions
    may differ from those of the savepoint.
    """
    screen, material = Screen(quiet=json), load_material(target)
    opened = open_savepoint(find_savepoint(savepoint), verify=False)
    order = make_order(place, input, output, format, lateness, unique_times=unique_times)
    order = replace(order, mode=find_mode(opened))
    restore_anywhere(screen, material, order, opened, partitions)
    checkpoint = find_checkpoint(order, Path(order.output or output))
    shards = read_shards(checkpoint)
    if json:
        screen.print_json({"checkpoint": str(checkpoint), "output": output, "shards": shards})
    else:
        screen.write(f"restored  {opened.path} into {checkpoint}, {count_things(shards, 'shard')}")
        screen.write(f"to do     {name_next(target, order, lateness)}")
    return GOOD


def restore_anywhere(
    screen: Screen,
    material: TargetModule,
    order: RunRequest,
    savepoint: Savepoint,
    partitions: int | None,
) -> None:
    """Write the checkpoint of a run from a savepoint: of an embedded run, or of one on Spark."""
    if not order.place.on_spark:
        refuse_partitions(partitions)
        restore_embedded(screen, material, order, savepoint)
        return
    order = prepare_restore(material, order, savepoint, partitions)
    with open_run(screen, material, order) as (_, sources):
        restore_here(screen, material, order, savepoint, sources, partitions)


def refuse_partitions(partitions: int | None) -> None:
    """Raise `InputError` for --partitions without Spark."""
    if partitions is not None:
        raise InputError(
            "--partitions are Spark's: an embedded run has only shards",
            expected="--shards, or --partitions with --master or --spark",
            got=f"--partitions {partitions}",
        )


def find_mode(savepoint: Savepoint) -> Mode:
    """Return the mode in which a savepoint was made: a restored run has the same."""
    made_by = savepoint.manifest.fingerprint.get("mode", "settled")
    return "settled" if made_by == "settled" else "speculative"


def read_shards(checkpoint: Path) -> int:
    """Return the number of shards of a checkpoint that was restored or rescaled."""
    begun = read_begun(checkpoint) if is_checkpoint(checkpoint) else read_begin(checkpoint)
    return begun.shards or 0


def name_next(target: str, order: RunRequest, lateness: str | None) -> str:
    """Return the command that continues the query."""
    place = order.place
    words = ["anabranch", "run", target]
    if place.on_spark:
        words += ["--spark"] if place.master is None else ["--master", place.master]
    words += ["--input", *order.inputs, "--output", order.output or ""]
    more = {
        "--format": {"json": "jsonl", "csv": "csv"}.get(order.format),
        "--mode": None if order.mode == "settled" else order.mode,
        "--lateness": lateness,
        "--checkpoint": place.checkpoint,
        "--files-per-batch": place.files_per_batch,
        "--max-record-bytes": place.max_record_bytes,
        "--idle-after-s": place.idle_after_s,
    }
    for flag, value in more.items():
        words += [] if value is None else [flag, str(value)]
    return shlex.join([*words, *(["--unique-times"] if order.unique_times else [])])


def make_order(
    place: RunPlace,
    input: str,  # noqa: A002 - the flag's name
    output: str,
    format: FileKind,  # noqa: A002 - the flag's name
    lateness: str | None,
    *,
    unique_times: bool,
) -> RunRequest:
    """Return the request of the flags; raise `InputError` if the input is not a folder."""
    if not Path(strip_scheme(input, "input")).is_dir():
        raise InputError(
            "a checkpoint needs a folder as input",
            expected="--input DIR, the folder that the query reads",
            got=f"{input!r}, which is not a folder",
        )
    delay = None if lateness is None else read_lateness(lateness)
    kind = PART_FORMATS[format]
    return RunRequest(place, (input,), output, kind, delay, unique_times)


def _check_is_apart(checkpoint: Path, target: Path) -> None:
    """Refuse a place inside a checkpoint or an output folder: their readers would find the savepoint."""
    for folder in target.absolute().parents:
        if folder == checkpoint.absolute() or (folder / PAIR).is_file():
            raise InputError(
                f"{target} is in a folder that a query writes to",
                expected="a place outside it",
                got=f"a place in {folder.name}",
                cure=f"savepoints/{target.name}",
            )


def _show(screen: Screen, target: Path, *, json: bool) -> int:
    manifest = open_savepoint(target, verify=False).manifest
    size = sum(record.bytes for record in manifest.files.values())
    if json:
        screen.print_json({
            "savepoint": str(target), "id": manifest.id, "batch": manifest.batch,
            "watermark": manifest.watermark, "bytes": size,
        })  # fmt: skip
        return GOOD
    screen.write(
        f"savepoint {target}: batch {manifest.batch} of {manifest.program}, {size:,} bytes"
    )
    screen.write(f"watermark  {name_time(manifest.watermark)}")
    return GOOD
