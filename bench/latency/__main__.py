"""What is the latency of a barrier's output, at 10,000 values per second?

Values of two channels and a barrier per 1,000 of them, over TCP, after 12 seconds to warm up. Every
answer is checked. `make bench ARGS="latency --rate 10000 --only anabranch,bytewax"`.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.environments import (
    BYTEWAX,
    FLINK,
    OWN,
    PYTHON,
    Environment,
    UnavailableError,
    find_python,
    make_variables,
)
from bench.peers.processes import stop_cleanly, watch
from bench.peers.trials import find_cause

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
RESULTS = ROOT / "bench" / "results"


@dataclass(frozen=True)
class Contender:
    """One engine in one form, and where its clock is read."""

    name: str
    title: str
    environment: Environment
    script: str
    how: str
    clock: str


CONTENDERS = (
    Contender("anabranch", "Anabranch, any frame", OWN, "spark_job.py", "anabranch", "foreachBatch"),
    Contender("spark-tws", "Spark, transformWithStateInPandas", OWN, "spark_job.py", "tws", "foreachBatch"),
    Contender("pyflink", "PyFlink", FLINK, "flink_job.py", "python", "in the timer"),
    Contender("pyflink-tuned", "PyFlink, tuned", FLINK, "flink_job.py", "python-tuned", "in the timer"),
    Contender("flink-sql", "Flink SQL", FLINK, "flink_job.py", "sql", "in the last projection"),
    Contender("flink-sql-tuned", "Flink SQL, tuned", FLINK, "flink_job.py", "sql-tuned", "in the last projection"),
    Contender("bytewax", "Bytewax, 1 worker", BYTEWAX, "bytewax_job.py", "event", "sink"),
    Contender("python", "Plain Python loop", PYTHON, "loop_job.py", "loop", "in the loop"),
)  # fmt: skip


@dataclass(frozen=True)
class Latency:
    """What came of a run, in milliseconds; nothing but a word where it went wrong."""

    contender: str
    word: str
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    answered: int = 0
    peak_mb: float | None = None
    other_cores: float | None = None


def find_percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least a share of all do not exceed.

    >>> find_percentile([1.0, 2.0, 3.0, 4.0], 0.5), find_percentile([1.0, 2.0], 0.99)
    (2.0, 2.0)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def compare(record: dict[str, dict[str, float]], emitted: list[list[float]]) -> list[float] | str:
    """Return the latencies of all barriers that were timed, or what is wrong with the answer."""
    totals = {int(when): total for when, total in record["totals"].items()}
    answers = {int(when): total for when, total, _ in emitted}
    moments = {int(when): moment for when, _, moment in emitted}
    made = {int(when): moment for when, moment in record["made"].items()}
    wrong = [when for when, total in answers.items() if totals.get(when) != total]
    if wrong:
        return f"wrong: {len(wrong)} of {len(answers)} totals"
    # Of the last barrier some channels never tell that they have gone past it.
    missing = [when for when in made if when not in moments and when != max(made)]
    if missing:
        return f"wrong: {len(missing)} of {len(made)} barriers have no answer"
    return [1000 * (moments[when] - made[when]) for when in made if when in moments]


def run_contender(options: argparse.Namespace, contender: Contender) -> Latency:
    """Start the producer, then the reader; compare when both have ended."""
    try:
        python = find_python(options.cache, contender.environment)
    except UnavailableError as error:
        return Latency(contender.name, f"skipped: {error}")
    scratch = Path(tempfile.mkdtemp(prefix="anabranch-latency-"))
    ended, answer = scratch / "ended.json", scratch / "answer.json"
    (scratch / "work").mkdir()
    command = [sys.executable, "-m", "bench.latency.producer", str(ended)]
    command += [str(options.rate), str(options.seconds), str(options.warm)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as producer:
        try:
            assert producer.stdout is not None
            ports = producer.stdout.readline().strip()
            jobs = FOLDER / "jobs"
            variables = make_variables(contender.environment, jobs, ROOT)
            variables["PYTHONPATH"] += f":{ROOT / 'bench' / 'peers' / 'jobs'}"
            job = [str(python), str(jobs / contender.script), contender.how, ports]
            job += [str(ended), str(answer), str(scratch / "work")]
            logs = options.cache / "logs"
            logs.mkdir(parents=True, exist_ok=True)
            log = logs / f"latency-{contender.name}.log"
            watched = watch(job, variables, options.seconds + options.warm + options.grace, log)
            if watched.is_cut_off:
                return Latency(contender.name, "cut off: it did not end")
            if not answer.exists():
                return Latency(contender.name, f"failed: {find_cause(watched.log)}")
            record = json.loads(ended.read_text(encoding="utf-8"))
            found = compare(record, json.loads(answer.read_text(encoding="utf-8")))
        finally:
            producer.kill()
            shutil.rmtree(scratch, ignore_errors=True)
    if isinstance(found, str):
        return Latency(contender.name, found)
    return Latency(
        contender.name,
        "right",
        round(find_percentile(found, 0.5), 1),
        round(find_percentile(found, 0.99), 1),
        round(max(found), 1),
        len(found),
        watched.peak_mb,
        watched.other_cores,
    )


def show(console: Console, latencies: list[Latency], rate: int) -> None:
    """Print the table."""
    ours = next((one.p50_ms for one in latencies if one.contender == "anabranch"), None)
    table = Table(title=f"latency at {rate:,} values/s, ms", title_justify="left")
    for heading in ("contender", "p50", "p99", "max", "ours is, p50", "barriers", "others' cores", "clock", "answer"):  # fmt: skip
        table.add_column(
            heading, justify="left" if heading in ("contender", "clock", "answer") else "right"
        )
    titles = {contender.name: contender for contender in CONTENDERS}
    for one in latencies:
        ratio = f"{ours / one.p50_ms:.2g}x" if ours and one.p50_ms else "–"
        numbers = ["–" if n is None else str(n) for n in (one.p50_ms, one.p99_ms, one.max_ms)]
        contender = titles[one.contender]
        table.add_row(
            contender.title, *numbers, ratio, str(one.answered),
            "–" if one.other_cores is None else str(one.other_cores), contender.clock, one.word,
        )  # fmt: skip
    console.print(table)


def main(arguments: list[str]) -> int:
    """Run every contender, one after the other, print the table and write JSON."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=latency", description=__doc__)
    parser.add_argument(
        "--rate", type=int, default=10_000, help="values per second (default 10000)"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=20,
        help="duration of the measurement, in seconds (default 20)",
    )
    parser.add_argument(
        "--warm", type=int, default=12, help="warm-up before it, in seconds (default 12)"
    )
    parser.add_argument(
        "--grace",
        type=int,
        default=90,
        help="additional time to start and to end, in seconds (default 90)",
    )
    parser.add_argument(
        "--only", default="", help="contenders, by the start of their names (default all)"
    )
    parser.add_argument("--cache", type=Path, default=RESULTS / "cache")
    options = parser.parse_args(arguments)
    options.cache = options.cache.resolve()
    words = tuple(word for word in options.only.split(",") if word)
    chosen = [c for c in CONTENDERS if not words or c.name.startswith(words)]
    if not chosen:
        known = ", ".join(contender.name for contender in CONTENDERS)
        print(f"There is no contender '{options.only}'. Existing: {known}.", file=sys.stderr)
        return 2
    stop_cleanly()
    latencies = [run_contender(options, contender) for contender in chosen]
    show(Console(width=None if sys.stdout.isatty() else 160), latencies, options.rate)
    RESULTS.mkdir(exist_ok=True)
    record = {
        "bench": "latency",
        "rate": options.rate,
        "latencies": [asdict(one) for one in latencies],
    }
    (RESULTS / "latency.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
