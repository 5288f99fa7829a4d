"""A batch that is repeated has the input and the time that were recorded; and runs beside each other."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.errors import RejectionError
from anabranch.eventtime.channels import Channel
from anabranch.sources.files import ChangedFilesError
from tests.local.durable_effects import Moment, record_effects, write_disk
from tests.local.test_crashes import CASES
from tests.local.whole_runs import Case, read_batches, read_state

HOUR_NS = 3600 * 10**9


@pytest.fixture
def inputs(tmp_path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "in"


def list_planned(moments: list[Moment], other: Path) -> list[tuple[Moment, int]]:
    """Return the moments at which a batch was planned, and not committed."""
    found = []
    for moment in moments:
        if any(name.endswith(".log") for name in moment.disk):
            write_disk(other, moment.disk)
            plan = read_state(other)[1]
            found += [] if plan is None else [(moment, plan.batch)]
    return found


def test_a_repeated_batch_has_the_recorded_time(inputs, tmp_path, monkeypatch):
    """Channel c is silent: whether it counts as idle depends on the time of the batch."""
    case = CASES["keyed, rows"]
    channels = tuple(Channel(c.name, idle_after_s=1800) for c in case.channels)
    items = [item for item in case.items if item.channel != "c"]
    case = replace(case, channels=channels, items=items, files=4)
    case.write(inputs)
    clock = iter(range(0, 10**6 * HOUR_NS, HOUR_NS))
    monkeypatch.setattr(time, "time_ns", lambda: next(clock))
    with record_effects(tmp_path / "home") as moments:
        case.start(inputs, tmp_path / "home").wait()
    published = read_batches(tmp_path / "home")
    outputs = {name for name, data in published.items() if data and "/outputs/" in name}
    assert outputs, "a silent channel that is idle holds nothing back"
    other = tmp_path / "other"
    planned = list_planned(moments, other)
    assert len({batch for _, batch in planned}) == len({n.split("/")[0] for n in published})
    # Another time, at which nothing is idle yet, would give another batch.
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    for moment, batch in planned:
        write_disk(other, moment.disk)
        case.start(inputs, other).wait()
        mine = f"batch={batch}/"
        again = {n: data for n, data in read_batches(other).items() if n.startswith(mine)}
        assert again == {n: data for n, data in published.items() if n.startswith(mine)}


def test_a_repeated_batch_whose_files_have_changed_is_refused(inputs, tmp_path):
    case = CASES["keyed, rows"]
    case.write(inputs)
    with record_effects(tmp_path / "home") as moments:
        case.start(inputs, tmp_path / "home").wait()
    other = tmp_path / "other"
    moment, batch = list_planned(moments, other)[-1]
    file = sorted(inputs.iterdir())[batch]
    text = file.read_text()
    write_disk(other, moment.disk)
    file.write_text(text.replace("1", "2"))
    with pytest.raises(ChangedFilesError, match="have changed since they were read"):
        case.start(inputs, other).wait()
    file.write_text(text)
    case.start(inputs, other).wait()
    assert read_batches(other) == read_batches(tmp_path / "home")


def test_new_files_wait_until_the_planned_batch_is_done(inputs, tmp_path):
    case = CASES["keyed, rows"]
    case.write(inputs)
    files = sorted(inputs.iterdir())
    away = files[-1].rename(tmp_path / "away")
    home, other = tmp_path / "home", tmp_path / "other"
    with record_effects(home) as moments:
        case.start(inputs, home).wait()
    away.rename(files[-1])
    case.start(inputs, home).wait()
    for moment, _ in list_planned(moments, other):
        write_disk(other, moment.disk)
        case.start(inputs, other).wait()
        assert read_batches(other) == read_batches(home)
        assert read_state(other) == read_state(home)


def test_a_run_that_rejects_too_much_has_published_it_and_goes_on_without_the_limit(
    inputs, tmp_path
):
    case = CASES["functions that raise"]
    case.write(inputs)
    home = tmp_path / "home"
    with pytest.raises(RejectionError):
        case.start(inputs, home, most_rejected=0).wait()
    assert read_state(home)[0].batch == len(list((home / "out").glob("batch=*"))) - 1
    case.start(inputs, home).wait()
    assert case.read(home) == case.expect()


def test_runs_beside_each_other_do_not_mix(tmp_path):
    names = ["keyed, columns", "keyed, rows", "forked, columns", "late and rejected"]
    cases: dict[str, Case] = {f"{name} {n}": CASES[name] for name in names for n in range(2)}
    for name, case in cases.items():
        case.write(tmp_path / name / "in")
    runs = [
        case.start(tmp_path / name / "in", tmp_path / name, cores=2) for name, case in cases.items()
    ]
    for run in runs:
        run.wait()
    for name, case in cases.items():
        assert case.read(tmp_path / name) == case.expect(), name
