"""What made a checkpoint is known before a query starts on it."""

import threading
from typing import NamedTuple

import pytest

from anabranch import Program, on
from anabranch.microbatch.job.fingerprint import ChangedProgramError
from anabranch.microbatch.job.job import Job
from anabranch.plan.layouts import choose_layout
from anabranch.spark.checkpoint.provenance import check_made_by, find_shards, read_made_by
from anabranch.spark.runs import _check_durable
from anabranch.state.durable.codec import CodecError, make_codec

MADE = {"events": "Inc(time)", "shards": "4", "code": "3.11 abc"}


def commit(checkpoint):
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "0").touch()


def test_a_new_checkpoint_takes_any_program_until_a_batch_is_committed(tmp_path):
    check_made_by(tmp_path, MADE)
    check_made_by(tmp_path, {**MADE, "code": "3.11 def"})
    assert read_made_by(tmp_path) is None
    commit(tmp_path)
    assert read_made_by(tmp_path) == {**MADE, "code": "3.11 def"}
    assert find_shards(tmp_path) == 4


def test_another_program_is_refused_without_any_new_file(tmp_path):
    check_made_by(tmp_path, MADE)
    commit(tmp_path)
    with pytest.raises(ChangedProgramError, match="made with other code"):
        check_made_by(tmp_path, {**MADE, "code": "3.11 def"})
    with pytest.raises(ChangedProgramError, match="other shards"):
        check_made_by(tmp_path, {**MADE, "shards": "5"})
    check_made_by(tmp_path, MADE)


def test_a_checkpoint_of_before_is_left_to_its_shards(tmp_path):
    commit(tmp_path)
    check_made_by(tmp_path, MADE)
    assert find_shards(tmp_path) is None


class Inc(NamedTuple):
    time: int


def test_a_state_that_can_not_be_written_is_refused_before_the_start():
    program = Program(on(Inc, update=lambda lock, inc: lock), init=threading.Lock(), name="locked")
    job = Job(program, choose_layout(program, 2), {}, make_codec(program))
    with pytest.raises(CodecError, match="the state of locked can't be kept") as caught:
        _check_durable(job)
    assert str(caught.value.where).startswith("tests/spark/checkpoint/test_provenance.py:")
