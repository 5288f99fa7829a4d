"""`anabranch.run`: one call for a list of events, for files here, and for Spark."""

import json
from dataclasses import replace
from typing import NamedTuple

import pytest

import anabranch
from anabranch import Event, Program, on
from anabranch.errors import InputError
from anabranch.local import read_outputs
from anabranch.sources import Channel, Files
from anabranch.state import MapOf, Sum


class Paid(NamedTuple):
    time: int
    who: str
    amount: int


totals = Program(
    on(
        Paid,
        output=lambda total, paid: (paid.who, total + paid.amount),
        update=lambda total, paid: total + paid.amount,
    ),
    state=MapOf(Sum(), by="who"),
    name="totals",
)
PLAIN = [Paid(1, "ann", 4), Paid(3, "bob", 2), Paid(2, "ann", 5)]


def test_plain_events_are_of_one_channel_in_the_order_of_the_list():
    answer = anabranch.run(totals, PLAIN)
    assert answer.values == [("ann", 4), ("bob", 2)]
    assert [late.event for late in answer.late] == [Event(Paid(2, "ann", 5), "input", 2)]


def test_declared_channels_say_how_late_events_may_be():
    answer = anabranch.run(totals, PLAIN, channels=[Channel("input", lateness=5)])
    assert answer.values == [("ann", 4), ("ann", 9), ("bob", 2)]
    assert str(answer.ledger) == "3 input, 3 processed"


@pytest.fixture
def files(tmp_path):
    lines = [*(json.dumps(paid._asdict()) for paid in PLAIN), "{broken", ""]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("\n".join(lines))
    return Files(tmp_path / "in", format="json", lateness=5)


def test_the_reference_reads_files_and_bad_rows_are_rejected(files):
    answer = anabranch.run(totals, files, on="reference")
    assert answer.values == [("ann", 4), ("ann", 9), ("bob", 2)]
    assert [(entry.item.channel, entry.item.seq, entry.item.raw) for entry in answer.rejected] == [
        ("in", 3, "{broken")
    ]
    assert str(answer.ledger) == "4 input, 3 processed, 1 rejected"


def test_sources_give_a_handle_and_a_run_on_the_same_folders_goes_on(files, tmp_path):
    folders = {"output": tmp_path / "out", "checkpoint": tmp_path / "state"}
    with anabranch.run(totals, files, available_now=True, **folders) as handle:
        batches = list(handle.watch())
    assert [(batch.number, batch.rows) for batch in batches] == [(0, 4)]
    assert str(handle.progress.ledger) == "4 input, 1 rejected, 3 pending"
    later = [Paid(20, "ann", 1)]
    (tmp_path / "in" / "1.json").write_text(json.dumps(later[0]._asdict()) + "\n")
    handle = anabranch.run(totals, [files], on="local", available_now=True, **folders)
    assert handle.wait()
    assert not handle.is_active
    published = read_outputs(tmp_path / "out").sort_by("time").to_pylist()
    assert [(row["time"], json.loads(row["value"])) for row in published] == [
        (1, ["ann", 4]), (2, ["ann", 9]), (3, ["bob", 2]),
    ]  # fmt: skip
    assert [row["batch"] for row in published] == [1, 1, 1]


def test_without_an_output_the_rows_stay_in_memory(files):
    ended = replace(files, ended=True)
    result = anabranch.run(totals, ended).result()
    assert [json.loads(text) for text in result.outputs.column("value").to_pylist()] == [
        ["ann", 4], ["ann", 9], ["bob", 2],
    ]  # fmt: skip
    assert str(result.ledger) == "4 input, 3 processed, 1 rejected"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: anabranch.run(totals, [Channel("a")]), "item 0 is not an event of totals"),
        (lambda: anabranch.run(totals, PLAIN, shards=2), "shards= does not apply to a run of the"),
        (
            lambda: anabranch.run(totals, Files("in"), channels=[Channel("a")]),
            "channels= is an option of a list of events",
        ),
        (
            lambda: anabranch.run(totals, Files("in"), on="reference", channels=[Channel("a")]),
            "channels= is an option of a list of events",
        ),
        (
            lambda: anabranch.run(totals, Files("in"), ended=False),
            "ended= is an option of a run of",
        ),
        (lambda: anabranch.run(totals, Files("in"), on="flink"), "there is no runtime 'flink'"),
        (lambda: anabranch.run(totals, Files("in"), spark=None), r"run\(\) has no spark="),
        (lambda: anabranch.run(totals, PLAIN, on="local"), "a list of events is run by the ref"),
    ],
)
def test_calls_that_can_not_be_meant_are_refused(call, reason):
    with pytest.raises(InputError, match=reason):
        call()


@pytest.mark.parametrize("row", ['{"time": 2, "who": "ann", "amount": 1}', '{"heartbeat": 2}', "{"])
def test_a_row_of_files_without_its_number_is_rejected_here_as_on_the_reference(tmp_path, row):
    first, last = (
        json.dumps({"time": time, "who": "ann", "amount": 4, "seq": seq})
        for time, seq in ((1, 0), (3, 1))
    )
    (tmp_path / "1.jsonl").write_text(f"{first}\n{row}\n{last}\n")
    paid = Files(tmp_path, format="json", seq="seq", heartbeat="heartbeat", ended=True)
    answer = anabranch.run(totals, paid, on="reference")
    handle = anabranch.run(totals, paid, available_now=True)
    handle.wait()
    reasons = handle.result().rejected.column("reason").to_pylist()
    assert answer.values == [("ann", 4), ("ann", 8)]
    assert [rejected.reason for rejected in answer.rejected] == reasons
    assert answer.ledger == handle.progress.ledger
