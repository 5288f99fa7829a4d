"""The stations of the tour, in order."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.text import Text

from anabranch.errors import AnabranchError, InputError, Stopped
from anabranch.model.program import Program
from anabranch.tour import published_rows as published
from anabranch.tour.child import Child, ChildError, Home, Started, launch
from anabranch.tour.example_program import EXAMPLE, find_example, load_example
from anabranch.tour.fold_tasks import Shares
from anabranch.tour.lessons import show_laws, show_mistake, show_schedules
from anabranch.tour.oracle import compute_answer
from anabranch.tour.summary import Crash, Flow, show_numbers, show_pictures, show_tips
from anabranch.tour.traffic import PROMISES, Traffic, write_traffic
from anabranch.tour.verdict import agrees_with_reference, fold_sample, judge
from anabranch.tour.view import Hour, LiveView, Page, Step, cut_source, draw_channels, open_view

GOOD, FOUND, USAGE = 0, 1, 2
PIPE_WIDTH = 100
SMALL = Traffic(tips=50_000)
"""The input of the reference in a tour without Spark."""

app = App(
    name="python -m anabranch.tour",
    help="Run millions of events on local Spark, kill the query, check the answer: about a minute.",
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
    # A signal that ends the tour ends the query too, and removes its files.
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
    no_spark: Annotated[
        bool, Parameter(help="Run without Spark: laws, simulator and reference only.")
    ] = False,
    keep: Annotated[
        Path | None,
        Parameter(help="New folder that keeps the input and the published rows (default: none)."),
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
    """Create the folders of a tour, and remove those that are not kept."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(
            f"{str(keep)!r} is not a new folder",
            expected="--keep FOLDER, a folder that is empty or does not exist",
            got="a file or a folder with files",
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
    # Spark starts while the program is shown and the events are written.
    with launch(home) if spark else nullcontext() as child:
        page.console.print("[bold]Anabranch[/]")
        page.write(
            "A stream program is written as a fold over one ordered log. It runs in parallel on "
            "Spark, and the answer is the same.",
        )
        show_program(page, program)
        code = GOOD if child is None else show_query(page, module, program, traffic, child)
    if child is None or code == FOUND:
        show_reference(page, module, program, home)
        show_schedules(page, program, module)
        show_mistake(page, program)
    show_next(page, home, time.monotonic() - began_s)
    return code


def show_program(page: Page, program: Program) -> None:
    """Show the event types, the program and the result of checking its laws."""
    page.open_station("A program")
    page.show_code(cut_source(find_example()))
    page.print_line()
    show_laws(page, program)


def show_query(
    page: Page, module: ModuleType, program: Program, traffic: Traffic, child: Child
) -> int:
    """Show the query, its crash, its restart and its answer; return an exit code."""
    page.open_station(f"{traffic.tips:,} events on Spark")
    for name, promise in PROMISES.items():
        page.print_line(Text(f"    {name:<9}").append(promise, "dim"))
    page.print_line()
    page.print_line(
        f"Process {child.pid} starts Spark, and the events are written as Parquet files."
    )
    page.print_line()
    with page.wait(f"writing {traffic.tips:,} events"):
        write_traffic(traffic, child.home.events)
    try:
        flow = run_through_crash(page, traffic, child)
    except ChildError as error:
        page.print_line()
        page.print_line(Text(str(error), "red"))
        return FOUND
    return show_answer(page, module, program, flow, child.home)


def run_through_crash(page: Page, traffic: Traffic, child: Child) -> Flow:
    """Show the query until it is killed, and then another process that continues from its checkpoint."""
    flow = Flow()
    with open_view(page.console, traffic.end) as view:
        follow(view, child, crash_batch=traffic.crash_batch)
    flow.before = view.steps
    killed_s = time.monotonic()
    flow.crash = show_crash(page, child, view)
    with launch(child.home) as second, open_view(page.console, traffic.end) as view:
        flow.shares = follow(view, second, crash=flow.crash, killed_s=killed_s)
    flow.after = view.steps
    return flow


def follow(
    view: LiveView,
    child: Child,
    *,
    crash_batch: int | None = None,
    crash: Crash | None = None,
    killed_s: float = 0.0,
) -> Shares:
    """Show each batch until the query ends, or until it is in the middle of a certain batch."""
    home = child.home
    shares = Shares(0, ())
    view.refresh(f"process {child.pid} starts Spark")
    while True:
        report = child.receive()
        if isinstance(report, Started):
            view.refresh(f"Spark {report.spark} runs on {report.cores} cores")
        elif isinstance(report, Shares):
            shares = report
        elif isinstance(report, Step):
            if crash is not None and not view.steps:
                crash.seconds = time.monotonic() - killed_s
            view.add(report, published.read_hours(home.published))
        elif child.has_ended or is_at_work(view, home, crash_batch):
            return shares


