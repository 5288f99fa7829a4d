"""Lessons: what the laws say of the tour's program, of a mistake in it, and of any schedule."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from rich.text import Text

from anabranch.eventtime.channels import end_sources
from anabranch.laws import Counterexample, LawResult, check
from anabranch.model.program import Program
from anabranch.model.slices import Slices
from anabranch.reference.simulator import Counts
from anabranch.reference.verification import prepare
from anabranch.state import MapOf, Sum
from anabranch.tour.example_program import EXAMPLE
from anabranch.tour.page import Page

PLAN = "by source"
SCHEDULES = 500
CASES = 100


MISTAKE = """\
class Copied(Sum):
    def fork(self, total, left, right):
        return total, total"""


class Copied(Sum):
    """What `MISTAKE` shows."""

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        return state, state


def show_laws(page: Page, program: Program) -> None:
    """Check the laws, and say so in one line."""
    with page.wait("checking its laws"):
        report = check(program, cases=CASES)
    broken = [result.law for result in report.results if result.counterexample is not None]
    line = Text("    ")
    if broken:
        page.say(line.append(f"✗ broken: {', '.join(broken)}", "bold red"))
        return
    line.append("✓ ", "green").append(f"keeps its {len(report.results)} laws")
    page.say(line.append(f" in {CASES} cases each: forked, joined and reordered", "dim"))


def show_schedules(page: Page, program: Program, module: ModuleType) -> None:
    """Run a plan under many schedules, in a simulator."""
    page.open_station(
        "The same answer, simulated",
        "Workers fold apart and join at each hour. A seed decides which message comes when, which "
        "comes twice, and where everybody crashes and starts again from the last snapshot.",
    )  # fmt: skip
    items = end_sources(module.events, module.sources)
    trial = prepare(program, module.plans[PLAN], items, module.sources)
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
    page.say(Text(line, "bold green" if good else "bold red"))


def show_mistake(page: Page, program: Program) -> None:
    """Break the fork, and let the check find it."""
    page.open_station(
        "A mistake, found before it costs",
        "Suppose we had written a total of our own for MapOf, and each side of a fork got a copy:",
    )  # fmt: skip
    page.show_code(MISTAKE)
    broken = program.changed(state=MapOf(Copied(), by="taxi"))
    with page.wait("checking"):
        law = ("join_undoes_fork",)
        report = check(broken, cases=CASES, laws=law, target=f"{EXAMPLE}.py:{EXAMPLE}")
    found = first_case(report.results)
    page.say()
    page.say(f"    ✗ {found.law}: {found.description}", "bold red")
    page.say("    The smallest case, as Python that runs:")
    page.say()
    page.show_code(cut_case(found.code))


def first_case(results: Iterable[LawResult]) -> Counterexample:
    """Return the counterexample of the first broken law."""
    return next(r.counterexample for r in results if r.counterexample is not None)


def cut_case(code: str) -> str:
    """Return what a counterexample does, without how it is loaded."""
    lines = code.strip().splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("s = ")), 0)
    return "\n".join(lines[start:])
