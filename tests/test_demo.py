"""What a demo shows, and what it does if Spark does not give the answer."""

from typing import NamedTuple

import pytest

from anabranch import Event, Program, demo, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.reference.sequential import run
from anabranch.state import Sum


class Paid(NamedTuple):
    time: int
    amount: int


class Asked(NamedTuple):
    time: int


total = Program(
    on(Paid, update=lambda total, paid: total + paid.amount),
    on(Asked, output=lambda total, asked: total),
    depends(Asked, Paid, Asked),
    state=Sum(),
)
CHANNELS = (Channel("s"),)
EVENTS = [Event(Paid(1, 4), "s", 0), Event(Asked(2), "s", 1), Event(Asked(3), "s", 2)]


def expect_rows():
    answer = run(total, end_channels(EVENTS, channels=CHANNELS), CHANNELS)
    return {demo._identify(output): str(output.value) for output in answer.outputs}


def test_each_output_is_a_line_and_the_ledger_is_the_last(capsys):
    demo.show(total, EVENTS, channels=CHANNELS, line="at {}: {} paid".format, arguments=[])
    assert capsys.readouterr().out == "at 2: 4 paid\nat 3: 4 paid\n3 input, 3 processed\n"


@pytest.mark.parametrize(
    ("change", "ledger", "place"),
    [
        (lambda rows: rows.popitem(), Ledger(3, 3), "no output"),
        (lambda rows: rows.update({min(rows): "5"}), Ledger(3, 3), "5"),
        (lambda rows: rows.update({"more": "4"}), Ledger(3, 3), "no output"),
        (lambda rows: None, Ledger(3, 2), "3 input, 2 processed"),
    ],
)
@pytest.mark.parametrize(
    ("function", "flags", "name"),
    [
        ("fold_on_spark", ["--master", "local[2]"], "Spark"),
        ("fold_embedded", ["--local"], "the embedded runtime"),
    ],
)
def test_an_answer_that_is_another_one_is_refused(
    change, ledger, place, function, flags, name, monkeypatch, capsys
):
    rows = expect_rows()
    change(rows)
    monkeypatch.setattr(demo, function, lambda *arguments: demo.Rows(rows, ledger))
    with pytest.raises(SystemExit) as left:
        demo.show(total, EVENTS, channels=CHANNELS, arguments=flags)
    assert left.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"the answer of {name} differs from that of the sequential fold" in shown.err
    assert place in shown.err


def test_the_embedded_runtime_gives_the_same_answer(capsys):
    demo.show(total, EVENTS, channels=CHANNELS, line="at {}: {} paid".format, arguments=["--local"])
    assert capsys.readouterr().out == (
        "at 2: 4 paid\nat 3: 4 paid\n3 input, 3 processed\n"
        "the same on the embedded runtime: 2 outputs, row by row\n"
    )


def test_a_master_that_is_none_is_refused_before_java_starts(capsys):
    with pytest.raises(SystemExit) as left:
        demo.show(total, EVENTS, channels=CHANNELS, arguments=["--master", "lokal"])
    assert left.value.code == 2
    assert "'lokal' is not a Spark master" in capsys.readouterr().err
