"""Reports: tables of ratios, a JSON file with everything, and a plot."""

import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.roster import CONTENDERS, Contender
from bench.peers.trials import Trial
from bench.peers.workloads import Workload

COLORS = {"anabranch": "#0b7285", "limit": "#999999", "other": "#c2410c"}


def show_workload(
    console: Console,
    workload: Workload,
    trials: dict[str, Trial],
    contenders: tuple[Contender, ...],
) -> None:
    """Print one workload: rates, how many times as fast Anabranch is, and the share of the limit."""
    ours, limit = find_ours(trials), find_ranked(trials, "limit")
    table = Table(
        title=f"{workload.name}: {workload.title}, {workload.n:,} events", title_justify="left"
    )
    table.add_column("contender", no_wrap=True)
    for heading in (
        "steady/s", "total/s", "ours is,\nsteady", "ours is,\ntotal", "of the\nlimit",
        "first\nresult s", "peak\nMB", "others'\ncores",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state")
    table.add_column("answer")
    for contender in contenders:
        trial = trials.get(contender.name)
        if trial is None:
            continue
        ranked = trial if trial.has_rank else None
        table.add_row(
            contender.title,
            show_rate(trial.steady),
            show_rate(trial.total),
            show_ratio(ours and ours.steady, ranked and ranked.steady),
            show_ratio(ours and ours.total, ranked and ranked.total),
            show_share(ranked and ranked.steady, limit and limit.steady),
            show_number(trial.first_s, 1),
            show_number(trial.peak_mb, 0),
            show_number(trial.other_cores, 1),
            contender.keeps,
            trial.verdict if not trial.word else f"{trial.verdict}: {trial.word}",
        )
    console.print(table)


def find_ours(trials: dict[str, Trial]) -> Trial | None:
    """Return the trial that the others are compared with: the fused source, or else any frame."""
    return find_ranked(trials, "anabranch-fused") or find_ranked(trials, "anabranch")


def find_ranked(trials: dict[str, Trial], name: str) -> Trial | None:
    """Return a contender's trial, if its answer was right."""
    trial = trials.get(name)
    return trial if trial is not None and trial.has_rank else None


def show_rate(rate: float | None) -> str:
    """Return a rate in three digits.

    >>> show_rate(1_234_567.0), show_rate(987.0), show_rate(None)
    ('1.23M', '987', '–')
    """
    if rate is None:
        return "–"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.3g}{letter}" if rate < 1e9 else f"{rate / size:,.0f}{letter}"
    return f"{rate:.0f}"


def show_ratio(ours: float | None, other: float | None) -> str:
    """Return how many times as fast ours is.

    >>> show_ratio(300.0, 100.0), show_ratio(1.0, 8.0), show_ratio(None, 8.0)
    ('3.0x', '0.12x', '–')
    """
    if not ours or not other:
        return "–"
    ratio = ours / other
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x" if ratio >= 1 else f"{ratio:.2g}x"


def show_share(rate: float | None, limit: float | None) -> str:
    """Return a rate as a share of the limit.

    >>> show_share(5.0, 50.0), show_share(0.123, 50.0), show_share(None, 50.0)
    ('10%', '0.25%', '–')
    """
    if not rate or not limit:
        return "–"
    share = 100 * rate / limit
    return f"{share:.0f}%" if share >= 10 else f"{share:.2g}%"


def show_number(number: float | None, digits: int) -> str:
    """Return a number, or a dash."""
    return "–" if number is None else f"{number:,.{digits}f}"


