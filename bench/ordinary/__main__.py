"""How fast are ordinary programs, compared with the textbook PySpark way?

Twenty-six programs as users write them, with timestamps, string keys, JSON, nulls and records as state, each beside what a
PySpark user would write, on the same files and with the same number of files per batch. Every answer is checked.
`make bench ARGS="ordinary --n 200000 --only sliding_counts"`.
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ordinary.cases import Case, find_difference
from bench.ordinary.contenders import CONTENDERS, Contender, Outcome, Place
from bench.ordinary.corpus import choose_cases
from bench.ordinary.inputs import draw, write_input

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "bench" / "results"
WARM_UP = 2_000
WIDTH = 15
"""Of a rate, and of the name of a contender above it."""


@dataclass(frozen=True)
class Trial:
    """One contender at one case: its rate in events per second, or what went wrong."""

    rate: float | None
    word: str = "right"
    path: str = ""
    reason: str = ""


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the options."""

    def split(text: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in text.split(",") if word.strip())

    parser = argparse.ArgumentParser(prog="make bench ARGS=ordinary", description=__doc__)
    parser.add_argument(
        "--n", type=int, default=200_000, help="events of each program (default 200000)"
    )
    parser.add_argument(
        "--files", type=int, default=4, help="number of files of each input (default 4)"
    )
    parser.add_argument(
        "--files-per-batch", type=int, default=1, help="files of each input in a batch (default 1)"
    )
    parser.add_argument(
        "--only", type=split, default=(), help="programs, by the start of their names (default all)"
    )
    parser.add_argument(
        "--contender", type=split, default=(), help="contenders, by their names (default all)"
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        help="number of runs of each; the best one counts (default 1)",
    )
    return parser.parse_args(arguments)


def choose_contenders(names: tuple[str, ...]) -> tuple[Contender, ...]:
    """Return the contenders with these names; all, if none is given."""
    known = [contender.name for contender in CONTENDERS]
    for name in names:
        if name not in known:
            raise ValueError(f"There is no contender '{name}'. Existing: {', '.join(known)}.")
    return tuple(contender for contender in CONTENDERS if not names or contender.name in names)


def run_case(
    spark: Any, case: Case, contenders: tuple[Contender, ...], options: argparse.Namespace, n: int
) -> dict[str, Trial]:
    """Write the input of a case once, and run every contender on it."""
    tables = draw(case, n)
    events = sum(len(rows) for rows in tables.values())
    expected = list(case.answer(tables))
    found: dict[str, Trial] = {}
    with tempfile.TemporaryDirectory(prefix="anabranch-ordinary-") as made:
        folder = Path(made) / "in"
        write_input(case, tables, folder, options.files)
        for contender in contenders:
            trials = []
            for number in range(options.repeat):
                scratch = Path(made) / f"{contender.name}-{number}"
                place = Place(spark, folder, scratch, options.files_per_batch)
                trials.append(try_contender(case, contender, place, expected, events))
            wrong = [trial for trial in trials if trial.rate is None]
            found[contender.name] = (wrong or sorted(trials, key=lambda t: -(t.rate or 0)))[0]
    return found


def try_contender(
    case: Case, contender: Contender, place: Place, expected: list[Any], events: int
) -> Trial:
    """Run a contender once and check its answer."""
    try:
        outcome: Outcome = contender.run(case, place)
    except Exception as error:  # noqa: BLE001 - the others go on
        first = next(iter(str(error).splitlines()), "")
        return Trial(None, f"failed: {type(error).__name__}: {first[:150]}")
    difference = find_difference(expected, case.choose(outcome.rows))
    if difference is not None:
        return Trial(None, f"wrong: {difference[:150]}", outcome.path, outcome.reason)
    return Trial(events / outcome.seconds, "right", outcome.path, outcome.reason)


