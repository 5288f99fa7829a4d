"""How fast is Anabranch compared with Spark alone, Flink, Bytewax, Pathway, a plain loop and the limit?

Every contender runs alone, in its own process and environment, on the same input, and its answer is
checked: a wrong answer is not ranked. `make bench ARGS="peers --n 1000000 --workload w1,w2"`.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.peers.processes import stop_cleanly
from bench.peers.reports import draw, show_frames, show_windows, show_workload, write_json
from bench.peers.roster import Contender, choose_contenders
from bench.peers.trials import Trial, run_trial, take_best
from bench.peers.workloads import GROWTH, Workload, list_workloads

RESULTS = Path(__file__).resolve().parent.parent / "results"
WIDTH = 190
"""Of the tables, where the terminal does not say: a log must not fold them."""


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the options."""

    def split(text: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in text.split(",") if word.strip())

    parser = argparse.ArgumentParser(prog="make bench ARGS=peers", description=__doc__)
    parser.add_argument(
        "--n",
        type=int,
        default=8_000_000,
        help="number of events of each workload (default 8000000)",
    )
    parser.add_argument(
        "--slices",
        type=int,
        default=8,
        help="number of files and micro-batches of a channel (default 8)",
    )
    parser.add_argument(
        "--workload", type=split, default=(), help="workloads: w1,w2,…,w6 (default all)"
    )
    parser.add_argument(
        "--only",
        type=split,
        default=(),
        help="contenders, by the start of their names (default all)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        help="number of runs of each; the best one counts (default 1)",
    )
    parser.add_argument(
        "--cap", type=float, default=300, help="maximum duration of a run, in seconds (default 300)"
    )
    parser.add_argument(
        "--growth",
        type=split,
        default=GROWTH,
        help="numbers of keys in state for w6, e.g. 1000,100000",
    )
    parser.add_argument("--cache", type=Path, default=RESULTS / "cache")
    return parser.parse_args(arguments)


def choose_workloads(options: argparse.Namespace) -> dict[str, Workload]:
    """Return the chosen workloads; w4 and w6 mean all whose names start with them."""
    growth = tuple(int(keys) for keys in options.growth)
    found = list_workloads(options.n, options.slices, growth)
    wanted: tuple[str, ...] = options.workload
    for word in wanted:
        if not any(word in (name, name.partition("-")[0]) for name in found):
            raise ValueError(f"There is no workload '{word}'. Existing: {', '.join(found)}.")
    return {
        name: workload
        for name, workload in found.items()
        if not wanted or {name, name.partition("-")[0]} & set(wanted)
    }


def run_contender(
    options: argparse.Namespace, workload: Workload, contender: Contender, before: list[Trial]
) -> Trial:
    """Run a contender `--repeat` times; skip one that was cut off with a smaller state."""
    if workload.loaded and any(trial.verdict == "cut off" for trial in before):
        return Trial(workload.name, contender.name, "skipped", "cut off with fewer keys already")
    trials = []
    for _ in range(options.repeat):
        trials.append(run_trial(options.cache, workload, contender, options.cap))
        if not trials[-1].has_rank:
            break
    return take_best(trials)


def main(arguments: list[str]) -> int:
    """Run every contender on every workload, print the tables, write JSON and a plot."""
    options = read_arguments(arguments)
    options.cache = options.cache.resolve()
    try:
        contenders, workloads = choose_contenders(options.only), choose_workloads(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    stop_cleanly()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    trials: dict[str, dict[str, Trial]] = {}
    for name, workload in workloads.items():
        row = trials.setdefault(name, {})
        for contender in contenders:
            before = [
                other[contender.name]
                for size, other in trials.items()
                if workloads[size].loaded and contender.name in other
            ]
            trial = run_contender(options, workload, contender, before)
            row[contender.name] = trial
            console.print(f"  {name}  {contender.title}: {trial.verdict} {trial.word}", style="dim")
            # Write after each run, so that an interrupted bench keeps its results.
            write_json(
                RESULTS / "peers.json", workloads, trials,
                n=options.n, slices=options.slices, repeat=options.repeat, cap_s=options.cap,
            )  # fmt: skip
        show_workload(console, workload, row, contenders)
    show_windows(console, trials)
    show_frames(console, trials)
    draw(RESULTS / "peers.svg", workloads, trials)
    print(f"Written: {RESULTS / 'peers.json'} and peers.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
