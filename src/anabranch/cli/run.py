"""`anabranch run`: run a program on files of events, by the sequential fold or on Spark."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter
from rich.text import Text

from anabranch.cli.flags import Inputs, Json, Lateness, Strict, Target, check_inputs
from anabranch.cli.run_report import RunReport, describe_amount, describe_samples
from anabranch.cli.run_spark import run_on_spark
from anabranch.cli.run_verdict import (
    RunVerdict,
    conclude,
    find_raising_event_types,
    make_sample,
    show_reasons,
)
from anabranch.cli.screen import Screen, count_things
from anabranch.cli.spark_options import HERE, RunPlace, SparkRequest, refuse_flags
from anabranch.cli.target_module import declare_channels, load_items, load_material
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.disorder import read_lateness
from anabranch.eventtime.held_back import name_span, name_time
from anabranch.eventtime.hints import count_strangers, explain_strangers
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.tolerance import (
    Sample,
    Tolerance,
    count_reasons,
    read_tolerance,
)
from anabranch.model.events import FOREVER, field_names
from anabranch.model.values.fields import encode_value
from anabranch.paths import strip_scheme
from anabranch.reference.event_files import encode_change, encode_item, encode_output
from anabranch.reference.rows import STANDARD, check_output_name, write_rows
from anabranch.reference.sequential import Answer
from anabranch.reference.sequential import run as fold
from anabranch.reference.speculative import SpeculativeResult
from anabranch.reference.speculative import run as emit
from anabranch.savepoints.drafts import check_is_free
from anabranch.savepoints.objects import read_snapshot, write_snapshot
from anabranch.speculation.output_changes import Amount, Mode

PAGE = 20
"""Number of outputs that are printed."""

SAMPLE = 5
"""Number of late and of rejected events that are printed."""

MostRejected = Annotated[
    str | None,
    Parameter(
        help="Number or share (1%) of events that may be rejected before the run fails with exit "
        "code 1 (default: no limit, but a run fails if every event is rejected). On Spark, a "
        "query of a folder stops there."
    ),
]


def run(  # noqa: PLR0913 - one for each flag
    target: Target,
    /,
    *,
    input: Inputs = (),  # noqa: A002 - the flag's name
    output: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="File to write the outputs to: .jsonl, .parquet, or - for standard output (default: "
            "print the first ones). On Spark, a folder, with one folder per batch.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the flag's name
        Literal["jsonl", "parquet"] | None,
        Parameter(help="Format of the outputs (default: by the file's ending; on Spark, parquet)."),
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
            help="Write a savepoint to this new folder, for --from. The input then counts as not ended."
        ),
    ] = None,
    start: Annotated[
        str | None,
        Parameter(
            name="--from",
            help="Continue from a savepoint: its folder, or FOLDER/latest. --input has the events since "
            "then. On Spark, the savepoint is restored into a new --output; later runs continue from "
            "its checkpoint.",
        ),
    ] = None,
    place: RunPlace = HERE,
    json: Json = False,
) -> int:
    """Run a program on files of events, one event after the other.

    This run is the reference: its outputs define what the program means. With --master or --spark
    the program runs on Spark, with the same outputs.
    """
    tolerance = None if most_rejected is None else _read_limit(most_rejected)
    check_inputs(input)
    kind: Literal["json", "parquet"] = "json" if format == "jsonl" else "parquet"
    delay = None if lateness is None else read_lateness(lateness)
    order = SparkRequest(
        place, input, output, kind, delay, unique_times, unbounded, tolerance, mode
    )
    stops = _make_stops(start, savepoint)
    _check_stops(stops, order)
    _check_document(place, json=json)
    if place.on_spark:
        return _run_on_spark(target, order, stops.start, json=json)
    refuse_flags(place)
    return _run_here(target, order, stops, format, json=json)


def _read_limit(value: str) -> Tolerance:
    try:
        return read_tolerance(value)
    except InputError as error:
        what = error.what.replace("most_rejected", "--most-rejected")
        raise InputError(what, expected=error.expected, got=error.got) from None


def _check_output(output: str, kind: Literal["jsonl", "parquet"] | None) -> None:
    if output == STANDARD:
        return
    path = strip_scheme(output, "output")
    if kind is None:
        check_output_name(path)
    if not Path(path).absolute().parent.is_dir():
        raise InputError(
            f"there is no folder for {output!r}",
            expected="--output FILE in a folder that exists",
            got=f"no folder {Path(path).parent}",
            cure=f"mkdir -p {shlex.quote(str(Path(path).parent))}",
        )


def _check_document(place: RunPlace, *, json: bool) -> None:
    if place.follow and json:
        raise InputError(
            "--follow and --json don't go together",
            expected="one of them: --json prints a document at the end, and --follow does not end",
            cure="read OUTPUT/batch=N/_ledger.json, or anabranch.spark.watch in a program",
        )


class Stops(NamedTuple):
    """The savepoints of a run: the one it starts from, and the one it writes."""

    start: str | None = None
    end: str | None = None


def _make_stops(start: str | None, end: str | None) -> Stops:
    """Return the savepoints of a run as local paths."""
    places = (None if place is None else strip_scheme(place, "savepoint") for place in (start, end))
    return Stops(*places)


def _check_stops(stops: Stops, order: SparkRequest) -> None:
    flags = ("--from", "--savepoint")
    given = [flag for flag, path in zip(flags, stops, strict=True) if path is not None]
    if not given:
        return
    if order.mode != "settled":
        raise InputError(
            f"a speculative run can't have {given[0]}",
            expected="--mode settled",
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
    order: SparkRequest,
    stops: Stops,
    kind: Literal["jsonl", "parquet"] | None,
    *,
    json: bool,
) -> int:
    output = order.output
    to_stdout = output == STANDARD
    if to_stdout and json:
        raise InputError(
            "--json and --output - both write to standard output",
            expected="one of them",
            cure="use --json alone; its document contains the outputs",
        )
    screen = Screen(quiet=json, stderr=to_stdout)
    if output is not None:
        _check_output(output, kind)  # Refuse a wrong name before the run, not after it.
    material = load_material(target)
    program = material.program
    start = None if stops.start is None else read_snapshot(stops.start, program)
    standings = {} if start is None else start.standings
    read = {name: one.last for name, one in standings.items() if one.last is not None}
    items = load_items(material, order.inputs, read)
    channels = declare_channels(
        material, items, order.lateness, unique_times=order.unique_times, files=order.inputs
    )
    silent = standings.keys() - {channel.name for channel in channels}
    channels += tuple(map(Channel, sorted(silent)))
    unbounded = order.unbounded or stops.end is not None
    whole = items if unbounded else end_channels(items, channels)
    speculation = emit(program, whole, channels) if order.mode == "speculative" else None
    answer = fold(program, whole, channels, start) if speculation is None else speculation.answer
    hint = explain_strangers(count_strangers(answer.rejected), [s.name for s in channels])
    samples = [make_sample(entry) for entry in answer.rejected]
    document = describe(answer) | {"reasons": describe_samples(count_reasons(samples))}
    document |= {"hint": hint} if hint else {}
    if speculation is not None:
        document["outputs"] = [encode_change(row) for row in speculation.rows]
        document |= describe_amount(speculation.amount, order.mode)
    written = _write(document, output, kind) if output is not None else []
    if stops.end is not None:
        document["savepoint"] = str(write_snapshot(answer.snapshot(), program, stops.end))
    if not json:
        moments = program.timestamped
        _show_answer(
            screen, answer, samples, speculation, written, unbounded=unbounded, moments=moments
        )
        if stops.end is not None:
            screen.write(f"savepoint {stops.end}")
    _give_hint(screen, hint)
    kept = "FILE.rejected.jsonl, beside --output FILE"
    if output is not None and not to_stdout:
        kept = f"{output}.rejected.jsonl"
    before = () if start is None else start.pending
    raising = find_raising_event_types(answer, (*before, *items))
    verdict = RunVerdict(answer.ledger, order.most_rejected, samples, target, kept, raising)
    about = {"program": program.name, "files": written}
    return conclude(screen, verdict, {**document, **about} if json else None)


def _show_answer(
    screen: Screen,
    answer: Answer,
    samples: list[Sample],
    speculation: SpeculativeResult | None,
    written: list[str],
    *,
    unbounded: bool,
    moments: bool,
) -> None:
    if speculation is None:
        rows = [(1, o.event, o.value) for o in answer.outputs]
    else:
        rows = [(row.op, row.event, row.value) for row in speculation.rows]
    table = [
        (op, name_time(e.time, moments=moments), e.event_type.__name__, e.channel, repr(value))
        for op, e, value in rows[:PAGE]
    ]
    _show_rows(
        screen, table, len(rows), "FILE", None if speculation is None else speculation.amount
    )
    screen.print(f"\n[bold]ledger[/]    {explain_ledger(answer.ledger)}")
    _show_losses(screen, answer, samples, moments=moments)
    if unbounded:
        _list_watermarks(screen, answer.watermarks, len(answer.pending), moments=moments)
    for file in written:
        screen.write(f"written   {file}")


def _give_hint(screen: Screen, hint: str | None) -> None:
    if hint is not None:
        screen.err.print(Text(f"hint: {hint}", style="yellow"))


def _run_on_spark(target: str, order: SparkRequest, start: str | None, *, json: bool) -> int:
    screen = Screen(quiet=json)
    material = load_material(target)
    report = run_on_spark(screen, material, order, None if json else PAGE, start)
    written = [] if order.output is None else [order.output]
    watermarks = {name: name_time(time) for name, time in report.watermarks.items()}
    about = {"program": material.program.name, "files": written, "watermarks": watermarks}
    if not json:
        show_report(screen, report, moments=material.program.timestamped)
        for file in written:
            screen.write(f"written   {file}")
    _give_hint(screen, report.hint)
    samples = list(report.reasons)
    place = "--output DIR, which has all of them"
    if order.output is not None:
        place = f"{order.output}/batch=*/rejected"
    verdict = RunVerdict(report.ledger, order.most_rejected, samples, target, place, report.raising)
    return conclude(screen, verdict, {**report.describe(), **about} if json else None)


def show_report(screen: Screen, report: RunReport, *, moments: bool = False) -> None:
    """Print the report of a run on Spark."""
    rows = [
        (
            o.get("op", 1),
            name_time(o["time"], moments=moments),
            o["type"],
            o["channel"],
            repr(o["value"]),
        )
        for o in report.outputs
    ]
    amount = None if report.mode == "settled" else report.amount
    _show_rows(screen, rows, report.amount.emitted, "DIR", amount)
    screen.print(f"\n[bold]ledger[/]    {explain_ledger(report.ledger)}")
    for late in report.late[:SAMPLE]:
        behind = name_span(late["distance"], moments=moments)
        _show_late(screen, late["type"], late["event"], late["channel"], behind)
    _count_rest(screen, "late", report.ledger.late)
    show_reasons(screen, report.reasons)
    layout = report.layout
    screen.write(f"layout    {layout.way}, {count_things(layout.shards, 'shard')}")
    for reason in layout.reasons:
        screen.write(f"          {reason}", style="dim")
    if not report.ended:
        _list_watermarks(screen, report.watermarks, report.ledger.pending, moments=moments)


def describe(answer: Answer) -> dict[str, Any]:
    """Return the answer of a run as a JSON document."""
    return {
        "outputs": [encode_output(output) for output in answer.outputs],
        "state": encode_value(answer.state),
        "ledger": answer.ledger._asdict(),
        "late": [{**encode_item(late.event), "distance": late.distance} for late in answer.late],
        "rejected": [_describe_rejected(entry) for entry in answer.rejected],
        "pending": [encode_item(event) for event in answer.pending],
        "watermarks": {name: name_time(time) for name, time in answer.watermarks.items()},
    }


def _describe_rejected(entry: Any) -> dict[str, Any]:
    item = entry.item
    return {
        "reason": entry.reason,
        "channel": item.channel,
        "seq": item.seq,
        "raw": encode_value(encode_item(item)),
    }


def explain_ledger(ledger: Ledger) -> str:
    """Return the ledger as an equation.

    >>> explain_ledger(Ledger(7, 6, 1))
    '7 in = 6 processed + 1 late'
    """
    parts = [f"{n:,} {name}" for name, n in ledger._asdict().items() if n and name != "input"]
    return f"{ledger.input:,} in = {' + '.join(parts) or '0'}"


def _write(
    document: dict[str, Any], file: str, kind: Literal["jsonl", "parquet"] | None
) -> list[str]:
    write_rows(file, document["outputs"], kind)
    if file == STANDARD:
        return []
    written = [file]
    for name in ("late", "rejected"):
        if document[name]:
            write_rows(f"{file}.{name}.jsonl", document[name], "jsonl")
            written.append(f"{file}.{name}.jsonl")
    return written


def _show_rows(
    screen: Screen, rows: list[tuple[Any, ...]], count: int, place: str, amount: Amount | None
) -> None:
    """Print the first of `count` rows; with `amount`, of a speculative run, also their `op`."""
    if not rows:
        screen.print("The program emitted nothing.")
        return
    names = (">time", "type", "channel", "output")
    if amount is None:
        screen.show_table(names, [row[1:] for row in rows])
    else:
        labels = {1: Text("emitted"), -1: Text("retracted", style="yellow")}
        screen.show_table(("", *names), [(labels[op], *row) for op, *row in rows])
    if count > len(rows):
        screen.print(f"  … and {count - len(rows):,} more; --output {place} writes all of them")
    if amount is not None:
        screen.print(f"\n[bold]amount[/]    {amount}")


def _show_losses(screen: Screen, answer: Answer, samples: list[Sample], *, moments: bool) -> None:
    for late in answer.late[:SAMPLE]:
        event, behind = late.event, name_span(late.distance, moments=moments)
        fields = {name: getattr(event.data, name) for name in field_names(event.event_type)}
        shown = encode_value(fields) if moments else fields
        _show_late(screen, event.event_type.__name__, shown, event.channel, behind)
    _count_rest(screen, "late", len(answer.late))
    show_reasons(screen, samples)


def _show_late(
    screen: Screen, event_type: str, fields: Mapping[str, Any], channel: str, behind: str
) -> None:
    event = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    screen.write(f"late      {event_type}({event}) from {channel}, {behind} behind")


def _count_rest(screen: Screen, name: str, count: int) -> None:
    if count > SAMPLE:
        screen.write(f"          … and {count - SAMPLE:,} more {name}")


def _list_watermarks(
    screen: Screen, watermarks: Mapping[str, int], pending: int, *, moments: bool = False
) -> None:
    screen.print("\n[bold]watermark[/]")
    least = min(watermarks.values(), default=FOREVER)
    for name, time in sorted(watermarks.items(), key=lambda entry: entry[1]):
        after = f"   holds back {pending} pending" if pending and time == least else ""
        screen.write(f"  {name:<10} {name_time(time, moments=moments)}{after}")
