"""Restarts from the prefixes of what a run makes durable: as if it had crashed right there.

A run is finished once. A prefix is a copy of it without the effects that come after some point, so
no timing is needed to hit that point. By default a choice of them is restarted, in which each kind
of effect is the last one at least once; ANABRANCH_PREFIXES=all restarts every one.
"""

import os
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from anabranch.spark.checkpoint.file_manifest import MANIFEST
from tests.faults.inputs import LongStory, check_answer, published, start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BATCHES = 3
SEED = 4
# A stateful operator's number. Spark counts from the sink: the root is before the leaves.
OPERATORS = {"key_counter": (0,), "value_barrier": (1, 0)}
PARTITIONS = 2
CHOICE = [
    ("key_counter", "1", "1 source log"),
    ("key_counter", "1", "1 draft"),
    ("key_counter", "1", "1 published"),
    ("key_counter", "1", "1 noted"),
    ("key_counter", "1", "2 offsets"),
    ("key_counter", "1", "2 commit without checksum"),
    ("value_barrier", "2", "0 state schema"),
    ("value_barrier", "2", "1 offsets without checksum"),
    ("value_barrier", "2", "1 state 1/1"),
    ("value_barrier", "2", "1 published"),
]


def effects(name: str) -> list[str]:
    """Return the durable effects of a run in the order in which they happen."""
    found = []
    for batch in range(BATCHES):
        kinds = ["source log", "offsets without checksum", "offsets"]
        kinds += ["state schema"] if batch == 0 else []
        kinds += [f"state {op}/{part}" for op in OPERATORS[name] for part in range(PARTITIONS)]
        kinds += ["draft", "published", "noted", "commit without checksum", "commit"]
        found += [f"{batch} {kind}" for kind in kinds]
    return found


def name_effect(path: str) -> str | None:
    """Return the effect that a file of a finished run belongs to; None: it is there from the start."""
    logs = {"sources/0": "source log", "offsets": "offsets", "commits": "commit"}
    if found := re.fullmatch(r"checkpoint/(sources/0|offsets|commits)/(\.?)(\d+)(\.crc)?", path):
        # What is told apart is whether the file was followed by its checksum.
        kind = logs[found[1]] + (
            " without checksum" if not found[2] and found[1][0] in "oc" else ""
        )
        return f"{found[3]} {kind}"
    if re.match(r"checkpoint/state/\d+/_(stateSchema|metadata)/", path):
        return "0 state schema"
    if found := re.match(r"checkpoint/state/(\d+/\d+)/\.?(\d+)(_[0-9a-f-]+)?\.", path):
        return f"{int(found[2]) - 1} state {found[1]}"
    if found := re.match(r"checkpoint/state/(\d+/\d+)/SSTs/", path):
        # Only the first version is written with files of its own; later ones are lists of changes.
        return f"0 state {found[1]}"
    if found := re.match(r"out/batch=(\d+)/", path):
        return f"{found[1]} published"
    # The manifest grows with each batch, and is cut line by line.
    first = r"checkpoint/(\.?metadata(\.crc)?|_lock|_made_by\.json|_pair\.json|_manifest\.jsonl)|out/_pair\.json"
    assert re.fullmatch(first, path), f"nobody knows {path}"
    return None


class Finished(NamedTuple):
    """A run that has come to its end."""

    story: LongStory
    home: Path
    spark: object


@pytest.fixture(scope="module")
def finish(spark, tmp_path_factory):
    """Run a story once per format of the state's checkpoint."""
    runs: dict[tuple[str, str], Finished] = {}

    def run_once(name: str, version: str) -> Finished:
        if (name, version) not in runs:
            session = spark.newSession()
            for setting, value in {
                "spark.sql.streaming.stateStore.checkpointFormatVersion": version,
                "spark.sql.shuffle.partitions": str(PARTITIONS),
            }.items():
                session.conf.set(setting, value)
            home = tmp_path_factory.mktemp(f"{name}-{version}")
            story = LongStory(name, 60, SEED)
            story.write(home / "in", story.slices(BATCHES))
            start(session, story, home, home / "checkpoint", home / "out").awaitTermination()
            assert published(home / "out") == list(range(BATCHES))
            check_answer(session, story, home / "out")
            runs[name, version] = Finished(story, home, session)
        return runs[name, version]

    return run_once


def files_of(home: Path) -> list[str]:
    paths = [path for part in ("checkpoint", "out") for path in (home / part).rglob("*")]
    return sorted(str(path.relative_to(home)) for path in paths if path.is_file())


