"""What made a checkpoint is known before a query starts on it."""

from typing import NamedTuple

import pytest

from anabranch.microbatch.job.fingerprint import ChangedProgramError
from anabranch.spark.checkpoint.provenance import check_made_by, find_shards, read_made_by

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


MADE_OF_B = {**MADE, "channel 'b'": "Channel(name='b', lateness=0)"}
MADE_OF_BOTH = {**MADE_OF_B, "channel 'c'": "Channel(name='c', lateness=0)"}


def test_a_channel_may_be_added_and_may_not_be_missing_from_then_on(tmp_path):
    check_made_by(tmp_path, MADE_OF_B)
    commit(tmp_path)
    check_made_by(tmp_path, MADE_OF_BOTH)
    assert read_made_by(tmp_path) == MADE_OF_BOTH
    with pytest.raises(ChangedProgramError, match="channel 'c', which no source declares now"):
        check_made_by(tmp_path, MADE_OF_B)
    changed = {**MADE_OF_BOTH, "channel 'b'": "Channel(name='b', lateness=5)"}
    with pytest.raises(ChangedProgramError, match="made with other channel 'b'"):
        check_made_by(tmp_path, changed)


def test_a_channel_in_a_column_is_not_added_while_a_batch_without_it_is_unfinished(tmp_path):
    check_made_by(tmp_path, MADE_OF_B)
    commit(tmp_path)
    (tmp_path / "offsets").mkdir()
    for number in ("0", "1"):
        (tmp_path / "offsets" / number).touch()
    with pytest.raises(ChangedProgramError, match="batch 1 was planned before channel 'c'"):
        check_made_by(tmp_path, MADE_OF_BOTH, mixed={"b", "c"})
    assert read_made_by(tmp_path) == MADE_OF_B
    check_made_by(tmp_path, MADE_OF_BOTH)  # A folder of its own has nothing in that batch.
    assert read_made_by(tmp_path) == MADE_OF_BOTH


class Inc(NamedTuple):
    time: int