def compare_all(trials: dict[str, dict[str, Trial]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the ratios of each workload: ours to each contender, and each to the limit."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for workload, row in trials.items():
        ours, limit = find_ours(row), find_ranked(row, "limit")
        for name, trial in row.items():
            if not trial.has_rank or not trial.steady or not trial.total:
                continue
            ratios = found.setdefault(workload, {}).setdefault(name, {})
            if ours is not None and ours.steady and ours.total:
                ratios["ours_steady"] = ours.steady / trial.steady
                ratios["ours_total"] = ours.total / trial.total
            if limit is not None and limit.steady:
                ratios["of_limit"] = trial.steady / limit.steady
    return found


def compare_windows(trials: dict[str, dict[str, Trial]]) -> dict[str, float]:
    """Return how many times as much a bid costs each contender where windows hop as where they tumble."""
    hop, tumbling = trials.get("w4", {}), trials.get("w4-tumbling", {})
    costs = {}
    for name in hop:
        slow, fast = find_ranked(hop, name), find_ranked(tumbling, name)
        if slow and fast and slow.steady and fast.steady:
            costs[name] = fast.steady / slow.steady
    return costs


def show_windows(console: Console, trials: dict[str, dict[str, Trial]]) -> None:
    """Print what hopping costs, if both kinds of windows were measured."""
    for name, cost in compare_windows(trials).items():
        console.print(f"  w4  {name}: a bid costs {cost:.2f} times as much as in w4-tumbling")


def compare_frames(trials: dict[str, dict[str, Trial]]) -> dict[str, float]:
    """Return, of each workload, how near a program on a plain frame comes to one that does nothing."""
    shares = {}
    for workload, row in trials.items():
        ours, nothing = find_ranked(row, "anabranch"), row.get("spark-nothing")
        if ours and ours.steady and nothing and nothing.verdict == "none" and nothing.steady:
            shares[workload] = ours.steady / nothing.steady
    return shares


def show_frames(console: Console, trials: dict[str, dict[str, Trial]]) -> None:
    """Print how near plain frames come to a `mapInArrow` that does nothing, if that was measured."""
    for workload, share in compare_frames(trials).items():
        console.print(
            f"  {workload}  any frame: {share:.2g}x the rate of a mapInArrow that does nothing"
        )


def write_json(
    file: Path, workloads: dict[str, Workload], trials: dict[str, dict[str, Trial]], **more: Any
) -> None:
    """Write everything that was measured."""
    record = {
        "bench": "peers",
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **more,
        "workloads": {name: workloads[name].title for name in trials},
        "ratios": compare_all(trials),
        "hop_cost": compare_windows(trials),
        "of_nothing": compare_frames(trials),
        "trials": [trial.describe() for row in trials.values() for trial in row.values()],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def draw(file: Path, workloads: dict[str, Workload], trials: dict[str, dict[str, Trial]]) -> None:
    """Draw the steady rates of all right answers, a chart for each workload, and the state's growth."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "anabranch"
    plain = [name for name in trials if not workloads[name].loaded]
    grown = [name for name in trials if workloads[name].loaded]
    charts = len(plain) + bool(grown)
    if not charts:
        return
    figure, axes = plt.subplots(1, charts, figsize=(5.2 * charts, 4.4), squeeze=False)
    for axis, name in zip(axes[0], plain, strict=False):
        _draw_bars(axis, workloads[name], trials[name])
    if grown:
        _draw_growth(axes[0][-1], workloads, {name: trials[name] for name in grown})
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def _draw_bars(axis: Any, workload: Workload, row: dict[str, Trial]) -> None:
    ranked = [c for c in CONTENDERS if (trial := row.get(c.name)) is not None and trial.has_rank]
    ranked.sort(key=lambda contender: row[contender.name].steady or 0)
    rates = [row[contender.name].steady or 0 for contender in ranked]
    bars = axis.barh([c.title for c in ranked], rates, color=[_find_color(c) for c in ranked])
    axis.bar_label(bars, [f" {show_rate(rate)}" for rate in rates], fontsize=7)
    axis.set(title=f"{workload.name}: {workload.title}", xlabel="events/s, steady")
    if rates and max(rates) > 100 * min(rates):
        # A bar's length means something only from a round number on.
        axis.set(xscale="log", xlim=(10 ** math.floor(math.log10(min(rates) / 2)), None))
    axis.margins(x=0.2)
    axis.tick_params(axis="y", labelsize=7)
    axis.grid(axis="x", alpha=0.3)


def _draw_growth(
    axis: Any, workloads: dict[str, Workload], rows: dict[str, dict[str, Trial]]
) -> None:
    for contender in CONTENDERS:
        points = [
            (workloads[name].keys, row[contender.name].steady)
            for name, row in rows.items()
            if contender.name in row and row[contender.name].has_rank
        ]
        if points:
            line = "o-" if contender.is_ours else "o:" if contender.is_limit else "o--"
            axis.plot(*zip(*points, strict=True), line, markersize=3, label=contender.title)
    axis.set(
        title="w6: state growth", xlabel="keys in state", ylabel="events/s, steady",
        xscale="log", yscale="log",
    )  # fmt: skip
    axis.legend(fontsize=6, frameon=False)
    axis.grid(alpha=0.3)


def _find_color(contender: Contender) -> str:
    return COLORS["anabranch" if contender.is_ours else "limit" if contender.is_limit else "other"]
