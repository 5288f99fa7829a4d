"""Two drivers on one checkpoint: the second is refused before it does anything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.inputs import LongStory, check_answer, published, start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DRIVER = Path(__file__).with_name("driver.py")
FILES = 12
PATIENCE = 150


def test_a_second_driver_is_refused_while_the_first_runs_and_goes_on_when_it_is_gone(
    spark, tmp_path
):
    from anabranch.microbatch.runs.checkpoint_locks import BusyError

    story = LongStory("key_counter", 60, seed=1)
    story.write(tmp_path / "in", story.slices(FILES))
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    with (tmp_path / "log").open("wb") as log:
        first = subprocess.Popen(
            [sys.executable, DRIVER, "key_counter", "60", "1", tmp_path],
            cwd=DRIVER.parents[2],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not published(out):
            assert first.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the first driver publishes nothing"
            time.sleep(0.05)
        with pytest.raises(BusyError, match="a query is running on the checkpoint") as refusal:
            start(spark, story, tmp_path, checkpoint, out)
        assert first.poll() is None, "the first had ended, so nothing was shown"
        assert f"process {first.pid} on " in refusal.value.got
        assert not [query for query in spark.streams.active if query.isActive]
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert published(out)[-1] < FILES - 1, "nothing was left for the second"
    start(spark, story, tmp_path, checkpoint, out).awaitTermination()
    check_answer(spark, story, out)


def test_a_query_of_the_same_process_counts_as_well(spark, tmp_path):
    from anabranch.microbatch.runs.checkpoint_locks import BusyError
    from anabranch.spark import run, write_directory

    story = LongStory("key_counter", 20, seed=1)
    story.write(tmp_path / "in", story.slices(1))

    def launch(trigger):
        frame = spark.readStream.schema(story.schema).json(str(tmp_path / "in"))
        result = run(story.program, story.source(frame), shards=2)
        return write_directory(
            result,
            output=tmp_path / "out",
            checkpoint=tmp_path / "state",
            available_now=trigger is None,
            trigger=trigger,
        )

    query = launch({"processingTime": "1 second"})
    try:
        query.processAllAvailable()
        with pytest.raises(BusyError, match="a query of this process"):
            launch(None)
        assert query.isActive, "the first was stopped for the second"
    finally:
        query.stop()
    launch(None).awaitTermination()
    check_answer(spark, story, tmp_path / "out")
