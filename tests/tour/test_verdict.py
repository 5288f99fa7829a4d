"""The stream, the oracle, and the comparison with what was published."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.tour.example_program import EXAMPLE, load_example
from anabranch.tour.oracle import (
    OfficeRows,
    compute_answer,
    find_distances,
    read_hours,
    read_office,
)
from anabranch.tour.traffic import DAY_S, HOUR_S, PARTS, Traffic, write_traffic
from anabranch.tour.verdict import agrees_with_reference, fold_sample, judge

SMALL = Traffic(tips=20_000, days=2, batches=6)


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("traffic") / "events"
    write_traffic(SMALL, folder)
    return folder


def test_the_oracle_is_the_reference_on_the_whole_stream(events):
    module = load_example()
    sample = fold_sample(module, getattr(module, EXAMPLE), events, end=None)
    expected = compute_answer(events)
    assert agrees_with_reference(sample.answer, expected, whole=True)
    assert sample.answer.ledger == Ledger(20_048, 20_021, 15, 12, 0, 0)
    places = {(row.item.channel, row.item.seq) for row in sample.answer.rejected}
    assert places == expected.rejected
    assert expected.events == 20_048
    assert list(expected.hours) == list(range(HOUR_S, 2 * DAY_S + 1, HOUR_S))


def test_the_oracle_is_the_reference_on_the_start_of_the_stream(events):
    module = load_example()
    sample = fold_sample(module, getattr(module, EXAMPLE), events)
    assert [output.event.time for output in sample.answer.outputs] == [HOUR_S, 2 * HOUR_S]
    expected = compute_answer(events)
    assert agrees_with_reference(sample.answer, expected)
    assert not agrees_with_reference(sample.answer, expected, whole=True)
    wrong = {**expected.hours, HOUR_S: (0, 0, 0)}
    assert not agrees_with_reference(sample.answer, expected._replace(hours=wrong))


def test_a_tip_is_late_behind_its_channels_lateness_and_broken_rows_promise_nothing():
    times = np.array([100, 50, 49, 900, 130, 129])
    broken = np.array([False, False, False, True, False, False])
    rows = OfficeRows(times, times, times, broken, times)
    distances, largest = find_distances(rows, 50, 0)
    assert distances.tolist() == [-151, -1, 0, -851, -81, -50]
    assert largest == 130
    # The next file goes on from there.
    assert find_distances(rows, 50, largest)[0].tolist()[:3] == [-21, 29, 30]


def test_the_traffic_has_what_real_input_has(events):
    expected = compute_answer(events)
    assert 0.75 < expected.hot_share < 0.85
    assert {channel for channel, _ in expected.late} == {"airport"}
    assert {channel for channel, _ in expected.rejected} == {"city", "suburb", "airport"}
    times = np.concatenate([rows.time for rows in read_office(events / "city")])
    assert (np.diff(times) >= 0).all()
    assert len(times) == 10_000
    # In the batch before the crash the suburb is silent, and then it catches up.
    batch = SMALL.crash_batch
    sizes = [
        sum(
            pq.read_metadata(file).num_rows
            for file in (events / "suburb").glob(f"{number:03}-*.parquet")
        )
        for number in (batch - 1, batch)
    ]
    assert sizes[0] == 0
    assert sizes[1] > 1_500


def test_the_same_seed_writes_the_same_files_and_every_batch_has_as_many(events, tmp_path):
    write_traffic(SMALL, tmp_path / "again")
    names = sorted(path.relative_to(events) for path in events.rglob("*.parquet"))
    assert len(names) == SMALL.batches * (3 * PARTS + 1)
    for name in names:
        assert pq.read_table(events / name).equals(pq.read_table(tmp_path / "again" / name))
    assert [path.name for path in tmp_path.iterdir()] == ["again"]
    ends = [
        pq.read_table(max((events / name).iterdir()))["heartbeat"].to_pylist()[-1]
        for name in ("city", "suburb", "airport", "clock")
    ]
    assert ends == [FOREVER] * 4
    assert read_hours(events)[-1] == SMALL.end


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows, (48, 48, 0, 0, 0)),
        (lambda rows: rows[:-1], (47, 48, 1, 0, 0)),
        (lambda rows: [*rows, rows[3]], (49, 48, 0, 1, 0)),
        (lambda rows: [(rows[0][0], (0, 0, 1)), *rows[1:]], (48, 48, 0, 0, 1)),
        (lambda rows: [*rows, (7, (0, 0, 0))], (49, 48, 0, 0, 1)),
    ],
    ids=["as it is", "one is missing", "one is twice", "one differs", "one too many"],
)
def test_the_verdict_counts_every_difference(events, change, found):
    expected = compute_answer(events)
    ledger = Ledger(20_048, 20_021, 15, 12, 0, 0)
    rows = change(list(expected.hours.items()))
    verdict = judge(rows, expected.late.items(), expected.rejected, ledger, expected)
    assert verdict.comparisons[0][1:] == found
    assert verdict.comparisons[1][1:] == (15, 15, 0, 0, 0)
    assert verdict.comparisons[2][1:] == (12, 12, 0, 0, 0)
    assert verdict.agrees is (found == (48, 48, 0, 0, 0))


def test_the_verdict_compares_distances_places_and_the_ledger(events):
    expected = compute_answer(events)
    good = Ledger(20_048, 20_021, 15, 12, 0, 0)
    hours, late = expected.hours.items(), list(expected.late.items())
    moved = [(late[0][0], late[0][1] + 1), *late[1:]]
    assert judge(hours, moved, expected.rejected, good, expected).comparisons[1].different == 1
    lost = list(expected.rejected)[1:]
    assert judge(hours, late, lost, good, expected).comparisons[2].missing == 1
    short = good._replace(input=20_047, processed=20_020)
    assert not judge(hours, late, expected.rejected, short, expected).agrees


def test_published_rows_are_read_by_kind(tmp_path):
    from anabranch.tour import published_rows as published

    columns = {
        "outputs": {"time": [7200, 3600], "value": ["[1,2,3]", "[4,5,6]"]},
        "late": {
            "channel": ["airport"],
            "seq": [9],
            "distance": [17],
        },
        "rejected": {"channel": ["city"], "seq": [3]},
    }
    for kind, rows in columns.items():
        folder = tmp_path / "batch=0" / kind
        folder.mkdir(parents=True)
        pq.write_table(pa.table(rows), folder / "part-0.parquet")
    (tmp_path / "batch=0" / "_ledger.json").write_text(
        '{"input": 4, "processed": 2, "late": 1, "rejected": 1, "shed": 0, "pending": 0}'
    )
    assert published.read_hours(tmp_path) == [(3600, (4, 5, 6)), (7200, (1, 2, 3))]
    assert published.read_late(tmp_path) == [(("airport", 9), 17)]
    assert published.read_rejected(tmp_path) == [("city", 3)]
    assert published.read_last_ledger(tmp_path) == Ledger(4, 2, 1, 1, 0, 0)
    assert published.list_numbers(tmp_path) == [0]
