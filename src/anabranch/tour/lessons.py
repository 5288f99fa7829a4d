"""Stations without Spark: the laws of the tour's program, a mistake that breaks one, and many schedules."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from rich.text import Text

from anabranch.eventtime.channels import end_channels
from anabranch.laws import Counterexample, LawResult, check
from anabranch.model.program import Program
from anabranch.model.slices import Slices
from anabranch.reference.simulator import Counts
from anabranch.reference.verification import prepare
from anabranch.state import MapOf, Sum
from anabranch.tour.example_program import EXAMPLE
from anabranch.tour.view import Page

PLAN = "by channel"
SCHEDULES = 500
CASES = 100


MISTAKE = """\
class Copied(Sum):
    def fork(self, total, left, right):
        return total, total"""


class Copied(Sum):
    """The class that `MISTAKE` shows."""

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        return state, state


def show_laws(page: Page, program: Program) -> None:
    """Check the laws, and print the result in one line."""
    with page.wait("checking its laws"):
        report = check(program, cases=CASES)
    broken = [result.law for result in report.results if result.counterexample is not None]
    line = Text("    ")
    if broken:
        page.print_line(line.append(f"✗ broken: {', '.join(broken)}", "bold red"))
        return
    line.append("✓ ", "green").append(f"keeps its {len(report.results)} laws")
    page.print_line(line.append(f" in {CASES} cases each: forked, joined and reordered", "dim"))


def show_schedules(page: Page, program: Program, module: ModuleType) -> None:
    """Run a plan under many schedules, in a simulator."""
    page.open_station(
        "The same answer, simulated",
        "Nodes fold in parallel and join at each hour. A seed decides the order of messages, which are "
        "repeated, and when all nodes crash and restart from the last snapshot.",
    )  # fmt: skip
    items = end_channels(module.events, channels=module.channels)
    trial = prepare(program, module.plans[PLAN], items, module.channels)
    total = [0] * len(Counts._fields)
    agreed = 0
    with page.console.status("") as status:
        for seed in range(SCHEDULES):
            if seed % 20 == 0:
                status.update(f"    {seed:,} of {SCHEDULES:,} schedules")
            simulation, mismatch = trial.verify(seed)
            agreed += mismatch is None
            if simulation is not None:
                total = [a + b for a, b in zip(total, simulation.counts, strict=True)]
    counts = Counts(*total)
    page.write(
        f"{SCHEDULES:,} schedules: {counts.messages:,} messages, {counts.duplicates:,} of them "
        f"repeated, {counts.joins:,} joins, {counts.crashes:,} crashes.",
        indent=4,
    )
    good = agreed == SCHEDULES
    line = f"    {agreed:,} of {SCHEDULES:,} agree with the sequential answer."
    page.print_line(Text(line, "bold green" if good else "bold red"))


def show_mistake(page: Page, program: Program) -> None:
    """Break the fork, and show the counterexample of the check."""
    page.open_station(
        "A mistake, found by the check",
        "A state for MapOf whose fork gives a copy of the total to each side:",
    )  # fmt: skip
    page.show_code(MISTAKE)
    broken = program.changed(state=MapOf(Copied(), by="taxi"))
    with page.wait("checking"):
        law = ("join_undoes_fork",)
        report = check(broken, cases=CASES, laws=law, target=f"{EXAMPLE}.py:{EXAMPLE}")
    found = first_case(report.results)
    page.print_line()
    page.print_line(f"    ✗ {found.law}: {found.description}", "bold red")
    page.print_line("    The smallest case, as Python that runs:")
    page.print_line()
    page.show_code(cut_case(found.code))


def first_case(results: Iterable[LawResult]) -> Counterexample:
    """Return the counterexample of the first broken law."""
    return next(r.counterexample for r in results if r.counterexample is not None)


def cut_case(code: str) -> str:
    """Return the code of a counterexample, without its imports."""
    lines = code.strip().splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("s = ")), 0)
    return "\n".join(lines[start:])
