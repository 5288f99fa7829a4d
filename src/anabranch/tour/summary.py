"""The summary: one screen of numbers, then charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from anabranch.eventtime.ledger import Ledger
from anabranch.tour.fold_tasks import Shares
from anabranch.tour.oracle import Expected
from anabranch.tour.traffic import TAXIS
from anabranch.tour.verdict import ReferenceSample, TourVerdict
from anabranch.tour.view import BAR, Hour, Page, Step, draw_bar, draw_curve, name_count

CURVE = 56
_LABEL = 13


@dataclass
class Crash:
    """The batch and the pending events when the query was killed, and the time until it continued."""

    batch: int
    pending: int
    seconds: float = 0.0


@dataclass
class Flow:
    """The measurements of the query: batches before and after the crash, and the shares of tasks."""

    crash: Crash | None = None
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    shares: Shares = field(default_factory=lambda: Shares(0, ()))

    @property
    def steps(self) -> list[Step]:
        """Return all batches."""
        return self.before + self.after

    @property
    def steady(self) -> list[Step]:
        """Return all batches except the first of each process, in which Spark warms up."""
        return self.before[1:] + self.after[1:]

    @property
    def rate(self) -> float:
        """Return events per second over all steady batches."""
        seconds = sum(step.seconds for step in self.steady)
        return sum(step.events for step in self.steady) / seconds if seconds else 0.0


def show_numbers(
    page: Page, flow: Flow, expected: Expected, verdict: TourVerdict, sample: ReferenceSample | None
) -> None:
    """Show every number on one screen."""
    best = max((step.rate for step in flow.steady), default=0.0)
    rate = f"{name_count(flow.rate)} events/s in steady batches, best {name_count(best)}"
    _show(page, "events", f"{verdict.ledger.input:,} in {len(flow.steps)} batches")
    _show(page, "rate", rate)
    if sample is not None:
        rate = f"{name_count(sample.rate)} events/s in one Python process"
        _show(page, "reference", f"{rate}; agrees on the first {name_count(sample.events)}")
    _show(page, "hot key", describe_hot_key(expected.hot_share, flow.shares))
    if flow.crash is not None:
        pending = f"kill -9 in batch {flow.crash.batch}, {flow.crash.pending:,} events pending"
        _show(page, "crash", f"{pending}; {flow.crash.seconds:.0f} s to continue")
    _show(page, "ledger", format_balance(verdict.ledger))
    page.print_line()
    show_comparisons(page, verdict)


def describe_hot_key(share: float, shares: Shares) -> str:
    """Return a sentence with the hot key's share of the events and the busiest task's share of the work.

    >>> describe_hot_key(0.81, Shares(2, (0.52, 0.48)))
    'taxi 1 has 81 % of the tips; of 2 tasks, the busiest does 52 %'
    """
    most = max(shares.shares, default=0.0)
    hot_keys = f"taxi {TAXIS[0]} has {share * 100:.0f} % of the tips"
    return f"{hot_keys}; of {shares.tasks} tasks, the busiest does {most * 100:.0f} %"


def show_comparisons(page: Page, verdict: TourVerdict) -> None:
    """Show how many rows are missing, repeated or different."""
    names = ("published", "NumPy", "missing", "twice", "different")
    heading = "".join(f"{name:>11}" for name in names)
    page.print_line(Text(f"    {'rows':<{_LABEL}}{heading}", "dim"))
    for row in verdict.comparisons:
        counts = "".join(f"{count:>11,}" for count in row[1:])
        page.print_line(f"    {row.kind:<{_LABEL}}{counts}")
    page.print_line()
    if verdict.agrees:
        line = "    ✓ the same answer, row by row, and the same ledger"
        page.print_line(Text(line, "bold green"))
    else:
        line = f"    ✗ another answer; the expected ledger is {verdict.expected}"
        page.print_line(Text(line, "bold red"))


def format_balance(ledger: Ledger) -> str:
    """Return a ledger as a sum.

    >>> format_balance(Ledger(5, 3, 1, 1, 0, 0))
    '5 = 3 processed + 1 late + 1 rejected'
    """
    counts = ledger._asdict()
    total = counts.pop("input")
    parts = [f"{count:,} {name}" for name, count in counts.items() if count]
    return f"{total:,} = {' + '.join(parts)}"


def show_pictures(page: Page, flow: Flow, expected: Expected, hours: Sequence[Hour]) -> None:
    """Draw the rate of each batch, the share of each task, and the tips of each taxi."""
    page.print_line(Text("    events/s in each batch", "dim"))
    for line in draw_rates(flow):
        page.print_line(line)
    page.print_line()
    page.print_line(
        Text("    share of the work: with one task per key, and with the tasks here", "dim")
    )
    rows = {"by key": expected.hot_share}
    rows |= {f"task {number}": share for number, share in enumerate(flow.shares.shares, start=1)}
    for name, share in rows.items():
        bar = draw_bar(share, BAR)
        style = "yellow" if name == "by key" else "green"
        page.print_line(Text(f"    {name:<8}").append(bar, style).append(f"  {share * 100:.0f} %"))
    page.print_line()
    page.print_line(Text("    tips in each hour of the week", "dim"))
    show_tips(page, hours)


def draw_rates(flow: Flow) -> list[Text]:
    """Draw a bar for each batch, with a note."""
    most = max((step.rate for step in flow.steps), default=0.0) or 1.0
    firsts = {part[0].number: note for part, note in (
        (flow.before, "Spark starts"), (flow.after, "killed, restarted, repeated"),
    ) if part}  # fmt: skip
    lines = []
    for step in flow.steps:
        line = Text(f"    {step.number:<8}").append(draw_bar(step.rate / most, BAR), "green")
        line.append(f"{name_count(step.rate):>7}")
        note = firsts.get(step.number, "")
        pending = 0 if step.ledger is None else step.ledger.pending
        if not note and pending > step.events / 2:
            note = f"{name_count(pending)} pending events"
        lines.append(line.append(f"  {note}", "dim") if note else line)
    return lines


def show_tips(page: Page, hours: Sequence[Hour]) -> None:
    """Draw the tips of each taxi over the days."""
    step = -(-len(hours) // CURVE) or 1
    for taxi in TAXIS:
        tips = [hour.tips[taxi - 1] for hour in hours]
        curve = draw_curve([sum(tips[n : n + step]) for n in range(0, len(tips), step)])
        line = Text(f"    taxi {taxi}  ").append(curve, "magenta")
        page.print_line(line.append(f"  {sum(tips):,}"))


def _show(page: Page, label: str, text: str) -> None:
    line = Text("    ").append(f"{label:<{_LABEL}}", "cyan")
    page.print_line(line.append(text, "bold"))
