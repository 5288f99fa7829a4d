"""`anabranch run`: run a program on files of events: embedded, on Spark, or by the sequential fold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from anabranch.cli.flags import Inputs, Json, Lateness, Strict, Target, check_inputs
from anabranch.cli.run.run_display import PAGE, give_hint, show_report
from anabranch.cli.run.run_outputs import (
    PART_FORMATS,
    FileKind,
    Stops,
    check_csv,
    check_output,
    is_csv,
    write_outputs,
)
from anabranch.cli.run.run_request import (
    HERE,
    RunPlace,
    RunRequest,
    check_place,
    is_file_name,
    refuse_flags,
)
from anabranch.cli.run.run_verdict import RunVerdict, conclude
from anabranch.cli.target_module import TargetModule, load_material
from anabranch.cli.terminal.screen import Screen
from anabranch.errors import InputError
from anabranch.eventtime.disorder import read_lateness
from anabranch.eventtime.held_back import name_time
from anabranch.eventtime.tolerance import Tolerance, read_tolerance
from anabranch.paths import strip_scheme
from anabranch.reference.rows import STANDARD
from anabranch.savepoints.drafts import check_is_free
from anabranch.speculation.output_changes import Mode

if TYPE_CHECKING:
    from anabranch.cli.run.run_report import RunReport

MostRejected = Annotated[
    str | None,
    Parameter(
        help="Number or share (1%) of events that may be rejected before the run fails with exit "
        "code 1 (default: no limit, but a run fails if every event is rejected). A stream into a "
        "folder stops there."
    ),
]

Output = Annotated[
    str | None,
    Parameter(
        allow_leading_hyphen=True,
        help="A name that ends in .jsonl or .parquet: file to write all outputs to; - for standard "
        "output. A name without an ending: folder, with one folder per batch; a folder as --input is then a "
        "stream, which continues at the next run (default: print the first outputs). On Spark, "
        "always a folder.",
    ),
]

Start = Annotated[
    str | None,
    Parameter(
        name="--from",
        help="Continue from a savepoint: its folder, or FOLDER/latest. With a folder as --input and a "
        "new folder as --output, the savepoint is restored there; later runs continue from its "
        "checkpoint. With files, which have the events since then, the run is that of --reference.",
    ),
]


def run(  # noqa: PLR0913 - one for each flag
    target: Target,
    /,
    *,
    input: Inputs = (),  # noqa: A002 - the flag's name
    output: Output = None,
    format: Annotated[  # noqa: A002 - the flag's name
        FileKind | None,
        Parameter(
            help="Format of the outputs (default: by the file's ending; in a folder, parquet)."
        ),
    ] = None,
    lateness: Lateness = None,
    unique_times: Strict = False,
    unbounded: Annotated[
        bool,
        Parameter(help="The input has not ended: events after the watermark stay pending."),
    ] = False,
    most_rejected: MostRejected = None,
    mode: Annotated[
        Mode,
        Parameter(
            help="settled: emit an output once, when it can't change (default). speculative: emit "
            "outputs at once, and retract those that an out-of-order event makes wrong."
        ),
    ] = "settled",
    savepoint: Annotated[
        str | None,
        Parameter(
            help="Write a savepoint to this new folder, for --from. The input then counts as not ended. "
            "The run is that of --reference."
        ),
    ] = None,
    start: Start = None,
    place: RunPlace = HERE,
    json: Json = False,
) -> int:
    """Run a program on files of events, in this process, without Spark.

    With --master or --spark the program runs on Spark, with --reference one event after the other.
    The outputs are the same: those of --reference define what the program means.
    """
    check_place(place)
    tolerance = None if most_rejected is None else _read_limit(most_rejected)
    check_inputs(input)
    kind = PART_FORMATS[format or "parquet"]
    delay = None if lateness is None else read_lateness(lateness)
    order = RunRequest(
        place, input, output, kind, delay, unique_times, unbounded, tolerance, mode,
        to_file=output is not None and not place.on_spark and is_file_name(output, format),
    )  # fmt: skip
    stops = _make_stops(start, savepoint)
    _check_stops(stops, order)
    _check_document(place, json=json)
    if place.on_spark:
        return _run_on_spark(target, order, stops.start, json=json)
    goes_on = stops.start is not None and stops.end is None and order.is_stream
    if place.reference or (stops != Stops() and not goes_on):
        from anabranch.cli.run.run_reference import run_by_reference

        refuse_flags(place, _name_reason(place, stops))
        return run_by_reference(target, order, stops, format, json=json)
    return _run_here(target, order, stops.start, format, json=json)


def _name_reason(place: RunPlace, stops: Stops) -> str:
    """Return the flag for which a run is that of the reference."""
    if place.reference:
        return "--reference"
    return "--savepoint" if stops.start is None else "--from"


def _read_limit(value: str) -> Tolerance:
    try:
        return read_tolerance(value)
    except InputError as error:
        what = error.what.replace("most_rejected", "--most-rejected")
        raise InputError(what, expected=error.expected, got=error.got) from None


def _check_document(place: RunPlace, *, json: bool) -> None:
    if place.follow and json:
        raise InputError(
            "--follow and --json don't go together",
            expected="one of them: --json prints a document at the end, and --follow does not end",
            cure="read OUTPUT/batch=N/_ledger.json, or run.watch() in a program",
        )


def _make_stops(start: str | None, end: str | None) -> Stops:
    """Return the savepoints of a run as local paths."""
    places = (None if place is None else strip_scheme(place, "savepoint") for place in (start, end))
    return Stops(*places)


def _check_stops(stops: Stops, order: RunRequest) -> None:
    flags = ("--from", "--savepoint")
    given = [flag for flag, path in zip(flags, stops, strict=True) if path is not None]
    if not given:
        return
    if order.mode != "settled" and (stops.end is not None or not order.is_stream):
        raise InputError(
            f"a speculative run can't have {given[0]}",
            expected="--mode settled, or a folder as --input and as --output",
            got=f"--mode {order.mode}",
        )
    if order.place.on_spark and stops.end is not None:
        raise InputError(
            "--savepoint does not apply to Spark, which keeps its state in a checkpoint",
            expected="a run without --master and --spark",
            got="--savepoint",
            cure="run without it, then anabranch savepoint create OUTPUT/_checkpoint FOLDER",
        )
    if stops.end is not None:
        check_is_free(Path(stops.end))


def _run_here(
    target: str,
    order: RunRequest,
    start: str | None,
    kind: FileKind | None,
    *,
    json: bool,
) -> int:
    to_stdout = order.output == STANDARD
    if to_stdout and json:
        raise InputError(
            "--json and --output - both write to standard output",
            expected="one of them",
            cure="use --json alone; its document contains the outputs",
        )
    screen = Screen(quiet=json, stderr=to_stdout)
    if order.output is not None and order.to_file:
        check_output(order.output, kind)  # Refuse a wrong name before the run, not after it.
    from anabranch.cli.run.run_local import run_embedded

    material = load_material(target)
    csv = order.output is not None and order.to_file and is_csv(order.output, kind)
    if order.to_file:
        check_csv(material.program, order.output, kind)
    page = None if json or order.to_file else PAGE
    report = run_embedded(screen, material, order, page, start, table=csv)
    written = [] if order.output is None else [order.output]
    kept = "FILE.rejected.jsonl, beside --output FILE"
    if order.output is not None and order.to_file:
        written = write_outputs(report.describe(), order.output, kind, report.table)
        kept = kept if to_stdout else f"{order.output}.rejected.jsonl"
    elif order.output is not None:
        kept = f"{order.output}/batch=*/rejected"
    return _conclude(screen, report, order, target, kept, written, material, json=json)


def _run_on_spark(target: str, order: RunRequest, start: str | None, *, json: bool) -> int:
    from anabranch.cli.run.run_spark import run_on_spark

    screen = Screen(quiet=json)
    material = load_material(target)
    report = run_on_spark(screen, material, order, None if json else PAGE, start)
    written = [] if order.output is None else [order.output]
    kept = "--output DIR, which has all of them"
    if order.output is not None:
        kept = f"{order.output}/batch=*/rejected"
    return _conclude(screen, report, order, target, kept, written, material, json=json)


def _conclude(
    screen: Screen,
    report: RunReport,
    order: RunRequest,
    target: str,
    kept: str,
    written: list[str],
    material: TargetModule,
    *,
    json: bool,
) -> int:
    """Print the report of a run, and return its exit code."""
    program = material.program
    if not json:
        moments, on_spark = program.timestamped, order.place.on_spark
        show_report(screen, report, moments=moments, on_spark=on_spark)
        for file in written:
            screen.write(f"written   {file}")
    give_hint(screen, report.hint)
    watermarks = {name: name_time(time) for name, time in report.watermarks.items()}
    about = {"program": program.name, "files": written, "watermarks": watermarks}
    samples = list(report.reasons)
    verdict = RunVerdict(report.ledger, order.most_rejected, samples, target, kept, report.raising)
    return conclude(screen, verdict, {**report.describe(), **about} if json else None)
