"""The view: the page of the tour, a row for each finished batch, and on a terminal a live picture of the stream."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.text import Text

from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.batch_progress import find_slowest
from anabranch.microbatch.runs.published_batches import Watermarks
from anabranch.model.events import FOREVER
from anabranch.tour.traffic import name_moment

WIDTH = 80
"""Maximum width of paragraphs, also on a wider terminal."""

BAR = 36
LAST_HOURS = 4
_BLOCKS = "▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"
_COLUMNS = {
    "batch": 5,
    "events": 11,
    "s": 6,
    "events/s": 11,
    "pending": 10,
    "late": 7,
    "rejected": 9,
}


class Hour(NamedTuple):
    """The published result of an hour: the tips of each taxi."""

    time: int
    tips: tuple[int, ...]


class Step(NamedTuple):
    """A batch: its events, Spark's time for it, and the ledger and watermarks after it."""

    number: int
    events: int
    seconds: float
    ledger: Ledger | None = None
    watermarks: Watermarks | None = None

    @property
    def rate(self) -> float:
        """Return its events per second."""
        return self.events / self.seconds if self.seconds else 0.0


def format_header() -> Text:
    """Return the names of the columns."""
    names = "".join(f"{name:>{width}}" for name, width in _COLUMNS.items())
    return Text(f"  {names}  {'watermark':<9} held by", "dim")


def format_row(step: Step) -> Text:
    """Return a row for a batch, with the watermark and the channel that holds it back."""
    ledger, watermarks = step.ledger, step.watermarks
    cells = [f"{step.number}", f"{step.events:,}", f"{step.seconds:.1f}", f"{step.rate:,.0f}"]
    if ledger is not None:
        cells += [f"{count:,}" for count in (ledger.pending, ledger.late, ledger.rejected)]
    widths = _COLUMNS.values()
    row = Text("  " + "".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=False)))
    if watermarks is not None:
        row.append(f"  {name_watermark(watermarks.program):<9}", "cyan")
        if watermarks.program < FOREVER:
            row.append(f" {', '.join(find_slowest(watermarks))}", "yellow")
    row.rstrip()
    return row


def name_watermark(time: int) -> str:
    """Return a watermark as a moment of the week."""
    return {FOREVER: "ended", NEVER: "nothing yet"}.get(time) or name_moment(time)


def draw_channels(watermarks: Watermarks, end: int) -> list[Text]:
    """Draw the watermark of each channel, and mark the one that holds the others back."""
    slow = find_slowest(watermarks)
    lines = []
    for name, time in sorted(watermarks.channels.items()):
        held = name in slow and time < max(watermarks.channels.values())
        style = "yellow" if held else "green"
        line = Text(f"    {name:<9}").append(draw_bar(min(time, end) / end, BAR), style)
        line.append(f"  {name_watermark(time)}")
        lines.append(line.append("  holds back", "yellow") if held else line)
    return lines