def describe(case: Case, trials: dict[str, Trial], contenders: Sequence[Contender]) -> str:
    """Return the line of a case: the path, each rate, its ratio to the baseline, the reason.

    >>> from bench.ordinary.corpus import CASES
    >>> trials = {"anabranch-spark": Trial(50_000.0, path="row", reason="a list"), "pyspark": Trial(10_000.0)}
    >>> describe(CASES["outliers"], trials, [c for c in CONTENDERS if c.name in trials])
    'outliers              row               50,000   5.00x          10,000  a list'
    """
    ratios = compare(trials, contenders)
    cells = [f"{case.name:<21}", f"{next((t.path for t in trials.values() if t.path), '–'):<8}"]
    for contender in contenders:
        trial = trials[contender.name]
        rate = "–" if trial.rate is None else f"{trial.rate:,.0f}"
        cells.append(f"{rate:>{WIDTH}}")
        if not contender.is_baseline:
            ratio = ratios.get(contender.name)
            cells.append(f"{'–' if ratio is None else f'{ratio:.2f}x':>7}")
    words = [f"{name} {t.word}" for name, t in trials.items() if t.rate is None]
    reasons = dict.fromkeys(trial.reason for trial in trials.values() if trial.reason)
    return (" ".join(cells) + "  " + "; ".join([*words, *reasons])).rstrip()


def compare(trials: dict[str, Trial], contenders: Sequence[Contender]) -> dict[str, float]:
    """Return the ratio of each contender's rate to the baseline's, where both were right."""
    base = next((trials[c.name].rate for c in contenders if c.is_baseline), None)
    return {
        contender.name: rate / base
        for contender in contenders
        if base and not contender.is_baseline and (rate := trials[contender.name].rate)
    }


def name_heading(contenders: tuple[Contender, ...]) -> str:
    """Return the line above the table."""
    cells = [f"{'program':<21}", f"{'path':<8}"]
    for contender in contenders:
        cells.append(f"{contender.name:>{WIDTH}}")
        if not contender.is_baseline:
            cells.append(f"{'ratio':>7}")
    return " ".join(cells) + "  reason"


def start_spark() -> Any:
    """Start Spark with the settings that every contender shares; workers can import this folder."""
    from anabranch.spark import start_session

    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning"  # Of pandas, in Spark's own worker.
    logging.getLogger("anabranch").setLevel(logging.ERROR)  # The table has the reasons.
    return start_session(name="ordinary", ui=False, **{"spark.driver.memory": "4g"})


def main(arguments: list[str]) -> int:
    """Run every program of the corpus, print a line for each, and write JSON."""
    options = read_arguments(arguments)
    try:
        cases, contenders = choose_cases(options.only), choose_contenders(options.contender)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    spark = start_spark()
    # The first query of a session loads classes and starts workers, for whichever contender comes first.
    run_case(spark, cases[0], contenders, options, WARM_UP)
    print(
        f"{options.n:,} events, {options.files} files, {options.files_per_batch} a batch; events/s"
    )
    print(name_heading(contenders), flush=True)
    record: dict[str, Any] = {}
    for case in cases:
        trials = run_case(spark, case, contenders, options, options.n)
        print(describe(case, trials, contenders), flush=True)
        record[case.name] = {
            "title": case.title,
            "note": case.note,
            "ratios": compare(trials, contenders),
            "trials": {name: vars(trial) for name, trial in trials.items()},
        }
    for contender in contenders:
        ratios = [
            r["ratios"][contender.name] for r in record.values() if contender.name in r["ratios"]
        ]
        if ratios:
            slower = sum(ratio < 1 for ratio in ratios)
            print(
                f"{contender.title}: median {statistics.median(ratios):.2f}x, least {min(ratios):.2f}x, "
                f"{slower} of {len(ratios)} slower than PySpark"
            )
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"bench": "ordinary", **vars(options), "programs": record}, indent=2)
    (RESULTS / "ordinary.json").write_text(text + "\n", encoding="utf-8")
    return (
        0 if all(t["word"] == "right" for r in record.values() for t in r["trials"].values()) else 1
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
