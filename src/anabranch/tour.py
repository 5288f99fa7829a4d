"""The tour: one program, from its source to its answer, in half a minute.

`python -m anabranch.tour` shows a program and its laws, its answer from the sequential fold, the
same answer from workers that crash and repeat themselves, and what happens to a fork that is wrong.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from anabranch.errors import TargetError
from anabranch.eventtime.sources import end_sources
from anabranch.laws import LAWS, Counterexample, Result, check
from anabranch.model.events import Event
from anabranch.model.program import Program
from anabranch.model.targets import load_module
from anabranch.plan.tree import Plan, Worker
from anabranch.reference.sequential import Answer, run
from anabranch.reference.simulator import Counts
from anabranch.reference.verification import prepare

EXAMPLE = "max_temperature"
PLAN = "deep"
SCHEDULES = 1000
CASES = 100
WIDTH = 88


def main() -> None:
    """Show the tour on standard output."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 100
    try:
        show_tour(console)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)


def show_tour(console: Console) -> None:
    """Show every station, in order."""
    file = find_example(EXAMPLE)
    module = load_module(str(file))
    program: Program = getattr(module, EXAMPLE)
    answer = run(program, end_sources(module.events, module.sources), module.sources)
    console.print("[bold]Anabranch[/]")
    write(
        console,
        "Write a stream program as if one machine read one ordered log; run it in parallel, and "
        "get the same answer.",
    )
    show_source(console, file)
    show_laws(console, program)
    show_answer(console, module, answer)
    show_plan(console, program, module)
    show_mistake(console, program, module)
    show_next(console)


def find_example(name: str) -> Path:
    """Return the file of an example, in the installed package or beside its source."""
    package = Path(__file__).parent
    for folder in (package / "_examples", package.parent.parent / "examples"):
        if (folder / f"{name}.py").is_file():
            return folder / f"{name}.py"
    raise TargetError("the examples were not installed", expected=str(package / "_examples"))


def open_station(console: Console, number: int, title: str, text: str) -> None:
    """Print the heading of a station."""
    console.print(f"\n[bold cyan]{number}. {title}[/]")
    write(console, text)
    console.print()


def write(console: Console, text: str, *, indent: int = 0) -> None:
    """Print a paragraph."""
    margin = " " * indent
    width = min(console.width, WIDTH)
    lines = textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin)
    console.print("\n".join(lines))


def show_code(console: Console, code: str) -> None:
    """Print Python, in colour on a terminal."""
    if console.is_terminal:
        syntax = Syntax(code, "python", theme="ansi_dark", word_wrap=True)
        console.print(Padding(syntax, (0, 0, 0, 4)))
    else:
        for line in code.splitlines():
            console.print(Text(f"    {line}".rstrip()), soft_wrap=True)


def show_source(console: Console, file: Path) -> None:
    """Show the event types and the program."""
    open_station(
        console, 1, "A program",
        "What each event does to the state and says, which events must keep their order, and how "
        "a state forks into two and joins again.",
    )  # fmt: skip
    show_code(console, cut_source(file.read_text(encoding="utf-8")))


def cut_source(text: str) -> str:
    """Return the part of an example that is the program: its types and its statement."""
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


def show_laws(console: Console, program: Program) -> None:
    """Check the laws one after the other."""
    open_station(
        console, 2, "Its laws",
        "Fork, join and dependence are promises. Each is tried on many small cases.",
    )  # fmt: skip
    for law in LAWS:
        with console.status(f"    {law.name}"):
            report = check(program, cases=CASES, laws=(law.name,))
        for result in report.results:
            tick = (
                Text("✓ ", "green") if result.verdict in ("kept", "proved") else Text("✗ ", "red")
            )
            cases = f"{result.cases} cases" if result.cases else result.reason
            line = Text("    ").append(tick).append(f"{law.name:<30}").append(cases, "dim")
            console.print(line, soft_wrap=True)


def show_answer(console: Console, module: ModuleType, answer: Answer) -> None:
    """Draw the input as a timeline, with the answer below it."""
    open_station(
        console, 3, "Its answer",
        "Two thermometers, three reports. The sequential fold says, once every source has passed:",
    )  # fmt: skip
    rows: dict[str, dict[int, str]] = {source.name: {} for source in module.sources}
    for event in module.events:
        if isinstance(event, Event):
            rows[event.source][event.time] = str(getattr(event.data, "degrees", "?"))
    outputs = {output.event.time: str(output.value) for output in answer.outputs}
    draw_timeline(console, {**rows, "answer": outputs})


