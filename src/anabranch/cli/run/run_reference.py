"""`anabranch run --reference`: run a program by the sequential fold, one event after the other."""

from __future__ import annotations

from typing import Any

from anabranch.cli.run.run_display import (
    PAGE,
    SAMPLE,
    count_rest,
    explain_ledger,
    give_hint,
    list_watermarks,
    show_late,
    show_rows,
)
from anabranch.cli.run.run_outputs import (
    FileKind,
    Stops,
    check_csv,
    check_output,
    is_csv,
    make_output_table,
    write_outputs,
)
from anabranch.cli.run.run_request import RunRequest
from anabranch.cli.run.run_verdict import (
    RunVerdict,
    conclude,
    describe_amount,
    describe_samples,
    find_raising_event_types,
    make_sample,
    show_reasons,
)
from anabranch.cli.target_module import declare_channels, load_items, load_material
from anabranch.cli.terminal.screen import Screen
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.held_back import name_span, name_time
from anabranch.eventtime.hints import count_strangers, explain_strangers
from anabranch.eventtime.tolerance import Sample, count_reasons
from anabranch.model.events import field_names
from anabranch.model.program import Program
from anabranch.model.values.fields import encode_value
from anabranch.reference.event_files import encode_change, encode_item, encode_output
from anabranch.reference.rows import STANDARD
from anabranch.reference.sequential import Answer
from anabranch.reference.sequential import run as fold
from anabranch.reference.speculative import SpeculativeResult
from anabranch.reference.speculative import run as emit
from anabranch.savepoints.objects import read_snapshot, write_snapshot
from anabranch.speculation.output_changes import OutputChange


def run_by_reference(
    target: str,
    order: RunRequest,
    stops: Stops,
    kind: FileKind | None,
    *,
    json: bool,
) -> int:
    """Run a program by the sequential fold, print its answer, and return the exit code."""
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
        check_output(output, kind)  # Refuse a wrong name before the run, not after it.
    material = load_material(target)
    program = material.program
    check_csv(program, output, kind)
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
    whole = items if unbounded else end_channels(items, channels=channels)
    speculation = emit(program, whole, channels) if order.mode == "speculative" else None
    answer = fold(program, whole, channels, start) if speculation is None else speculation.answer
    hint = explain_strangers(count_strangers(answer.rejected), [s.name for s in channels])
    samples = [make_sample(entry) for entry in answer.rejected]
    document = describe(answer, program) | {"reasons": describe_samples(count_reasons(samples))}
    document |= {"hint": hint} if hint else {}
    if speculation is not None:
        document["outputs"] = [
            encode_change(row, timestamped=program.timestamped) for row in speculation.rows
        ]
        document |= describe_amount(speculation.amount, order.mode)
    written = []
    if output is not None:
        changes = _list_changes(answer, speculation)
        table = make_output_table(changes, program) if is_csv(output, kind) else None
        written = write_outputs(document, output, kind, table)
    if stops.end is not None:
        document["savepoint"] = str(write_snapshot(answer.snapshot(), program, stops.end))
    if not json:
        moments = program.timestamped
        _show_answer(
            screen, answer, samples, speculation, written, unbounded=unbounded, moments=moments
        )
        if stops.end is not None:
            screen.write(f"savepoint {stops.end}")
    give_hint(screen, hint)
    kept = "FILE.rejected.jsonl, beside --output FILE"
    if output is not None and not to_stdout:
        kept = f"{output}.rejected.jsonl"
    before = () if start is None else start.pending
    raising = find_raising_event_types(answer, (*before, *items))
    verdict = RunVerdict(answer.ledger, order.most_rejected, samples, target, kept, raising)
    about = {"program": program.name, "files": written}
    return conclude(screen, verdict, {**document, **about} if json else None)


def _list_changes(answer: Answer, speculation: SpeculativeResult | None) -> list[OutputChange]:
    if speculation is not None:
        return speculation.rows
    return [OutputChange(1, output.id, output.value, output.event) for output in answer.outputs]


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
    rows = [(row.op, row.event, row.value) for row in _list_changes(answer, speculation)]
    table = [
        (op, name_time(e.time, moments=moments), e.event_type.__name__, e.channel, repr(value))
        for op, e, value in rows[:PAGE]
    ]
    show_rows(screen, table, len(rows), "FILE", None if speculation is None else speculation.amount)
    screen.print(f"\n[bold]ledger[/]    {explain_ledger(answer.ledger)}")
    _show_losses(screen, answer, samples, moments=moments)
    if unbounded:
        list_watermarks(screen, answer.watermarks, len(answer.pending), moments=moments)
    for file in written:
        screen.write(f"written   {file}")


def describe(answer: Answer, program: Program) -> dict[str, Any]:
    """Return the answer of a run as a JSON document."""
    timestamped = program.timestamped
    return {
        "outputs": [encode_output(output, timestamped=timestamped) for output in answer.outputs],
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


def _show_losses(screen: Screen, answer: Answer, samples: list[Sample], *, moments: bool) -> None:
    for late in answer.late[:SAMPLE]:
        event, behind = late.event, name_span(late.distance, moments=moments)
        fields = {name: getattr(event.data, name) for name in field_names(event.event_type)}
        shown = encode_value(fields) if moments else fields
        show_late(screen, event.event_type.__name__, shown, event.channel, behind)
    count_rest(screen, "late", len(answer.late))
    show_reasons(screen, samples)
