"""The display of a run: its first outputs, the ledger, late and rejected events, and watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from anabranch.cli.run.run_verdict import show_reasons
from anabranch.cli.terminal.screen import Screen, count_things
from anabranch.eventtime.held_back import name_span, name_time
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.speculation.output_changes import Amount

if TYPE_CHECKING:
    from anabranch.cli.run.run_report import RunReport

PAGE = 20
"""Number of outputs that are printed."""

SAMPLE = 5
"""Number of late and of rejected events that are printed."""


def show_report(screen: Screen, report: RunReport, *, moments: bool, on_spark: bool) -> None:
    """Print the report of a run, embedded or on Spark."""
    rows = [
        (o.get("op", 1), o["time"], o["type"], o["channel"], text)
        for o, text in zip(report.outputs[:PAGE], report.spelled[:PAGE], strict=True)
    ]
    amount = None if report.mode == "settled" else report.amount
    show_rows(screen, rows, report.amount.emitted, "DIR" if on_spark else "FILE", amount)
    screen.print(f"\n[bold]ledger[/]    {explain_ledger(report.ledger)}")
    for late in report.late[:SAMPLE]:
        behind = name_span(late["distance"], moments=moments)
        show_late(screen, late["type"], late["event"], late["channel"], behind)
    count_rest(screen, "late", report.ledger.late)
    show_reasons(screen, report.reasons)
    if on_spark:
        layout = report.layout
        screen.write(f"layout    {layout.way}, {count_things(layout.shards, 'shard')}")
        for reason in layout.reasons:
            screen.write(f"          {reason}", style="dim")
    if not report.ended:
        list_watermarks(screen, report.watermarks, report.ledger.pending, moments=moments)


def explain_ledger(ledger: Ledger) -> str:
    """Return the ledger as an equation.

    >>> explain_ledger(Ledger(7, 6, 1))
    '7 in = 6 processed + 1 late'
    """
    parts = [f"{n:,} {name}" for name, n in ledger._asdict().items() if n and name != "input"]
    return f"{ledger.input:,} in = {' + '.join(parts) or '0'}"


def show_rows(
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


def show_late(
    screen: Screen, event_type: str, fields: Mapping[str, Any], channel: str, behind: str
) -> None:
    """Print a late event, with its distance behind the watermark of its channel."""
    event = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    screen.write(f"late      {event_type}({event}) from {channel}, {behind} behind")


def count_rest(screen: Screen, name: str, count: int) -> None:
    """Print how many events there are beside those that were printed."""
    if count > SAMPLE:
        screen.write(f"          … and {count - SAMPLE:,} more {name}")


def list_watermarks(
    screen: Screen, watermarks: Mapping[str, int], pending: int, *, moments: bool = False
) -> None:
    """Print the watermark of each channel, and which one holds pending events back."""
    screen.print("\n[bold]watermark[/]")
    least = min(watermarks.values(), default=FOREVER)
    for name, time in sorted(watermarks.items(), key=lambda entry: entry[1]):
        after = f"   holds back {pending} pending" if pending and time == least else ""
        screen.write(f"  {name:<10} {name_time(time, moments=moments)}{after}")


def give_hint(screen: Screen, hint: str | None) -> None:
    """Print a hint, if there is one."""
    if hint is not None:
        screen.err.print(Text(f"hint: {hint}", style="yellow"))
