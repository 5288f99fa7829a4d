"""How does throughput grow with the number of nodes, for our plan and for a key-by plan?

Simulated with a clock, with the published cost of an event, as in the figures of the paper on
dependency-guided synchronization: each node has its own channel, so a perfect plan does twice the work
with twice the nodes. Window: a barrier per key and many keys. Page view: two hot pages. Fraud: one rule
for all. `python -m bench.scaling` also draws docs/images/scaling.svg.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from anabranch import Event, Program, depends, on, take
from anabranch.eventtime.channels import end_channels
from anabranch.model.events import Item
from anabranch.plan.optimizers.best import plan_best
from anabranch.plan.optimizers.keyed import plan_by_key
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.reference.simulator import rehearse
from anabranch.reference.timing import FLUMINA, Timing, time_run
from anabranch.state import MapOf, Replicated, Sum

WORKERS = (1, 2, 4, 8, 16, 32)
PER_MARKER = 1_000
"""Number of values of one channel between two markers: a tenth of the paper's, since Python is slower."""

MARKERS = 4
PER_SECOND = 0.65 / FLUMINA.seconds_per_event
"""Rate of a channel: as much as one node can process; with more, the planner would give it two nodes."""

CHART = Path(__file__).resolve().parent.parent / "docs" / "images" / "scaling.svg"


class Value(NamedTuple):
    time: int
    key: int
    amount: int


class Marker(NamedTuple):
    time: int
    key: int


class Totals(NamedTuple):
    previous: int
    current: int


window = Program(
    on(Value, update=lambda s, e: s + e.amount),
    on(Marker, output=lambda s, e: (e.key, s), update=lambda s, e: 0),
    depends(Marker, Value, Marker, same="key"),
    state=MapOf(Sum(), by="key"),
    name="window",
)
page_view = Program(
    on(Value, output=lambda s, e: (e.key, s) if e.amount % 1000 == 0 else None),
    on(Marker, update=lambda s, e: e.time, output=lambda s, e: (e.key, s)),
    depends(Marker, Value, Marker, same="key"),
    state=MapOf(Replicated(0), by="key"),
    name="page view",
)
fraud = Program(
    on(
        Value,
        output=lambda s, e: e.amount if s.previous % 1000 == e.amount % 1000 else None,
        update=lambda s, e: Totals(s.previous, s.current + e.amount),
    ),
    on(Marker, output=lambda s, e: s.current, update=lambda s, e: Totals(s.current, 0)),
    depends(Marker, Value, Marker),
    init=Totals(0, 0),
    fork=lambda s, left, right: (s, Totals(s.previous, 0)),
    join=lambda a, b: Totals(a.previous, a.current + b.current),
    name="fraud",
)
KEYS: dict[str, Callable[[int], int]] = {
    "window": lambda channel: channel,
    "page view": lambda channel: channel % 2,
    "fraud": lambda channel: 0,
}


def make_input(program: Program, workers: int) -> tuple[list[Item], Rates]:
    """Return the events of `workers` channels, and their rates."""
    key_of = KEYS[program.name]
    items: list[Item] = []
    loads: list[Load] = []
    span = PER_MARKER * MARKERS
    for channel in range(workers):
        name, key = f"s{channel}", key_of(channel)
        items += [Event(Value(t, key, t + channel), name, t) for t in range(1, span)]
        loads.append(Load(take(Value, key=key, channel=name), PER_SECOND, name))
    for key in sorted({key_of(channel) for channel in range(workers)}):
        name = f"m{key}"
        times = range(PER_MARKER, span + 1, PER_MARKER)
        items += [Event(Marker(t, key), name, t) for t in times]
        loads.append(Load(take(Marker, key=key, channel=name), PER_SECOND / PER_MARKER, "s0"))
    return end_channels(items), Rates(loads)


def scale(program: Program, workers: int, *, keyed: bool) -> Timing:
    """Time one program with one number of nodes."""
    items, rates = make_input(program, workers)
    plan = plan_by_key(program, rates) if keyed else plan_best(program, rates, (), FLUMINA)
    places = {f"m{key}": "s0" for key in range(workers)}
    return time_run(rehearse(program, plan, items), places)


def measure_all() -> dict[tuple[str, str, int], Timing]:
    """Time every program with both plans and every number of nodes."""
    return {
        (program.name, name, workers): scale(program, workers, keyed=name == "key-by")
        for program in (window, page_view, fraud)
        for name in ("anabranch", "key-by")
        for workers in WORKERS
    }


def measure() -> dict[str, float]:
    """Return events per second for each program, plan and number of nodes."""
    return {
        f"{program}, {plan}, {workers} nodes": timing.throughput
        for (program, plan, workers), timing in measure_all().items()
    }


def draw(timings: dict[tuple[str, str, int], Timing]) -> None:
    """Draw the speed-ups side by side."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "anabranch"
    figure, charts = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
    for chart, program in zip(charts, (window, page_view, fraud), strict=True):
        base = timings[program.name, "anabranch", 1].throughput
        chart.plot(WORKERS, WORKERS, ":", color="#999999", label="linear")
        for plan, color in (("anabranch", "#0b7285"), ("key-by", "#c2410c")):
            ratios = [timings[program.name, plan, n].throughput / base for n in WORKERS]
            chart.plot(WORKERS, ratios, "o-", color=color, label=plan)
        chart.set(title=program.name, xlabel="workers", xscale="log", yscale="log")
        chart.set_xticks(WORKERS, [str(n) for n in WORKERS])
        chart.set_yticks(WORKERS, [f"{n}x" for n in WORKERS])
        chart.minorticks_off()
        chart.grid(alpha=0.3)
    charts[0].set_ylabel("throughput relative to one node")
    charts[0].legend(frameon=False)
    figure.tight_layout()
    CHART.parent.mkdir(exist_ok=True)
    figure.savefig(CHART, metadata={"Date": None})


def main() -> None:
    """Print the table for the docs and draw the chart."""
    timings = measure_all()
    print("| program | plan | " + " | ".join(f"{n}" for n in WORKERS) + " | network at 32 |")
    print("|---|---|" + "---|" * (len(WORKERS) + 1))
    for program in (window, page_view, fraud):
        base = timings[program.name, "anabranch", 1].throughput
        for plan in ("anabranch", "key-by"):
            row = [timings[program.name, plan, n] for n in WORKERS]
            cells = [f"{timing.throughput / base:.1f}x" for timing in row]
            share = row[-1].network_bytes / row[-1].events
            print(f"| {program.name} | {plan} | {' | '.join(cells)} | {share:.2f} B/event |")
    draw(timings)


if __name__ == "__main__":
    main()