def draw_timeline(console: Console, rows: Mapping[str, Mapping[int, str]]) -> None:
    """Draw what happened at each time, one line per source."""
    times = range(1, max(time for row in rows.values() for time in row) + 1)
    console.print(Text(f"    {'time':<10}" + "".join(f"{time:>4}" for time in times), "dim"))
    for name, row in rows.items():
        cells = "".join(f"{row.get(time, '·'):>4}" for time in times)
        console.print(Text(f"    {name:<10}{cells}", "bold green" if name == "answer" else ""))


def show_plan(console: Console, program: Program, module: ModuleType) -> None:
    """Draw a plan and run it under many schedules."""
    open_station(
        console, 4, "The same answer, in parallel",
        "A plan is a tree of workers. The leaves fold on their own; at a report the states join "
        "on the way up and fork on the way down.",
    )  # fmt: skip
    plan: Plan = module.plans[PLAN]
    for line in draw_worker(plan.root):
        console.print(Text(f"    {line}"))
    trial = prepare(program, plan, end_sources(module.events, module.sources), module.sources)
    total = [0] * len(Counts._fields)
    agreed = 0
    with console.status("") as status:
        for seed in range(SCHEDULES):
            if seed % 50 == 0:
                status.update(f"    {seed:,} of {SCHEDULES:,} schedules")
            simulation, mismatch = trial.verify(seed)
            agreed += mismatch is None
            if simulation is not None:
                total = [a + b for a, b in zip(total, simulation.counts, strict=True)]
    counts = Counts(*total)
    console.print()
    write(
        console,
        f"{SCHEDULES:,} schedules: {counts.messages:,} messages in any order, "
        f"{counts.duplicates:,} of them repeated, {counts.joins:,} joins, "
        f"{counts.snapshots:,} snapshots, {counts.crashes:,} crashes with a restart from the "
        "last snapshot.",
        indent=4,
    )
    console.print(
        f"    [bold green]{agreed:,} of {SCHEDULES:,} agree with the sequential answer.[/]"
    )


def draw_worker(worker: Worker) -> list[str]:
    """Draw a worker and those below it, one line each."""
    lines = [", ".join(map(str, worker.slices)) or "(forks and joins only)"]
    for place, child in enumerate(worker.children):
        last = place == len(worker.children) - 1
        first, *rest = draw_worker(child)
        lines.append(f"{'└──' if last else '├──'} {first}")
        lines += [f"{'   ' if last else '│  '} {line}" for line in rest]
    return lines


def show_mistake(console: Console, program: Program, module: ModuleType) -> None:
    """Break the fork, and let the check find it."""
    open_station(
        console, 5, "A mistake, found before it costs",
        "Suppose the fork started both sides from zero, and so forgot the maximum:",
    )  # fmt: skip
    show_code(console, "fork=lambda top, left, right: (0, 0)")
    broken = program.changed(fork=lambda top, left, right: (0, 0))
    with console.status("    checking"):
        report = check(broken, cases=CASES, target=f"{EXAMPLE}.py:{EXAMPLE}")
    found = first_case(report.results)
    console.print()
    console.print(Text(f"    ✗ {found.law}: {found.description}", "bold red"), soft_wrap=True)
    console.print("\n    The smallest case, as Python that can be run:\n")
    show_code(console, found.code.strip())
    console.print()
    console.print(Text(f"    {run_all_the_same(broken, module)}"))


def first_case(results: Iterable[Result]) -> Counterexample:
    """Return the counterexample of the first broken law."""
    return next(r.counterexample for r in results if r.counterexample is not None)


def run_all_the_same(broken: Program, module: ModuleType) -> str:
    """Say what the broken program does on the first schedule that shows it."""
    items = end_sources(module.events, module.sources)
    trial = prepare(broken, module.plans[PLAN], items, module.sources)
    for seed in range(SCHEDULES):
        simulation, mismatch = trial.verify(seed)
        if simulation is not None and mismatch is not None:
            said = [o.value for o in sorted(simulation.outputs, key=lambda output: output.key)]
            right = trial.answer.values
            return f"Run all the same, schedule {seed} says {said} where the answer is {right}."
    return "Run all the same, no schedule shows it on these few events."


def show_next(console: Console) -> None:
    """Say what to try next."""
    console.print("\n[bold cyan]Try next[/]")
    rows = (
        ("anabranch examples", "the other programs, and how to copy one"),
        (f"anabranch examples copy {EXAMPLE}", "make it yours, then change its fork"),
        (f"anabranch check {EXAMPLE}.py", "and let the check find out"),
    )
    for command, sense in rows:
        console.print(Text(f"    {command:<42}").append(sense, "dim"))


if __name__ == "__main__":
    main()
