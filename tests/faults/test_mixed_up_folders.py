"""A checkpoint of one query with the folder of another: refused before anything happens.

With Spark's own file sink the first case publishes nothing, and says nothing.
"""

import pytest

from tests.faults.inputs import LongStory, check_answer, published, start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_and_a_folder_that_do_not_belong_together_are_refused(spark, tmp_path):
    from anabranch.microbatch.runs.ownership import PairingError

    story = LongStory("key_counter", 20, seed=2)
    story.write(tmp_path / "in", story.slices(2))
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    start(spark, story, tmp_path, checkpoint, out).awaitTermination()
    check_answer(spark, story, out)
    before = files_of(out) | files_of(checkpoint)
    for strange in ((tmp_path / "new", out), (checkpoint, tmp_path / "new")):
        with pytest.raises(PairingError, match="do not belong together"):
            start(spark, story, tmp_path, *strange)
    assert not (tmp_path / "new").exists()
    after = files_of(out) | files_of(checkpoint)
    lock = checkpoint / "_lock"
    assert before.keys() == after.keys()
    assert {p: t for p, t in before.items() if p != lock} == {
        p: t for p, t in after.items() if p != lock
    }

    # Two that belong together may be moved together.
    for place in (out, checkpoint):
        place.rename(tmp_path / f"moved_{place.name}")
    moved = tmp_path / "moved_checkpoint", tmp_path / "moved_out"
    start(spark, story, tmp_path, *moved).awaitTermination()
    assert published(moved[1]) == [0, 1]
    check_answer(spark, story, moved[1])