def is_at_work(view: LiveView, home: Home, crash_batch: int | None) -> bool:
    """Show the running batch; return whether it is the one to be killed in, or a later one."""
    unfinished = home.list_unfinished()
    if not unfinished or not home.published.is_dir():
        return False
    batch, visible = unfinished[-1], home.list_published()
    view.refresh(f"batch {batch} is running; {len(visible)} are published")
    shown = -1 if view.last is None else view.last.number
    ready = crash_batch is not None and batch >= crash_batch
    return ready and shown == batch - 1 and batch not in visible


def show_crash(page: Page, child: Child, view: LiveView) -> Crash:
    """Kill the process, and show its batches and watermarks at that moment."""
    if child.has_ended:
        raise ChildError("the query ended before it could be killed")
    code = child.kill()
    home = child.home
    visible, unfinished = home.list_published(), home.list_unfinished()
    batch = unfinished[-1] if unfinished else visible[-1]
    page.print_line()
    line = Text("    ").append(f"kill -9 {child.pid}", "bold red").append(f": exit code {code}")
    page.print_line(line.append(f", batch {batch} begun, batches 0 to {visible[-1]} published"))
    ledger = None if view.last is None else view.last.ledger
    if view.last is not None and view.last.watermarks is not None:
        for drawn in draw_channels(view.last.watermarks, view.end):
            page.print_line(drawn)
    page.print_line("    The same command again, on the same checkpoint:")
    page.print_line()
    return Crash(batch, 0 if ledger is None else ledger.pending)


def show_answer(page: Page, module: ModuleType, program: Program, flow: Flow, home: Home) -> int:
    """Check all published rows, and show numbers and charts; return an exit code."""
    page.open_station("The same answer")
    with page.wait("NumPy and the reference read the same files"):
        expected = compute_answer(home.events)
        sample = fold_sample(module, program, home.events)
        hours = published.read_hours(home.published)
        late, rejected = (
            published.read_late(home.published),
            published.read_rejected(home.published),
        )
        ledger = published.read_last_ledger(home.published)
        verdict = judge(hours, late, rejected, ledger, expected)
    agrees = agrees_with_reference(sample.answer, expected)
    show_numbers(page, flow, expected, verdict, sample if agrees else None)
    page.open_station("Charts")
    show_pictures(page, flow, expected, hours)
    return GOOD if verdict.agrees and agrees else FOUND


def show_reference(page: Page, module: ModuleType, program: Program, home: Home) -> None:
    """Show the answer of the reference for a small stream, if there is no answer of Spark."""
    page.open_station(
        "The answer",
        f"The reference folds {SMALL.tips:,} tips, one after the other, in one process.",
    )  # fmt: skip
    if find_spec("numpy") is None or find_spec("pyarrow") is None:
        page.print_line("    left out: it needs pip install 'anabranch[kernels,parquet]'")
        return
    with page.wait("folding"):
        folder = home.folder / "small"
        write_traffic(SMALL, folder)
        expected = compute_answer(folder)
        sample = fold_sample(module, program, folder, end=None)
    hours = [Hour(output.event.time, output.value) for output in sample.answer.outputs]
    page.print_line(f"    {len(hours):,} hours; {sample.answer.ledger}")
    page.print_line()
    show_tips(page, hours)
    page.print_line()
    show_agreement(page, agrees=agrees_with_reference(sample.answer, expected, whole=True))


def show_agreement(page: Page, *, agrees: bool) -> None:
    """Show whether NumPy computes the same from the files."""
    text = "    ✓ NumPy computes the same" if agrees else "    ✗ NumPy computes another answer"
    page.print_line(Text(text, "bold green" if agrees else "bold red"))


def show_next(page: Page, home: Home, seconds: float) -> None:
    """Show what to try next."""
    page.console.print(f"\n[bold cyan]Try next[/] [dim]({seconds:,.0f} s)[/]")
    rows = (
        (f"anabranch examples copy {EXAMPLE}", "copy the program"),
        (f"anabranch check {EXAMPLE}.py", "check its laws"),
        (f"anabranch run {EXAMPLE}.py --master 'local[2]'", "run it on Spark"),
    )
    for command, purpose in rows:
        page.print_line(Text(f"    {command:<48}").append(purpose, "dim"))
    if home.scratch.parent != home.folder:
        shutil.rmtree(home.scratch, ignore_errors=True)
        page.print_line(f"    kept: {home.folder}")
