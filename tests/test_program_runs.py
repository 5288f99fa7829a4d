"""`anabranch.run`: one call for a list of events, for files, and for Spark."""

import json
from typing import NamedTuple

import pytest

import anabranch
from anabranch import Event, Program, on
from anabranch.errors import InputError
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


def test_files_are_read_without_spark_and_bad_rows_are_rejected(tmp_path):
    lines = [*(json.dumps(paid._asdict()) for paid in PLAIN), "{broken", ""]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("\n".join(lines))
    answer = anabranch.run(totals, Files(tmp_path / "in", format="json", lateness=5))
    assert answer.values == [("ann", 4), ("ann", 9), ("bob", 2)]
    assert [(entry.item.channel, entry.item.seq, entry.item.raw) for entry in answer.rejected] == [
        ("in", 3, "{broken")
    ]
    assert str(answer.ledger) == "4 input, 3 processed, 1 rejected"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: anabranch.run(totals, [Channel("a")]), "item 0 is not an event of totals"),
        (lambda: anabranch.run(totals, PLAIN, shards=2), "shards is an option of a run on Spark"),
        (
            lambda: anabranch.run(totals, Files("in"), channels=[Channel("a")]),
            "channels= is given together with sources",
        ),
    ],
)
def test_calls_that_can_not_be_meant_are_refused(call, reason):
    with pytest.raises(InputError, match=reason):
        call()
