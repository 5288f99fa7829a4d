"""Every file of a checkpoint deleted, cut and changed, one at a time: the same answer or a named error.

A run is stopped before its last batch. Of each case the manifest decides first, without Spark; what it lets
pass is restarted. By default a choice is; ANABRANCH_CORRUPTIONS=all restarts every one, of every program,
and prints the counts.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from anabranch.errors import AnabranchError
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.checkpoint.integrity import DamagedCheckpointError, inspect_checkpoint
from tests.faults.damages import DAMAGES, delete, flip_last, flip_middle
from tests.faults.inputs import LongStory, check_answer, published, start
from tests.microbatch.streams import outputs_of, read_published

ALL = os.environ.get("ANABRANCH_CORRUPTIONS") == "all"
PATIENCE_S = 120
BUSY = "the machine is too busy to start a worker"
BATCHES = 3
PROGRAMS = {
    "forked": ("value_barrier", True),
    "columns": ("key_counter", True),
    "objects": ("key_counter", False),
}
CHOICE = [
    ("state/0/0/2.changelog", flip_middle),
    ("state/0/0/SSTs/*.sst", flip_middle),
    ("offsets/.1.crc", flip_last),
    (MANIFEST, delete),
]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200 if ALL else 300)]


class Stopped(NamedTuple):
    """A run that was stopped before its last batch; `home` is put back before each case.

    Spark notes the whole path of some files, so a copy elsewhere would not be read in all its parts.
    """

    name: str
    story: LongStory
    home: Path
    kept: Path
    spark: object
    columns: bool

    def put_back(self) -> Path:
        for name in ("checkpoint", "out"):
            shutil.rmtree(self.home / name, ignore_errors=True)
            shutil.copytree(self.kept / name, self.home / name)
        return self.home / "checkpoint"

    def start(self):
        places = self.home, self.home / "checkpoint", self.home / "out"
        return start(self.spark, self.story, *places, columns=self.columns)


def stop_before_the_end(spark, home: Path, name: str) -> Stopped:
    example, columns = PROGRAMS[name]
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    story = LongStory(example, 60, seed=3)
    parts = story.slices(BATCHES)
    stopped = Stopped(name, story, home / "home", home / "kept", session, columns)
    story.write(stopped.home / "in", parts[:-1])
    stopped.start().awaitTermination()
    Lock(stopped.home / "checkpoint").release()  # When it is free, all is written.
    assert published(stopped.home / "out") == list(range(BATCHES - 1))
    story.write(stopped.home / "in", parts[-1:], BATCHES - 1)
    stopped.kept.mkdir()
    for folder in ("checkpoint", "out"):
        (stopped.home / folder).rename(stopped.kept / folder)
    return stopped


@pytest.fixture(scope="module", params=list(PROGRAMS) if ALL else ["objects"])
def stopped(request, spark, tmp_path_factory):
    return stop_before_the_end(spark, tmp_path_factory.mktemp(request.param), request.param)


def list_cases(stopped: Stopped) -> Iterator[tuple[str, object]]:
    kept = stopped.kept / "checkpoint"
    for path in sorted(kept.rglob("*"), key=lambda path: (path.suffix == ".crc", path)):
        # What becomes of Hadoop's checksums is the same for every program.
        if path.is_file() and (path.suffix != ".crc" or stopped.name == "objects"):
            for damage in DAMAGES if path.stat().st_size else (delete,):
                yield path.relative_to(kept).as_posix(), damage


def restart(stopped: Stopped) -> str:
    """Say what comes of a restart: an error, of whom, or the right answer; never a wrong one."""
    from pyspark.errors import PySparkException, StreamingQueryException

    try:
        query = stopped.start()
    except AnabranchError:
        return "our error, before the start"
    except PySparkException:
        return "Spark's error"
    try:
        assert query.awaitTermination(PATIENCE_S), "it hangs"
    except StreamingQueryException as error:
        outputs = outputs_of(read_published(stopped.home / "out", stopped.story.program))
        assert set(outputs) <= set(stopped.story.expected()), "an error after a wrong answer"
        if "Python worker failed to connect back" in str(error):
            return BUSY
        return "our error, at work" if "DamagedStateError" in str(error) else "Spark's error"
    check_answer(stopped.spark, stopped.story, stopped.home / "out")
    return "same answer"


def judge(stopped: Stopped, name: str, damage, *, restarted: bool) -> str:
    """Damage a file, and say what comes of it."""
    checkpoint = stopped.put_back()
    damage(checkpoint / name)
    findings = inspect_checkpoint(checkpoint).findings
    if findings:
        assert [finding.file for finding in findings] == [name]
        return "our error, before the start"
    if not restarted:
        return "passed on to Spark"
    try:
        outcome = restart(stopped)
    except Exception as error:
        raise AssertionError(f"{name} {damage.__name__}: {error}") from error
    if outcome == BUSY:
        return judge(stopped, name, damage, restarted=restarted)
    print(f"{name} {damage.__name__}: {outcome}", flush=True)  # noqa: T201 - shown on failure
    return outcome


def name_kind(name: str) -> str:
    if name.endswith(".crc"):
        return "checksums of Hadoop (.crc)"
    if name.startswith("_"):
        return name
    if name.startswith("state/"):
        kinds = {".changelog": "changes", ".zip": "snapshots", ".sst": "files of RocksDB"}
        return f"state: {kinds.get(Path(name).suffix, 'schemas')}"
    return name.partition("/")[0]


def test_every_damage_gives_the_same_answer_or_a_named_error(stopped):
    counts: Counter[tuple[str, str]] = Counter()
    chosen = {
        (path.relative_to(stopped.kept / "checkpoint").as_posix(), damage)
        for pattern, damage in (() if ALL else CHOICE)
        for path in (stopped.kept / "checkpoint").glob(pattern)
    }
    for name, damage in list_cases(stopped):
        restarted = ALL or (name, damage) in chosen
        counts[name_kind(name), judge(stopped, name, damage, restarted=restarted)] += 1
        chosen.discard((name, damage))
    assert not chosen, "a file of the choice is not there"
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:<30} {outcome:<30} {count}")  # noqa: T201
    named = sum(count for (_, outcome), count in counts.items() if outcome.startswith("our"))
    plain = sum(count for (kind, _), count in counts.items() if not kind.endswith("(.crc)"))
    assert named > plain * 0.8, counts


def test_a_damaged_checkpoint_is_refused_and_left_as_it_is(stopped):
    checkpoint = stopped.put_back()
    (checkpoint / "sources/0/1").unlink()
    before = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    with pytest.raises(DamagedCheckpointError, match="sources/0/1 is missing"):
        stopped.start()
    (checkpoint / "offsets/1").unlink()
    # The pair does not agree any more either, but what is missing says more.
    with pytest.raises(DamagedCheckpointError, match="offsets/1 is missing"):
        stopped.start()
    left = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    lock = checkpoint / "_lock"
    assert {p: d for p, d in before.items() if p not in (lock, checkpoint / "offsets/1")} == {
        p: d for p, d in left.items() if p != lock
    }
