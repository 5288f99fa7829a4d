"""`anabranch rescale`: change the number of shards or partitions of a stopped run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.cli.flags import Json, Lateness, Strict, Target
from anabranch.cli.run.run_outputs import FileKind
from anabranch.cli.run.run_request import HERE, RunPlace, check_flags, find_checkpoint
from anabranch.cli.run.run_spark import open_run
from anabranch.cli.savepoint.savepoint_local import rescale_embedded
from anabranch.cli.savepoint.savepoint_spark import (
    Folder,
    Partitions,
    make_order,
    read_shards,
    refuse_partitions,
)
from anabranch.cli.target_module import load_material
from anabranch.cli.terminal.screen import GOOD, Screen, count_things
from anabranch.local.checkpoints import is_checkpoint, read_mode


def rescale(  # noqa: PLR0913 - one for each flag
    target: Target,
    /,
    *,
    input: Folder,  # noqa: A002 - the flag's name
    output: Annotated[str, Parameter(help="Output folder of the query.")],
    format: Annotated[  # noqa: A002 - the flag's name
        FileKind, Parameter(help="Format of the outputs (default parquet).")
    ] = "parquet",
    lateness: Lateness = None,
    unique_times: Strict = False,
    partitions: Partitions = None,
    place: RunPlace = HERE,
    json: Json = False,
) -> int:
    """Change the number of shards (--shards), or of Spark's partitions, of a stopped run.

    Nothing is recomputed: the next `anabranch run` continues from the same state, with the program's
    current layout.
    """
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES
    from anabranch.spark.savepoints.rescaling import check_rescale
    from anabranch.spark.savepoints.rescaling import rescale as rescale_query

    screen, material = Screen(quiet=json), load_material(target)
    order = make_order(place, input, output, format, lateness, unique_times=unique_times)
    check_flags(order)
    checkpoint = find_checkpoint(order, Path(order.output or output))
    if is_checkpoint(checkpoint):
        refuse_partitions(partitions)
        order = replace(order, mode=read_mode(checkpoint))
        return _show(
            screen,
            checkpoint,
            output,
            rescale_embedded(screen, material, order, checkpoint),
            json=json,
        )
    check_rescale(order.output or output, checkpoint, partitions=partitions, format=order.format)
    with open_run(screen, material, order) as (_, sources), screen.wait("rescaling"):
        rescale_query(
            material.program, sources, output=order.output or output, checkpoint=checkpoint,
            shards=place.shards, columnar=place.columnar, partitions=partitions, format=order.format,
            max_record_bytes=place.max_record_bytes or MAX_RECORD_BYTES,
        )  # fmt: skip
    return _show(screen, checkpoint, output, read_shards(checkpoint), json=json)


def _show(screen: Screen, checkpoint: Path, output: str, shards: int, *, json: bool) -> int:
    if json:
        screen.print_json({"checkpoint": str(checkpoint), "output": output, "shards": shards})
    else:
        screen.write(f"rescaled  {checkpoint}: {count_things(shards, 'shard')}")
    return GOOD
