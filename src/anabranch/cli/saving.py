"""`anabranch savepoint create` and `restore`: savepoints of a query on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch.cli.cluster import HERE, Order, Place, find_checkpoint, open_run
from anabranch.cli.flags import Json, Lateness, Strict, Target
from anabranch.cli.material import load_material
from anabranch.cli.screen import GOOD, Screen
from anabranch.errors import InputError
from anabranch.eventtime.disorder import read_lateness
from anabranch.eventtime.holding import name_time
from anabranch.savepoints.drafts import check_is_free
from anabranch.savepoints.folders import open_savepoint

Folder = Annotated[
    str, Parameter(help="The folder whose files are followed, as `anabranch run` has it.")
]
Published = Annotated[
    str,
    Parameter(help="The folder of outputs: a new one, or the one in which the savepoint was made."),
]
Partitions = Annotated[
    int | None, Parameter(help="How many of Spark's partitions share the shards; 2.")
]


def create(
    checkpoint: Annotated[
        Path, Parameter(help="The checkpoint of a query, running or stopped: OUTPUT/_checkpoint.")
    ],
    target: Annotated[Path, Parameter(help="The savepoint's folder; it must be new.")],
    /,
    *,
    batch: Annotated[
        int | None, Parameter(help="Of which committed batch; the last, if nobody says.")
    ] = None,
    at: Annotated[
        int | None, Parameter(help="Of the first batch whose frontier has reached this time.")
    ] = None,
    wait_s: Annotated[
        float, Parameter(help="How many seconds to wait for --at to be reached; 0.")
    ] = 0.0,
    master: Annotated[str, Parameter(help="The Spark that reads it.")] = "local[2]",
    json: Json = False,
) -> int:
    """Save what a query holds at a committed batch. The query need not stop."""
    if batch is not None and at is not None:
        raise InputError("--batch and --at both choose a batch", expected="one of them")
    check_is_free(target)
    if not (checkpoint / "commits").is_dir():
        raise InputError(
            f"{checkpoint} is no checkpoint",
            expected="the folder that a query was given, OUTPUT/_checkpoint unless it was told",
            got="a folder without commits" if checkpoint.is_dir() else "no folder",
        )
    from anabranch.spark.interruption import end_on_signals
    from anabranch.spark.savepoints import create_savepoint
    from anabranch.spark.session import start_session

    screen = Screen(quiet=json)
    with end_on_signals():
        with screen.wait("starting Spark"):
            session = start_session("anabranch", master)
        with screen.wait("saving"):
            create_savepoint(session, checkpoint, target, batch=batch, at=at, wait_s=wait_s)
    return _show(screen, target, json=json)


def restore(  # noqa: PLR0913 - one for each flag
    savepoint: Annotated[
        Path, Parameter(help="The savepoint's folder; FOLDER/latest is the newest in a folder.")
    ],
    target: Target,
    /,
    *,
    input: Folder,  # noqa: A002 - the flag's name
    output: Published,
    format: Annotated[  # noqa: A002 - the flag's name
        Literal["jsonl", "parquet"], Parameter(help="The format of the outputs; parquet.")
    ] = "parquet",
    lateness: Lateness = None,
    strict: Strict = False,
    partitions: Partitions = None,
    place: Place = HERE,
    json: Json = False,
) -> int:
    """Make a checkpoint that goes on from a savepoint; `anabranch run` with the same flags runs it.

    The program may be another one, as far as its `changes` say how; --shards and --partitions are free.
    """
    from anabranch.spark.restores import restore_savepoint

    screen, material = Screen(quiet=json), load_material(target)
    order = make_order(place, input, output, format, lateness, strict=strict)
    checkpoint = find_checkpoint(order, Path(output))
    with open_run(screen, material, order) as (_, feed), screen.wait("restoring"):
        restore_savepoint(
            savepoint, material.program, [feed], output, checkpoint, shards=order.shards,
            partitions=partitions, format=order.format,
        )  # fmt: skip
    if json:
        screen.print_json({"checkpoint": str(checkpoint), "output": output, "shards": order.shards})
    else:
        screen.write(f"restored into {checkpoint}; outputs go to {output}")
        screen.write(f"to do     anabranch run {target} --spark --input {input} --output {output}")
    return GOOD


def make_order(
    place: Place,
    input: str,  # noqa: A002 - the flag's name
    output: str,
    format: Literal["jsonl", "parquet"],  # noqa: A002 - the flag's name
    lateness: str | None,
    *,
    strict: bool,
) -> Order:
    """Return what a user asked for, if the input is a folder."""
    if not Path(input).is_dir():
        raise InputError(
            "a savepoint goes on as a stream",
            expected="--input DIR, the folder that is followed",
            got=f"{input!r}, which is no folder",
        )
    delay = None if lateness is None else read_lateness(lateness)
    kind: Literal["json", "parquet"] = "json" if format == "jsonl" else "parquet"
    return Order(place, (input,), output, kind, delay, strict)


def _show(screen: Screen, target: Path, *, json: bool) -> int:
    manifest = open_savepoint(target, verify=False).manifest
    size = sum(record.bytes for record in manifest.files.values())
    if json:
        screen.print_json({
            "savepoint": str(target), "id": manifest.id, "batch": manifest.batch,
            "frontier": manifest.frontier, "bytes": size,
        })  # fmt: skip
        return GOOD
    screen.write(
        f"savepoint {target}: batch {manifest.batch} of {manifest.program}, {size:,} bytes"
    )
    screen.write(f"frontier  {name_time(manifest.frontier)}")
    return GOOD