def draw_bar(share: float, width: int) -> str:
    """Draw a share of one as a bar, to an eighth of a character.

    >>> draw_bar(0.5, 4), draw_bar(0.3, 4)
    ('██  ', '█▎  ')
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_BLOCKS[rest - 1] if rest else "")).ljust(width)


def draw_curve(values: Sequence[int]) -> str:
    """Draw numbers as a row of steps.

    >>> draw_curve([0, 5, 10])
    '▁▅█'
    """
    most = max(values, default=0) or 1
    return "".join(_STEPS[min(7, value * 8 // most)] for value in values)


def name_count(count: float) -> str:
    """Return a count with a unit: M, k, or none.

    >>> name_count(4_123_000), name_count(68_400), name_count(9_999)
    ('4.1 M', '68 k', '9,999')
    """
    if count >= 1e6:
        return f"{count / 1e6:.1f} M"
    return f"{count / 1e3:.0f} k" if count >= 1e4 else f"{count:,.0f}"


def draw_hours(hours: Sequence[Hour]) -> list[Text]:
    """Draw the last published hours, a bar for each taxi."""
    most = max((max(hour.tips) for hour in hours), default=0) or 1
    lines = []
    for hour in hours[-LAST_HOURS:]:
        line = Text(f"    {name_moment(hour.time)}")
        for taxi, tips in enumerate(hour.tips, start=1):
            line.append(f"  taxi {taxi} ", "dim").append(draw_bar(tips / most, 6), "magenta")
            line.append(f"{name_count(tips):>7}")
        lines.append(line)
    return lines


@dataclass
class LiveView:
    """The screen: rows of finished batches, and a live picture of the stream."""

    console: Console
    end: int
    live: Live | None = None
    status: str = ""
    steps: list[Step] = field(default_factory=list)
    hours: Sequence[Hour] = ()
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    @property
    def last(self) -> Step | None:
        """Return the last finished batch."""
        return self.steps[-1] if self.steps else None

    def add(self, step: Step, hours: Sequence[Hour]) -> None:
        """Show a finished batch, and the published hours."""
        self.steps.append(step)
        self.hours = hours
        self.console.print(format_row(step), soft_wrap=True)
        self.refresh()

    def refresh(self, status: str | None = None) -> None:
        """Draw the picture again, if this is a terminal."""
        self.status = self.status if status is None else status
        if self.live is not None:
            self.live.update(self.draw())

    def draw(self) -> RenderableType:
        """Draw the channels, the last hours, and the status."""
        parts: list[RenderableType] = [Text()]
        if self.last is not None and self.last.watermarks is not None:
            parts += draw_channels(self.last.watermarks, self.end)
            parts.append(Text())
        if self.hours:
            parts += draw_hours(self.hours)
            parts.append(Text())
        # One spinner for all pictures; a new one would restart its animation.
        self.spinner.update(text=self.status)
        return Group(*parts, self.spinner)


@contextmanager
def open_view(console: Console, end: int) -> Iterator[LiveView]:
    """Show the header and then rows; remove the picture at the end."""
    console.print(format_header(), soft_wrap=True)
    view = LiveView(console, end)
    if not console.is_terminal:
        yield view
        return
    with Live(view.draw(), console=console, transient=True, refresh_per_second=10) as live:
        view.live = live
        yield view
        view.live = None


@dataclass
class Page:
    """The console of the tour, and the number of stations printed so far."""

    console: Console
    stations: int = 0

    def open_station(self, title: str, text: str = "") -> None:
        """Print the heading of the next station."""
        self.stations += 1
        self.console.print(f"\n[bold cyan]{self.stations}. {title}[/]")
        if text:
            self.write(text)
        self.console.print()

    def write(self, text: str, *, indent: int = 0) -> None:
        """Print a paragraph."""
        margin = " " * indent
        width = min(self.console.width, WIDTH)
        lines = textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin)
        self.console.print(Text("\n".join(lines)))

    def print_line(self, line: str | Text = "", style: str = "") -> None:
        """Print a line without wrapping or markup."""
        text = Text(line, style) if isinstance(line, str) else line
        self.console.print(text, soft_wrap=True)

    def show_code(self, code: str) -> None:
        """Print Python, in colour on a terminal."""
        if self.console.is_terminal:
            syntax = Syntax(code, "python", theme="ansi_dark", word_wrap=True)
            self.console.print(Padding(syntax, (0, 0, 0, 4)))
        else:
            for line in code.splitlines():
                self.print_line(f"    {line}".rstrip())

    def wait(self, what: str) -> AbstractContextManager[Any]:
        """Show a status, on a terminal."""
        return self.console.status(f"    {what}")


def cut_source(file: Path) -> str:
    """Return the part of an example that is the program: its types and its statement."""
    text = file.read_text(encoding="utf-8")
    parts = [
        ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
        or (
            isinstance(node, ast.Assign)
            and "Program(" in (ast.get_source_segment(text, node) or "")
        )
    ]
    return "\n\n".join(parts)
