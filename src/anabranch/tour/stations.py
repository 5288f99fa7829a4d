"""The stations of the tour, in order."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.text import Text

from anabranch.errors import AnabranchError, InputError, Stopped
from anabranch.model.program import Program
from anabranch.spark.sinks.progress import Batch
from anabranch.tour.child import Begun, Child, ChildError, Home, launch
from anabranch.tour.example_program import EXAMPLE, find_example, load_example
from anabranch.tour.lessons import show_laws, show_mistake, show_schedules
from anabranch.tour.page import Page, cut_source
from anabranch.tour.traffic import PROMISES, Traffic, write_traffic
from anabranch.tour.verdict import TourVerdict, fold_files, judge, read_hours
from anabranch.tour.view import Hour, LiveView, draw_curve, draw_sources, open_view

GOOD, FOUND, USAGE = 0, 1, 2
PIPE_WIDTH = 100
CURVE = 56
CRASH_AT = 0.4
"""After which part of the files the query is killed."""

app = App(
    name="python -m anabranch.tour",
    help="Show a stream on Spark, a crash in its middle, and the answer, in about a minute.",
    default_parameter=Parameter(negative="", show_default=False),
    help_format="plaintext",
    version_flags=[],
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    exit_on_error=False,
    print_error=False,
)


def main() -> None:
    """Show the tour on standard output."""
    # Whoever ends the tour from outside ends the query too, and leaves nothing behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        sys.exit(app(sys.argv[1:]))
    except Stopped as stop:
        sys.stderr.write("stopped\n")
        sys.exit(128 + stop.number)
    except (AnabranchError, CycloptsError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(USAGE)


def _stop(number: int, frame: object) -> None:
    raise Stopped(number)


@app.default
def tour(
    *,
    no_spark: Annotated[bool, Parameter(help="Leave Spark out; show the rest.")] = False,
    keep: Annotated[
        Path | None, Parameter(help="Keep what is read and published, in a new folder.")
    ] = None,
) -> int:
    """Show every station; return an exit code."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    with open_home(keep) as home:
        return show_tour(Page(console), home, Traffic(), spark=not no_spark)


