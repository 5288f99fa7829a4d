"""Savepoints of embedded runs: they go on with other shards, here and elsewhere, as if nothing had happened."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import Map, Program, depends, local, on
from anabranch.errors import AnabranchError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.local import create_savepoint, rescale, restore_savepoint
from anabranch.local.checkpoints import read_made_by
from anabranch.local.page_log import PageLog, PlannedBatch, list_logs
from anabranch.microbatch.runs.ownership import find_last
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.reference.sequential import run as fold
from anabranch.savepoints.folders import open_savepoint
from anabranch.savepoints.objects import read_snapshot, write_snapshot
from anabranch.state import MapOf, Sum
from tests.local.test_crashes import CASES, cross
from tests.local.whole_runs import Case, ParquetCase
from tests.microbatch.programs import PROGRAMS, Day, Month, Reading, say
from tests.microbatch.streams import read_published
from tests.microbatch.test_microbatches import draw_items
from tests.runtimes.runtimes import sum_up


def draw(name: str, seed: int, **options) -> Case:
    program = PROGRAMS[name]
    channels = tuple(Channel(channel) for channel in "abc")
    items = end_channels(draw_items(random.Random(seed), program, 50), channels=channels)
    return Case(program, channels, items, options, 4, f"{name} {seed}")


def cut_in_two(case: Case) -> tuple[list[list], list[list]]:
    parts = case.stream.cut(random.Random(case.seed), case.files)
    middle = max(1, len(parts) // 2)
    return parts[:middle], parts[middle:]


def restore(case: Case, savepoint: Path, inputs: Path, home: Path, **options) -> None:
    chosen = {"format": "json", "cores": 1, "sync": "system"} | case.options
    chosen |= {"output": home / "out", "checkpoint": home / "checkpoint"} | options
    restore_savepoint(savepoint, case.program, case.stream.files(inputs), **chosen)


def read_outputs(case: Case, *homes: Path):
    """Return what runs have published one after the other: outputs without those that were retracted."""
    kept: Counter = Counter()
    for home in homes:
        for row in read_published(home / "out", case.program):
            if row.kind == "output":
                kept[row.id, row.value] += row.op
                assert kept[row.id, row.value] in (0, 1), row
    ledger = read_ledger(find_last_batch(homes[-1] / "out"))
    return sorted(key for key, count in kept.items() if count), ledger


def read_rows(case: Case, home: Path) -> list[list]:
    """Return the rows of each batch, retractions included."""
    rows = read_published(home / "out", case.program)
    batches = [[] for _ in range(find_last(home / "out", "batch=*") + 1)]
    for row in rows:
        batches[row.batch].append(repr(row._replace(batch=0)))
    return [sorted(batch) for batch in batches]


def change_shards(case: Case, number: int) -> Case:
    return replace(case, options={**case.options, "shards": number})


DRAWN = {name: draw(name, 1, shards=3) for name in PROGRAMS}
DRAWN |= {f"{name}, one shard": draw(name, 2, shards=1) for name in ("deferring", "levels", "tied")}
AHEAD = {
    f"{name}, speculative, {seed}": draw(name, seed, shards=3, mode="speculative")
    for name in PROGRAMS
    for seed in range(3 if name in ("silent", "levels", "started", "failing", "counted") else 1)
}
WRITTEN = {name: case for name, case in CASES.items() if not isinstance(case, ParquetCase)}
"""Cases whose files this module can divide: in others, the number of an event depends on its file."""
ALL = WRITTEN | DRAWN | AHEAD


@pytest.mark.parametrize("name", ALL)
def test_differential_a_restored_run_goes_on_with_other_shards(name, tmp_path):
    case = ALL[name]
    before, after = cut_in_two(case)
    inputs, first, second, third = (tmp_path / name for name in ("in", "1", "2", "3"))
    case.stream.write(inputs, before)
    case.start(inputs, first).wait()
    saved = create_savepoint(tmp_path / "savepoint", checkpoint=first / "checkpoint")
    assert open_savepoint(saved).manifest.runtime == "local"
    other = change_shards(case, 1 if case.options.get("shards") == 5 else 5)
    restore(other, saved, inputs, second)
    assert read_outputs(case, second) == ([], read_outputs(case, first)[1])
    case.stream.write(inputs, after, len(before))
    other.start(inputs, second).wait()
    expected = case.expect()
    assert read_outputs(case, first, second) == (expected.outputs, expected.ledger)
    case.start(inputs, third).wait()
    whole, rest = read_rows(case, third), read_rows(case, second)
    assert read_rows(case, first) == whole[: len(before)]
    assert rest == [[], *whole[len(before) :]]  # The first batch restores.


@pytest.mark.parametrize(
    ("name", "columnar"),
    [("keyed, columns", "never"), ("forked, columns", "never"), ("keyed, rows", "require")],
)
def test_differential_a_restored_run_goes_on_on_the_other_path(name, columnar, tmp_path):
    case = CASES[name]
    if columnar == "require":
        case = cross("Sum", "keyed", shards=2, columnar="never")
    before, after = cut_in_two(case)
    inputs, first, second = tmp_path / "in", tmp_path / "first", tmp_path / "second"
    case.stream.write(inputs, before)
    case.start(inputs, first).wait()
    saved = create_savepoint(tmp_path / "savepoint", checkpoint=first / "checkpoint")
    other = replace(case, options={"shards": 3, "columnar": columnar})
    restore(other, saved, inputs, second)
    case.stream.write(inputs, after, len(before))
    other.start(inputs, second).wait()
    expected = case.expect()
    assert read_outputs(case, first, second) == (expected.outputs, expected.ledger)


@pytest.mark.parametrize("name", ["deferring", "levels", "silent", "floats_per_meter", "limited"])
def test_differential_the_reference_goes_on_from_a_savepoint(name, tmp_path):
    case = DRAWN[name]
    before, after = cut_in_two(case)
    case.stream.write(tmp_path / "in", before)
    case.start(tmp_path / "in", tmp_path).wait()
    saved = create_savepoint(tmp_path / "savepoint", checkpoint=tmp_path / "checkpoint")
    rest = [item for part in after for item in part]
    answer = fold(case.program, rest, case.channels, read_snapshot(saved, case.program))
    assert answer.state == fold(case.program, case.items, case.channels).state
    expected = case.expect()
    emitted = [*read_outputs(case, tmp_path)[0], *sum_up(answer).outputs]
    assert (sorted(emitted), answer.ledger) == (expected.outputs, expected.ledger)


def test_differential_an_embedded_run_goes_on_from_the_reference(tmp_path):
    case = DRAWN["levels"]
    before, after = cut_in_two(case)
    first = fold(case.program, [item for part in before for item in part], case.channels)
    saved = write_snapshot(first.snapshot(), case.program, tmp_path / "savepoint")
    (tmp_path / "in").mkdir()
    restore(case, saved, tmp_path / "in", tmp_path)
    case.stream.write(tmp_path / "in", after)
    case.start(tmp_path / "in", tmp_path).wait()
    outputs, ledger = read_outputs(case, tmp_path)
    expected = case.expect()
    emitted = sorted([*outputs, *sum_up(first).outputs])
    assert (emitted, ledger) == (expected.outputs, expected.ledger)


@pytest.mark.parametrize("name", ["forked, columns", "deferred outputs", "speculative, keyed"])
def test_differential_a_run_is_rescaled_in_place_again_and_again(name, tmp_path):
    case = CASES[name]
    parts = case.stream.cut(random.Random(case.seed), 4)
    expected = case.expect()
    for number, part in enumerate(parts):
        case.stream.write(tmp_path / "in", [part], number)
        # Without shards, a run has those of its checkpoint.
        change_shards(case, None if number else 2).start(tmp_path / "in", tmp_path).wait()
        shards = (5, 1, 4, 3)[number]
        chosen = {"format": "json", "cores": 1} | change_shards(case, shards).options
        rescale(
            case.program, case.stream.files(tmp_path / "in"), output=tmp_path / "out",
            checkpoint=tmp_path / "checkpoint", **chosen,
        )  # fmt: skip
        assert read_made_by(tmp_path / "checkpoint")["shards"] == str(shards)
        assert len(list_logs(tmp_path / "checkpoint")) == 1
    assert read_outputs(case, tmp_path) == (expected.outputs, expected.ledger)


def test_a_savepoint_is_taken_while_the_run_goes_on(tmp_path):
    case = DRAWN["levels"]
    before, after = cut_in_two(case)
    case.stream.write(tmp_path / "in", before)
    with case.start(tmp_path / "in", tmp_path / "run", available_now=False) as running:
        while running.progress is None or running.progress.number < len(before) - 1:
            assert running.is_active
        saved = create_savepoint(tmp_path / "savepoint", checkpoint=tmp_path / "run/checkpoint")
    case.stream.write(tmp_path / "in", after, len(before))
    restore(case, saved, tmp_path / "in", tmp_path / "copy")
    for home in ("run", "copy"):  # The run that was saved does not know of it.
        case.start(tmp_path / "in", tmp_path / home).wait()
    expected = case.expect()
    assert read_outputs(case, tmp_path / "run") == (expected.outputs, expected.ledger)
    late = read_rows(case, tmp_path / "run")[len(before) :]
    assert read_rows(case, tmp_path / "copy") == [[], *late]


def refuse(call, *arguments, **options) -> str:
    with pytest.raises(AnabranchError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_what_can_not_be_saved_or_restored_is_refused(tmp_path):
    case = draw("levels", 9, shards=2)
    before, _ = cut_in_two(case)
    case.stream.write(tmp_path / "in", before)
    source = case.stream.files(tmp_path / "in")
    case.start(tmp_path / "in", tmp_path / "run").wait()
    local.run(
        case.program, replace(source, ended=True), checkpoint=tmp_path / "ended", cores=1
    ).wait()
    told = refuse(create_savepoint, tmp_path / "no", checkpoint=tmp_path / "ended")
    assert "has ended: its input was bounded" in told
    told = refuse(create_savepoint, tmp_path / "no", checkpoint=tmp_path / "run")
    assert "is not the checkpoint of an embedded run" in told
    told = refuse(create_savepoint, tmp_path / "no", checkpoint=tmp_path / "run/out")
    assert "a folder with pages-NNNNNN.log" in told
    assert not (tmp_path / "no").exists()

    saved = create_savepoint(tmp_path / "saved", checkpoint=tmp_path / "run/checkpoint")
    told = refuse(create_savepoint, saved, checkpoint=tmp_path / "run/checkpoint")
    assert "already exists" in told
    told = refuse(restore, case, saved, tmp_path / "in", tmp_path / "run")
    assert "a folder that is not empty" in told
    told = refuse(restore, case, saved, tmp_path / "in", tmp_path / "new", mode="speculative")
    assert 'expected: mode="settled", as in the run that was saved' in told
    assert not (tmp_path / "new").exists()


def test_a_speculative_savepoint_goes_on_only_with_the_program_that_made_it(tmp_path):
    case = draw("levels", 9, shards=2, mode="speculative")
    case.stream.write(tmp_path / "in", cut_in_two(case)[0])
    case.start(tmp_path / "in", tmp_path / "run").wait()
    saved = create_savepoint(tmp_path / "saved", checkpoint=tmp_path / "run/checkpoint")
    other = replace(case, program=draw("started", 9).program)
    changed = Program(
        on(Reading, update=lambda total, reading: total + 2 * reading.amount),
        on(Day, output=say, update=lambda total, day: 0),
        on(Month, output=say, update=lambda meters, month: Map()),
        depends(Day, Reading, Day, same="meter"),
        depends(Month, Reading, Day, Month),
        state=MapOf(Sum(), by="meter"),
    )
    told = refuse(restore, case, saved, tmp_path / "in", tmp_path / "new", mode="settled")
    assert 'expected: mode="speculative"' in told
    assert refuse(restore, other, saved, tmp_path / "in", tmp_path / "new")
    told = refuse(restore, replace(case, program=changed), saved, tmp_path / "in", tmp_path / "new")
    assert "continues only with the program that made it" in told
    assert "speculative mode" in refuse(read_snapshot, saved, case.program)


def test_a_batch_that_was_begun_is_finished_before_a_rescale(tmp_path):
    case = draw("levels", 9, shards=2)
    case.stream.write(tmp_path / "in", cut_in_two(case)[0])
    case.start(tmp_path / "in", tmp_path).wait()
    log = PageLog(tmp_path / "checkpoint", "system")
    log.write_plan(PlannedBatch(log.commit.batch + 1, log.commit.offset, None))
    log.close()
    folders = {"output": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    source = case.stream.files(tmp_path / "in")
    told = refuse(rescale, case.program, source, **folders, format="json", shards=3)
    assert "was begun and not finished" in told
