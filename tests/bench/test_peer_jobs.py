"""Every job of Anabranch in `bench peers` starts, and gives the answer that its trials are checked against."""

import json
import sys

import numpy as np
import pytest

from bench.peers.answers import compute_answer, find_difference
from bench.peers.inputs import prepare_input
from bench.peers.trials import JOBS
from bench.peers.workloads import list_workloads

SMALL = {n: w for n, w in list_workloads(400, 1, growth=(100,)).items() if n != "w6-100"}


@pytest.fixture
def job(monkeypatch):
    monkeypatch.syspath_prepend(str(JOBS))
    import anabranch_job

    yield anabranch_job
    for name in ("anabranch_job", "batches", "protocol"):
        sys.modules.pop(name, None)


@pytest.mark.spark
@pytest.mark.parametrize("how", ["fused", "frame"])
@pytest.mark.parametrize("name", SMALL)
def test_a_job_gives_the_right_answer_in_both_forms(spark, job, tmp_path, name, how):
    workload = SMALL[name]
    folder = prepare_input(tmp_path, workload, set())
    manifest = json.loads((folder / "manifest.json").read_text())
    task = job.Task(how, folder, tmp_path / "answer.npz", tmp_path, manifest)
    result = job.FORMS[how](spark, task)
    job.write_directory(
        result, output=tmp_path / "emitted", checkpoint=tmp_path / "c", available_now=True
    ).awaitTermination()
    job.keep_outputs(spark, task)
    with np.load(task.answer) as kept:
        assert find_difference(workload.kind, compute_answer(workload), dict(kept)) is None
