"""Which batches of a checkpoint can be read, by the files that are there."""

import pytest

from anabranch.microbatch.inspect.stored_state import ContentsError
from anabranch.spark.checkpoint.state_values import find_batch, find_batches, find_operators


def lay_out(home, commits, stores):
    (home / "commits").mkdir()
    for number in commits:
        (home / "commits" / str(number)).touch()
        (home / "commits" / f".{number}.crc").touch()
    for place, names in stores.items():
        (home / "state" / place).mkdir(parents=True)
        for name in names:
            (home / "state" / place / name).touch()


def name_changes(first, last, mark=""):
    return [f"{number}{mark}.changelog" for number in range(first, last + 1)]


def test_a_batch_is_there_if_every_store_has_its_version(tmp_path):
    stores = {
        "0/0": [*name_changes(1, 6), "4.zip"],
        "0/1": [*name_changes(3, 6), "3.zip", "_metadata"],
        "1/0": name_changes(1, 5),
        "0/_metadata": ["7.zip"],
    }
    lay_out(tmp_path, range(6), stores)
    assert find_operators(tmp_path) == [0, 1]
    # The version of batch 5 is in no store of operator 1; and without 2, store 0/1 begins with 3.
    assert find_batches(tmp_path) == [2, 3, 4, 5]
    assert find_batch(f"{tmp_path}/") == 5
    assert find_batch(tmp_path, 3) == 3


def test_a_gap_in_the_changes_hides_what_comes_after_it_until_a_snapshot(tmp_path):
    lay_out(
        tmp_path, range(6), {"0/0": ["1.changelog", *name_changes(3, 4), "5.zip", "6.changelog"]}
    )
    assert find_batches(tmp_path) == [0, 4, 5]


def test_names_of_another_format_are_read_and_uncommitted_versions_are_not(tmp_path):
    lay_out(tmp_path, [0, 1], {"0/0": name_changes(1, 3, "_1f-ab")})
    assert find_batches(tmp_path) == [0, 1]


def test_fewer_partitions_since_some_batch_leave_the_rest_readable(tmp_path):
    lay_out(tmp_path, range(4), {"0/0": name_changes(1, 4), "0/1": name_changes(1, 2)})
    assert find_batches(tmp_path) == [0, 1, 2, 3]


def test_a_batch_that_is_gone_is_refused(tmp_path, message):
    lay_out(tmp_path, range(3, 6), {"0/0": ["4.zip", *name_changes(5, 6)]})
    with pytest.raises(ContentsError) as refused:
        find_batch(tmp_path, 1)
    message(
        "state_of_a_batch_that_is_gone", str(refused.value).replace(str(tmp_path), "CHECKPOINT")
    )