@contextmanager
def open_home(keep: Path | None) -> Iterator[Home]:
    """Make the folders of a tour; what nobody wants to keep is gone afterwards."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(
            f"{str(keep)!r} is not a new folder",
            expected="--keep FOLDER, a folder that is empty or not there yet",
            got="something that is there already",
        )
    with TemporaryDirectory(prefix="anabranch-tour-", ignore_cleanup_errors=True) as name:
        folder = Path(name) if keep is None else keep.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        yield Home(folder, Path(name) / "scratch")


def show_tour(page: Page, home: Home, traffic: Traffic, *, spark: bool) -> int:
    """Show every station, in order; return an exit code."""
    began_s = time.monotonic()
    module = load_example()
    program: Program = getattr(module, EXAMPLE)
    files = write_traffic(traffic, home.events)
    # Spark takes a while to start, and the reader to read.
    with launch(home) if spark else nullcontext() as child:
        page.console.print("[bold]Anabranch[/]")
        page.write(
            "Write a stream program as if one machine read one ordered log; run it in parallel on "
            "Spark, and get the same answer.",
        )
        show_program(page, program)
        show_traffic(page, traffic, files)
        code = GOOD if child is None else show_query(page, program, traffic, files, child)
    if child is None or code == FOUND:
        show_reference(page, program, files)
        show_schedules(page, program, module)
    show_mistake(page, program)
    show_next(page, home, time.monotonic() - began_s)
    return code


def show_program(page: Page, program: Program) -> None:
    """Show the event types and the program, and what is to be said of its laws."""
    page.open_station(
        "A program",
        "What each event does to the state and says, and which events must keep their order. "
        "Tips need not wait for each other, not even those of one taxi; the hour waits for all.",
    )  # fmt: skip
    page.show_code(cut_source(find_example()))
    page.say()
    show_laws(page, program)


def show_traffic(page: Page, traffic: Traffic, files: Sequence[Path]) -> None:
    """Say what the stream is, and who brings it."""
    page.open_station(
        "A stream",
        f"{traffic.tips:,} tips of {traffic.days} days in {len(files)} files, from three offices; "
        "a clock strikes the hours. Four tips of five are for taxi 1. Some rows are broken.",
    )  # fmt: skip
    for name, promise in PROMISES.items():
        page.say(Text(f"    {name:<9}").append(promise, "dim"))


def show_query(
    page: Page, program: Program, traffic: Traffic, files: Sequence[Path], child: Child
) -> int:
    """Show the query, its crash, its restart and its answer; return an exit code."""
    home = child.home
    page.say()
    page.write(
        f"Process {child.pid} runs it as a Structured Streaming query: a file per batch, state in "
        "RocksDB, and a folder in which each batch is published once."
    )
    page.say()
    try:
        with open_view(page.console, traffic.end) as view:
            follow(program, view, child, crash_in=max(1, round(len(files) * CRASH_AT)))
        show_crash(page, child, view)
        page.open_station(
            "The restart",
            "The same command, on the same checkpoint: state, pending events, ledger and frontiers "
            "are there, and the batch that was cut off comes again.",
        )  # fmt: skip
        with launch(home) as second, open_view(page.console, traffic.end) as view:
            follow(program, view, second)
    except ChildError as error:
        page.say()
        page.say(Text(str(error), "red"))
        return FOUND
    with page.wait("the reference reads the same files"):
        verdict = judge(program, fold_files(program, files), home.published)
    show_verdict(page, verdict, read_hours(program, home.published))
    return GOOD if verdict.agrees else FOUND


def follow(program: Program, view: LiveView, child: Child, crash_in: int | None = None) -> None:
    """Show each batch until the query ends, or until it is in the middle of a certain batch."""
    home = child.home
    total = len(list(home.events.iterdir()))
    view.refresh(f"process {child.pid} starts Spark")
    begun = False
    while True:
        said = child.hear()
        published = home.list_published()
        if isinstance(said, Begun):
            begun = True
            view.refresh(f"Spark {said.spark} runs; the program is {said.way}")
        elif isinstance(said, Batch):
            view.add(said, read_hours(program, home.published))
        elif child.has_ended:
            return
        elif begun and home.list_unfinished():
            at_work = home.list_unfinished()[-1]
            view.refresh(f"batch {at_work} is at work; {len(published)} of {total} are published")
            told = -1 if view.last is None else view.last.number
            if crash_in is not None and told >= crash_in - 1 and at_work not in published:
                return


def show_crash(page: Page, child: Child, view: LiveView) -> None:
    """Kill the process, and say what was there at that moment."""
    if child.has_ended:
        raise ChildError("the query was done before it could be killed")
    code = child.kill()
    home = child.home
    published, unfinished = home.list_published(), home.list_unfinished()
    page.open_station(
        "A crash",
        f"Process {child.pid} and its JVM get a SIGKILL in the middle of their work.",
    )  # fmt: skip
    line = Text("    ").append(f"exit code {code}", "bold red")
    page.say(line.append(_cut_off(unfinished)))
    page.say(f"    published are batches 0 to {published[-1]}; the sources had come this far:")
    if view.last is not None and view.last.frontiers is not None:
        for line in draw_sources(view.last.frontiers, view.end):
            page.say(line)


def _cut_off(unfinished: Sequence[int]) -> str:
    names = ", ".join(map(str, unfinished))
    return f": batch {names} was begun, and is not committed" if unfinished else ": between batches"


def show_verdict(page: Page, verdict: TourVerdict, hours: Sequence[Hour]) -> None:
    """Show the comparison, the ledger as a balance, and the answer as a picture."""
    page.open_station(
        "The answer",
        "The reference reads the same files in one process and folds one event after the other. "
        "Rows are compared by their ids, and then by what they say.",
    )  # fmt: skip
    names = ("published", "reference", "missing", "twice", "different")
    page.say(Text("    " + " " * 12 + "".join(f"{name:>11}" for name in names), "dim"))
    for row in verdict.comparisons:
        page.say(f"    {row.kind:<12}" + "".join(f"{count:>11,}" for count in row[1:]))
    page.say()
    counts = verdict.ledger._asdict()
    came = counts.pop("input")
    balance = " + ".join(f"{count:,} {name}" for name, count in counts.items())
    page.say(f"    {came:,} in = {balance}")
    page.say()
    show_tips(page, hours)
    page.say()
    if verdict.agrees:
        page.say(Text("    ✓ the same answer, row by row, and the same ledger", "bold green"))
    else:
        page.say(Text(f"    ✗ not the answer; its ledger is {verdict.expected}", "bold red"))


def show_tips(page: Page, hours: Sequence[Hour]) -> None:
    """Draw the tips of each taxi over the days."""
    step = -(-len(hours) // CURVE) or 1
    for taxi in range(3):
        tips = [hour.tips[taxi] for hour in hours]
        curve = draw_curve([sum(tips[n : n + step]) for n in range(0, len(tips), step)])
        line = Text(f"    taxi {taxi + 1}  ").append(curve, "magenta")
        page.say(line.append(f"  {sum(tips):,}"))


def show_reference(page: Page, program: Program, files: Sequence[Path]) -> None:
    """Show what the reference says of the stream, where Spark does not."""
    page.open_station(
        "The answer",
        "The reference reads the files in one process and folds one event after the other.",
    )  # fmt: skip
    with page.wait("folding"):
        answer = fold_files(program, files)
    page.say(f"    {len(answer.outputs):,} outputs; {answer.ledger}")
    page.say()
    show_tips(page, [Hour(output.event.time, output.value) for output in answer.outputs])


def show_next(page: Page, home: Home, seconds: float) -> None:
    """Say what to try next."""
    page.console.print(f"\n[bold cyan]Try next[/] [dim]({seconds:,.0f} s)[/]")
    rows = (
        (f"anabranch examples copy {EXAMPLE}", "make the program yours"),
        (f"anabranch check {EXAMPLE}.py", "let the check find mistakes"),
        (f"anabranch run {EXAMPLE}.py --master 'local[2]'", "on Spark"),
    )
    for command, sense in rows:
        page.say(Text(f"    {command:<48}").append(sense, "dim"))
    if home.scratch.parent != home.folder:
        shutil.rmtree(home.scratch, ignore_errors=True)
        page.say(f"    kept: {home.folder}")
