"""`anabranch simulate`: run a program's plans under many schedules, and compare with the sequential run."""

from __future__ import annotations

import multiprocessing
import re
import shlex
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing.pool import Pool
from typing import Annotated, Any

from cyclopts import Parameter

from anabranch.cli.explain import check_shards
from anabranch.cli.flags import Inputs, Json, Target
from anabranch.cli.target_module import TargetModule, declare_channels, load_items, load_material
from anabranch.cli.terminal.screen import FOUND, GOOD, Progress, Screen, count_things
from anabranch.errors import InputError
from anabranch.eventtime.channels import end_channels
from anabranch.model.events import Event, Item
from anabranch.model.program import Program
from anabranch.plan.implied_forks import add_copies
from anabranch.plan.layout_plans import plan_layout
from anabranch.plan.layouts import choose_layout
from anabranch.plan.optimizers.greedy import plan_greedily
from anabranch.plan.pricing.rates import sample_rates
from anabranch.plan.tree import Plan, PlanNode
from anabranch.reference.rows import STANDARD
from anabranch.reference.simulator import Counts, Simulation
from anabranch.reference.verification import Mismatch, PlanTrial, prepare

PROCESSES = 2
POOL_FROM = 1000
"""Total number of seeds above which starting processes is faster."""

CHUNK = 100
"""Number of seeds that a process gets at once."""

