"""Trials: one contender at one workload, run alone, its answer checked."""

import json
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.peers.answers import find_answer, find_difference
from bench.peers.environments import UnavailableError, find_python, make_variables
from bench.peers.inputs import prepare_input
from bench.peers.processes import Watched, watch
from bench.peers.roster import Contender
from bench.peers.workloads import Workload

Verdict = Literal["right", "wrong", "cut off", "failed", "skipped", "none"]
ROOT = Path(__file__).resolve().parent.parent.parent
_ERROR = re.compile(r"(?:Caused by: )?(?:(?:[a-z_]\w*\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception)): \S")
_WRAPPER = re.compile(r"Py4J|PythonException|StreamingQueryException|ForeachBatchUserFunc|SQLSTATE")
JOBS = Path(__file__).resolve().parent / "jobs"


@dataclass(frozen=True)
class Trial:
    """The result of a trial. Rates are events per second; only a right answer is ranked."""

    workload: str
    contender: str
    verdict: Verdict
    word: str = ""
    steady: float | None = None
    total: float | None = None
    ready_s: float | None = None
    first_s: float | None = None
    peak_mb: float | None = None
    cpu_s: float | None = None
    other_cores: float | None = None
    figures: dict[str, Any] | None = None

    @property
    def has_rank(self) -> bool:
        """Return whether the trial may be compared with others."""
        return self.verdict == "right"

    def describe(self) -> dict[str, Any]:
        """Return the trial as plain data."""
        return asdict(self)


def run_trial(cache: Path, workload: Workload, contender: Contender, cap_s: float) -> Trial:
    """Run a contender on a workload's input, in a scratch folder that is removed afterwards."""
    trial = Trial(workload.name, contender.name, "skipped")
    if workload.kind in contender.refused:
        return replace(trial, word=contender.refused[workload.kind])
    try:
        python = find_python(cache, contender.environment)
    except UnavailableError as error:
        return replace(trial, word=str(error))
    folder = prepare_input(cache, workload, {contender.form})
    warm_up(folder / contender.form)
    logs = cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        answer = scratch / "answer.npz"
        command = [str(python), str(JOBS / contender.script), contender.how]
        command += [str(folder), str(answer), str(scratch / "work")]
        (scratch / "work").mkdir()
        variables = make_variables(contender.environment, JOBS, ROOT)
        log = logs / f"{workload.name}-{contender.name}.log"
        watched = watch(command, variables, cap_s, log)
        judged = judge(trial, watched, workload, answer, cache, cap_s)
        if contender.has_answer or judged.verdict != "failed" or watched.code:
            return judged
        return replace(judged, verdict="none", word="")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def warm_up(folder: Path) -> None:
    """Read an input once, so that no run waits for the disk where the next finds it in memory."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with file.open("rb") as source:
                while source.read(1 << 24):
                    pass


def judge(
    trial: Trial, watched: Watched, workload: Workload, answer: Path, cache: Path, cap_s: float
) -> Trial:
    """Read the figures of a run and check its answer."""
    trial = replace(
        trial,
        peak_mb=watched.peak_mb,
        cpu_s=watched.cpu_s,
        other_cores=watched.other_cores,
    )
    if watched.lines:
        trial = read_figures(trial, watched.lines[-1])
    if watched.is_cut_off:
        return replace(trial, verdict="cut off", word=f"not done after {cap_s:.0f} s")
    skipped = [line for line in watched.log.splitlines() if line.startswith("skip: ")]
    if skipped:
        return replace(trial, word=skipped[-1].removeprefix("skip: "))
    if watched.code or not answer.exists():
        return replace(trial, verdict="failed", word=find_cause(watched.log))
    with np.load(answer) as kept:
        difference = find_difference(workload.kind, find_answer(cache, workload), dict(kept))
    if difference is not None:
        return replace(trial, verdict="wrong", word=difference)
    return replace(trial, verdict="right")


def read_figures(trial: Trial, line: str) -> Trial:
    """Read the line of a job. What has no warm-up is as fast steadily as in all."""
    kind, _, text = line.partition(" ")
    figures = json.loads(text)
    total = figures["events"] / figures["total_s"] if kind == "result" else None
    steady = total
    if figures["steady_s"]:
        steady = figures["steady_events"] / figures["steady_s"]
    return replace(
        trial,
        steady=steady,
        total=total,
        ready_s=figures["ready_s"],
        first_s=figures["first_s"],
        figures=figures,
    )


def find_cause(log: str) -> str:
    """Return the line of a failed run that explains most: the last error that does not wrap another."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    named = [
        line.removeprefix("Caused by: ")
        for line in lines
        if _ERROR.match(line) and not line.endswith(":") and not _WRAPPER.search(line)
    ]
    return (named or lines or ["its log is empty"])[-1][:200]


def take_best(trials: list[Trial]) -> Trial:
    """Return the fastest of several trials; one that went wrong outweighs them all."""
    wrong = [trial for trial in trials if not trial.has_rank]
    if wrong:
        return wrong[0]
    return max(trials, key=lambda trial: trial.steady or 0.0)