def cut_after(run: Finished, order: list[str], last: str, target: Path) -> None:
    """Copy a finished run without what happened after an effect."""
    kept = order[: order.index(last) + 1]
    for path in files_of(run.home):
        effect = name_effect(path)
        if effect is None or effect in kept:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(run.home / path, target / path)
    manifest = target / "checkpoint" / MANIFEST
    lines = manifest.read_text().splitlines(keepends=True)
    # The first is there before the first batch, and the last is written when the query has ended.
    manifest.write_text("".join(lines[: 1 + sum(effect.endswith("noted") for effect in kept)]))
    batch, _, kind = last.partition(" ")
    if kind == "draft":
        leave_half_a_draft(run.home / "out" / f"batch={batch}", target / "out" / f".batch={batch}")


def leave_half_a_draft(whole: Path, draft: Path) -> None:
    """Leave what a writer does that was killed: cut files, and no mark that it is complete."""
    rows = [path for path in whole.rglob("*.parquet") if not path.name.startswith(".")]
    assert rows
    for path in rows:
        half = draft / path.relative_to(whole)
        half.parent.mkdir(parents=True, exist_ok=True)
        half.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def chosen() -> list:
    everything = [
        (name, version, effect)
        for name in OPERATORS
        for version in ("1", "2")
        for effect in effects(name)
    ]
    assert set(CHOICE) <= set(everything)
    kinds = {re.sub(r"^\d | \d/\d$", "", effect) for _, _, effect in everything}
    covered = {re.sub(r"^\d | \d/\d$", "", effect) for _, _, effect in CHOICE}
    # A complete commit of the last batch is the finished run.
    assert kinds - covered == {"commit"}
    wanted = everything if os.environ.get("ANABRANCH_PREFIXES") == "all" else CHOICE
    return [pytest.param(*case, id="-".join(case).replace(" ", "_")) for case in wanted]


@pytest.mark.parametrize(("name", "version", "last"), chosen())
def test_a_restart_after_any_durable_effect_gives_the_same_answer(
    finish, tmp_path, name, version, last
):
    run = finish(name, version)
    order = effects(name)
    assert {name_effect(path) for path in files_of(run.home)} - {None} == {
        effect for effect in order if not effect.endswith(("draft", "noted"))
    }
    cut_after(run, order, last, tmp_path)
    batch, _, kind = last.partition(" ")
    batch = int(batch)
    before = stamps(tmp_path / "out")
    done = kind.startswith(("published", "noted", "commit"))
    assert published(tmp_path / "out") == list(range(batch + done))

    query = start(run.spark, run.story, run.home, tmp_path / "checkpoint", tmp_path / "out")
    query.awaitTermination()

    check_answer(run.spark, run.story, tmp_path / "out")
    ran = [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]
    if kind.startswith("commit"):
        assert batch not in ran
    else:
        # The batch that was cut off ran again; if it had been published, its rows were dropped.
        assert ran[0] == batch
    assert before.items() <= stamps(tmp_path / "out").items()
    assert not list((tmp_path / "out").glob(".batch=*"))


def stamps(out: Path) -> dict[str, int]:
    """Return when each published file was written: what is published is never written again."""
    return {
        str(path.relative_to(out)): path.stat().st_mtime_ns
        for path in out.glob("batch=*/**/*")
        if path.is_file()
    }


@pytest.mark.parametrize(("name", "version"), [("key_counter", "1"), ("value_barrier", "2")])
def test_effects_happen_in_the_order_that_the_prefixes_are_cut_in(finish, name, version):
    run = finish(name, version)
    written: dict[str, list[int]] = {}
    for path in files_of(run.home):
        # Partitions run side by side; a checksum follows its file.
        effect = re.sub(
            r"/\d$", "", (name_effect(path) or "metadata").removesuffix(" without checksum")
        )
        # One partition's rows lie in the draft while another still commits its state: what is published
        # last is the ledger, by the driver.
        if not path.endswith((".crc", MANIFEST)) and "/part-" not in path:
            written.setdefault(effect, []).append((run.home / path).stat().st_mtime_ns)
    order = dict.fromkeys(
        re.sub(r"/\d$", "", effect.removesuffix(" without checksum")) for effect in effects(name)
    )
    steps = ["metadata", *(step for step in order if not step.endswith(("draft", "noted")))]
    for earlier, later in pairwise(steps):
        assert max(written[earlier]) < min(written[later]), f"{later} before {earlier}"