NOTHING = Counts(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Tally:
    """The result of many seeds on one plan: sums, and the first seed that disagreed."""

    plan: str
    seeds: int = 0
    counts: Counts = NOTHING
    seconds: float = 0.0
    mismatch: Mismatch | None = None

    def add(self, other: Tally) -> Tally:
        """Return the sum of both tallies."""
        sums = Counts(*(a + b for a, b in zip(self.counts, other.counts, strict=True)))
        return Tally(
            self.plan,
            self.seeds + other.seeds,
            sums,
            self.seconds + other.seconds,
            self.mismatch or other.mismatch,
        )


def simulate(
    target: Target,
    /,
    *,
    seeds: Annotated[
        int, Parameter(help="Number of schedules to try on each plan (default 1000).")
    ] = 1000,
    seed: Annotated[
        int | None, Parameter(help="Run only the schedule of this seed, and print its trace.")
    ] = None,
    plan: Annotated[
        str | None,
        Parameter(help="Run only this plan: a name in the module's `plans`, or `on Spark`."),
    ] = None,
    shards: Annotated[
        int, Parameter(help="Number of shards of the plan that runs on Spark (default 4).")
    ] = 4,
    input: Inputs = (),  # noqa: A002 - the flag's name
    json: Json = False,
) -> int:
    """Run a program's plans under many schedules, with crashes and repeated messages.

    The last plan is that of the program's layout on Spark.

    A seed decides the order of deliveries, which messages are delivered twice, when snapshots are
    taken and when all nodes crash. The answer must equal that of the sequential run.
    """
    if seeds < 1:
        raise InputError(
            "--seeds is not a number of schedules", expected="1 or more", got=str(seeds)
        )
    check_shards(shards)
    screen = Screen(quiet=json)
    material = load_material(target)
    trials = _prepare(material, plan, input, shards)
    if seed is not None:
        return _replay(screen, material, trials, seed, input)
    with screen.follow("simulating", seeds * len(trials)) as progress:
        tallies = _try_seeds(material, trials, seeds, input, shards, progress)
    if json:
        screen.print_json(_describe(material, tallies, input))
    else:
        _show(screen, material, tallies, input)
    return FOUND if any(tally.mismatch for tally in tallies) else GOOD


def _prepare(
    material: TargetModule, only: str | None, files: tuple[str, ...], shards: int
) -> dict[str, PlanTrial]:
    items = load_items(material, files)
    channels = declare_channels(material, items, None, unique_times=False, files=files)
    bounded = end_channels(items, channels=channels)
    plans = _choose_plans(material, items, only, shards)
    return {name: prepare(program, p, bounded, channels) for name, (program, p) in plans.items()}


def _choose_plans(
    material: TargetModule, items: Iterable[Item], only: str | None, shards: int
) -> dict[str, tuple[Program, Plan]]:
    """Return the plans to try, each with the program whose forks it uses."""
    program = add_copies(material.program)
    found = dict(material.plans) or _make_plans(program, items)
    plans = {name: (program, plan) for name, plan in found.items()}
    forked, plan = plan_layout(program, choose_layout(program, shards))
    plans[plan.name] = forked, plan
    if only is None:
        return plans
    if only == "on Spark":
        only = plan.name
    if only not in plans:
        raise InputError(
            f"{program.name} has no plan {only!r}",
            where=material.target.partition(":")[0],
            expected=f"one of {', '.join(map(repr, plans))}",
            got=repr(only),
        )
    return {only: plans[only]}


def _make_plans(program: Program, items: Iterable[Item]) -> dict[str, Plan]:
    """Return plans for a module without `plans`: one node, and as many as its events allow."""
    events = [item for item in items if isinstance(item, Event)]
    made = [Plan(PlanNode(*program.event_types, state=program.initial.name), "sequential")]
    if program.forks and events:
        made.append(replace(plan_greedily(program, sample_rates(program, events)), name="greedy"))
    return {plan.name: plan for plan in made}


def _try_seeds(
    material: TargetModule,
    trials: dict[str, PlanTrial],
    seeds: int,
    files: tuple[str, ...],
    shards: int,
    progress: Progress,
) -> list[Tally]:
    """Try the seeds of every plan, in order; stop a plan at the first seed that disagrees."""
    pooled = seeds * len(trials) > POOL_FROM and STANDARD not in files
    chunks = [range(start, min(start + CHUNK, seeds)) for start in range(0, seeds, CHUNK)]
    if not pooled:
        return [
            _sum_up(name, (_try_chunk(trial, chunk) for chunk in chunks), progress)
            for name, trial in trials.items()
        ]
    with _open_pool() as pool:
        return [
            _sum_up(
                name,
                pool.imap(
                    _try_in_process, [(material.target, files, shards, name, c) for c in chunks]
                ),
                progress,
            )
            for name in trials
        ]


@contextmanager
def _open_pool() -> Iterator[Pool]:
    # Spawn, don't fork: the progress bar has a thread. The processes inherit that SIGINT is ignored;
    # this process handles Ctrl-C and ends them.
    spawn = multiprocessing.get_context("spawn")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pool = spawn.Pool(PROCESSES)
    finally:
        signal.signal(signal.SIGINT, before)
    with pool:
        yield pool


def _sum_up(name: str, tallies: Iterable[Tally], progress: Progress) -> Tally:
    began = time.perf_counter()
    total = Tally(name)
    for tally in tallies:
        total = total.add(tally)
        progress.advance(tally.seeds, f"simulating {name}")
        if total.mismatch is not None:
            break
    return Tally(name, total.seeds, total.counts, time.perf_counter() - began, total.mismatch)


def _try_chunk(trial: PlanTrial, seeds: Iterable[int]) -> Tally:
    total = Tally(trial.plan.name)
    for seed in seeds:
        simulation, mismatch = trial.verify(seed)
        counts = simulation.counts if simulation is not None else NOTHING
        total = total.add(Tally(trial.plan.name, 1, counts, 0.0, mismatch))
        if mismatch is not None:
            break
    return total


@cache
def _load_trials(target: str, files: tuple[str, ...], shards: int) -> dict[str, PlanTrial]:
    # Each process loads the target again: the classes of a user's events can't be pickled by name.
    return _prepare(load_material(target), None, files, shards)


def _try_in_process(work: tuple[str, tuple[str, ...], int, str, range]) -> Tally:
    target, files, shards, name, seeds = work
    return _try_chunk(_load_trials(target, files, shards)[name], seeds)


def _replay(
    screen: Screen,
    material: TargetModule,
    trials: dict[str, PlanTrial],
    seed: int,
    files: tuple[str, ...],
) -> int:
    """Run one seed on every plan, and print its trace."""
    tallies = []
    traces: dict[str, list[str]] = {}
    for name, trial in trials.items():
        simulation, mismatch = trial.verify(seed, trace=True)
        counts = simulation.counts if simulation is not None else NOTHING
        tallies.append(Tally(name, 1, counts, 0.0, mismatch))
        traces[name] = simulation.trace if simulation is not None else []
        _show_trace(screen, trial, seed, simulation, mismatch)
    if screen.quiet:
        document = _describe(material, tallies, files)
        for plan in document["plans"]:
            plan["trace"] = traces[plan["name"]]
        screen.print_json({**document, "seed": seed})
    return FOUND if any(tally.mismatch for tally in tallies) else GOOD


def _show_trace(
    screen: Screen,
    trial: PlanTrial,
    seed: int,
    simulation: Simulation | None,
    mismatch: Mismatch | None,
) -> None:
    screen.write(f"{trial.plan.name}, seed {seed}", style="bold")
    if simulation is not None:
        for line in simulation.trace:
            screen.write(line, indent=2, style="dim" if "emits" not in line else "")
        c = simulation.counts
        screen.write(
            f"{count_things(c.messages, 'message')}, {count_things(c.joins, 'join')}, "
            f"{count_things(c.snapshots, 'snapshot')}, {count_things(c.crashes, 'crash')} survived, "
            f"{count_things(c.duplicates, 'repeat')} dropped",
            indent=2,
        )
    if mismatch is None:
        screen.write("agrees with the sequential answer\n", indent=2, style="green")
    else:
        screen.write(f"disagrees with the sequential answer\n\n{mismatch.reason}\n", indent=2)


def _show(
    screen: Screen, material: TargetModule, tallies: list[Tally], files: tuple[str, ...]
) -> None:
    columns = (
        "plan", "answer", ">seeds", ">messages", ">joins", ">crashes", ">repeats", ">seeds/s",
    )  # fmt: skip
    rows = [
        (
            tally.plan,
            "same" if tally.mismatch is None else "DIFFERENT",
            f"{tally.seeds:,}",
            f"{tally.counts.messages:,}",
            f"{tally.counts.joins:,}",
            f"{tally.counts.crashes:,}",
            f"{tally.counts.duplicates:,}",
            f"{tally.seeds / tally.seconds:,.0f}" if tally.seconds else "",
        )
        for tally in tallies
    ]
    screen.show_table(columns, rows)
    if not material.plans:
        screen.print(
            "\nThe module has no `plans`; these are derived from the program's events and its layout."
        )
    bad = [tally for tally in tallies if tally.mismatch is not None]
    for tally in bad:
        assert tally.mismatch is not None
        screen.print(f"\n[bold red]{tally.plan}[/] disagrees at seed {tally.mismatch.seed}")
        screen.write(tally.mismatch.reason, indent=2)
        screen.write(f"\n  reproduce: {_replay_command(material, tally, files)}")
    if not bad:
        total = sum(tally.seeds for tally in tallies)
        screen.print(f"\n[green]{total:,} of {total:,} schedules give the sequential answer[/]")


def _replay_command(material: TargetModule, tally: Tally, files: tuple[str, ...]) -> str:
    assert tally.mismatch is not None
    words = ["anabranch", "simulate", material.target, "--plan", tally.plan]
    if (found := re.fullmatch(r"on Spark, (\d+) shards?", tally.plan)) is not None:
        words[-1:] = ["on Spark", "--shards", found[1]]
    words += [word for file in files for word in ("--input", file)]
    return shlex.join([*words, "--seed", str(tally.mismatch.seed)])


def _describe(
    material: TargetModule, tallies: list[Tally], files: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "program": material.program.name,
        "agree": not any(tally.mismatch for tally in tallies),
        "plans": list(_describe_plans(material, tallies, files)),
    }


def _describe_plans(
    material: TargetModule, tallies: list[Tally], files: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    for tally in tallies:
        mismatch = tally.mismatch and {
            **asdict(tally.mismatch),
            "replay": _replay_command(material, tally, files),
        }
        yield {
            "name": tally.plan,
            "seeds": tally.seeds,
            "seconds": round(tally.seconds, 3),
            **tally.counts._asdict(),
            "mismatch": mismatch,
        }
