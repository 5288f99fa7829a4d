"""A crash at every durable effect of a restore and of a rescale leaves the old run, or the new one, and never neither."""

import random

import pytest

from anabranch.local import create_savepoint, rescale
from anabranch.local.checkpoints import is_checkpoint, read_made_by
from tests.local.durable_effects import read_disk, record_effects, write_disk
from tests.local.test_crashes import CASES
from tests.local.test_savepoints import change_shards, draw, read_outputs, restore

KINDS = {
    "forked, columns": CASES["forked, columns"],
    "deferring": draw("deferring", 6, shards=2),
    "speculative": draw("silent", 7, shards=2, mode="speculative"),
}


def begin(case, tmp_path):
    """Run the first part of a case; return its input, the disk after it, its savepoint, and the other parts."""
    parts = case.stream.cut(random.Random(case.seed), 3)
    inputs, home = tmp_path / "in", tmp_path / "home"
    case.stream.write(inputs, parts[:1])
    case.start(inputs, home).wait()
    saved = create_savepoint(tmp_path / "savepoint", checkpoint=home / "checkpoint")
    return inputs, home, saved, parts[1:]


@pytest.mark.parametrize("into", ["the same folder", "a new folder"])
@pytest.mark.parametrize("name", KINDS)
def test_a_crash_in_a_restore_leaves_the_old_run_or_the_new_one(name, into, tmp_path):
    case = KINDS[name]
    inputs, home, saved, rest = begin(case, tmp_path)
    new = change_shards(case, 3)
    # A restored run has its checkpoint beside its output; the old one may share the output.
    homes = ("old", "new") if into == "a new folder" else ("old", "old")
    disk = {"old": None, "new": None} | {f"old/{n}": data for n, data in read_disk(home).items()}
    write_disk(tmp_path / "recorded", disk)
    places = {"output": f"{homes[1]}/out", "checkpoint": "new/checkpoint"}
    with record_effects(tmp_path / "recorded") as moments:
        restore_in(new, saved, inputs, tmp_path / "recorded", places)
    case.stream.write(inputs, rest, 1)
    expected = case.expect()
    other, ends = tmp_path / "other", {"old": 0, "new": 0}
    for number, moment in enumerate(moments):
        where = f"crash {number}, before or in: {moment.effect}"
        write_disk(other, moment.disk)
        found = "new" if is_checkpoint(other / "new/checkpoint") else "old"
        ends[found] += 1
        if found == "old":
            case.start(inputs, other / "old").wait()
            assert read_outputs(case, other / "old") == (expected.outputs, expected.ledger), where
            write_disk(other, moment.disk)
            restore_in(new, saved, inputs, other, places)
        new.start(inputs, other, output=other / places["output"],
                  checkpoint=other / places["checkpoint"]).wait()  # fmt: skip
        folders = dict.fromkeys(other / name for name in ("old", homes[1]))
        assert read_outputs(case, *folders) == (expected.outputs, expected.ledger), where
    assert min(ends.values()) > 2


def restore_in(case, saved, inputs, home, places):
    restore(case, saved, inputs, home, **{name: home / place for name, place in places.items()})


@pytest.mark.parametrize("name", KINDS)
def test_a_crash_in_a_rescale_leaves_the_old_shards_or_the_new_ones(name, tmp_path):
    case = KINDS[name]
    inputs, home, _, rest = begin(case, tmp_path)
    chosen = {"format": "json", "cores": 1, "sync": "system"} | change_shards(case, 3).options
    folders = {"output": home / "out", "checkpoint": home / "checkpoint"}
    with record_effects(home) as moments:
        rescale(case.program, case.stream.files(inputs), **folders, **chosen)
    case.stream.write(inputs, rest, 1)
    expected, other, ends = case.expect(), tmp_path / "other", {"2": 0, "3": 0}
    for number, moment in enumerate(moments):
        write_disk(other, moment.disk)
        shards = read_made_by(other / "checkpoint")["shards"]
        ends[shards] += 1
        change_shards(case, None).start(inputs, other).wait()
        assert read_outputs(case, other) == (expected.outputs, expected.ledger), number
    assert min(ends.values()) > 0
