"""`anabranch watermark`: the table, who holds back, what a lateness would cost, and wrong calls."""

import json
import random

import pytest

from anabranch.cli.main import run_command
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.held_back import ChannelStatus
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.published_batches import Watermarks

PROGRAM = """
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.channels import Channel

class Temp(NamedTuple):
    time: int
    degrees: int

top = Program(
    on(Temp, update=lambda top, temp: max(top, temp.degrees), output=lambda top, temp: top),
    depends(Temp, Temp), init=0,
)
channels = [
    Channel("north", lateness=Estimated(0.9, within=50)),
    Channel("south", lateness=3),
    Channel("west", lateness=None),
]
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "top.py"
    file.write_text(PROGRAM)
    return str(file)


def write_rows(file, times, heartbeats=()):
    rows = [{"time": time, "degrees": 1} for time in times]
    rows += [{"heartbeat": time} for time in heartbeats]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


@pytest.fixture
def inputs(tmp_path):
    rng = random.Random(4)
    times = [10 * n - int(rng.expovariate(1 / 20)) for n in range(200)]
    north = write_rows(tmp_path / "north.jsonl", times)
    south = write_rows(tmp_path / "south.jsonl", [100, 120, 90, 118, 400])
    west = write_rows(tmp_path / "west.jsonl", [70, 80], [200])
    return [word for file in (north, south, west) for word in ("--input", file)]


def read_table(text):
    lines = text.splitlines()
    return [" ".join(line.split()) for line in lines[2 : lines.index("")]]


def test_the_table_says_how_far_each_channel_has_come_and_by_which_rule(program, inputs, capsys):
    assert run_command(["watermark", program, *inputs]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert read_table(out) == [
        "west 80 200 only heartbeats – 0 holds back",
        "south 400 396 lateness 3 3 1",
        "north 1972 1936 estimated for 90% 35 23",
    ]
    assert out.splitlines()[-1] == (
        "watermark 200, held back by west, 196 behind the next; 155 events wait"
    )


def test_a_channel_that_brought_nothing_is_named(program, tmp_path, capsys):
    text = (
        PROGRAM + "events = [Temp(1, 5), Temp(9, 5)]\nchannels = [Channel('input'), Channel('b')]\n"
    )
    (tmp_path / "two.py").write_text(text)
    assert run_command(["watermark", str(tmp_path / "two.py")]) == 0
    out = capsys.readouterr().out
    remark = "holds back: no events yet"
    assert read_table(out)[0] == f"b – none yet in order 0 0 {remark}"
    assert out.splitlines()[-1] == "watermark none yet, held back by b; 2 events wait"


def test_flags_declare_what_channels_promise_as_they_do_for_run(program, inputs, capsys):
    assert run_command(["watermark", program, *inputs, "--lateness", "95%"]) == 0
    assert "estimated for 95%" in read_table(capsys.readouterr().out)[-1]
    assert run_command(["watermark", program, *inputs, "--lateness", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["watermark"] == 200
    assert document["held_back_by"] == {"west": "in order"}
    assert document["channels"]["south"] == {
        "watermark": 399, "largest": 400, "last": 4, "rule": "in order", "delay": 0, "silence_ms": 0,
        "waived": None, "idle": False, "active_in": None, "joined": None, "joined_in": None, "late": 2,
        "moved": None,
    }  # fmt: skip


def test_a_folder_of_files_is_an_input_too(program, inputs, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for name in ("north", "south", "west"):
        rows = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        named = [json.dumps({**json.loads(row), "channel": name}) for row in rows]
        (tmp_path / "in" / f"{name}.jsonl").write_text("\n".join(named) + "\n")
    assert run_command(["watermark", program, "--input", str(tmp_path / "in"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pending"] == 155


def test_suggest_says_what_each_lateness_would_have_lost(program, inputs, capsys):
    assert run_command(["watermark", program, *inputs, "--suggest"]) == 0
    rows = read_table(capsys.readouterr().out)
    assert rows[:4] == [
        "north 90% 30 20 of 200",
        "99% 68 2",
        "99.9% 105 0",
        "100% 105 0",
    ]
    assert rows[4] == "south 100% 30 0 of 5"


def test_what_is_suggested_is_what_a_run_with_it_loses(program, inputs, capsys):
    assert run_command(["watermark", program, *inputs, "--suggest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["north"]
    assert [entry["confidence"] for entry in found] == [0.9, 0.99, 0.999, 1.0]
    for entry in found:
        command = ["run", program, *inputs[:2], "--lateness", str(entry["delay"]), "--json"]
        assert run_command(command) == 0
        assert json.loads(capsys.readouterr().out)["ledger"]["late"] == entry["late"]


def publish(folder, number, watermarks, pending=0):
    place = folder / f"batch={number}"
    place.mkdir(parents=True)
    ledger = Ledger(pending, pending=pending)
    (place / "_ledger.json").write_text(json.dumps(ledger._asdict()))
    (place / "_watermarks.json").write_text(json.dumps(watermarks._asdict()))


def test_a_folder_that_a_run_publishes_into_says_it_too(tmp_path, capsys):
    about = {
        "a": ChannelStatus(0, 9, 3, "lateness 4", 4, active_in=2).describe(),
        "b": ChannelStatus(0, 30, 8, "in order", 0, active_in=7).describe(),
        "c": ChannelStatus(0, 1, 1, "in order", 0, 61_500, 4, idle=True, active_in=0).describe(),
    }
    since = {"a": 2, "b": 7, "c": 7}
    publish(tmp_path, 6, Watermarks(NEVER, {}))
    publish(tmp_path, 7, Watermarks(4, {"a": 4, "b": 29, "c": 4}, since, about), pending=12)
    (tmp_path / "_checkpoint" / "offsets").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "_checkpoint"):
        assert run_command(["watermark", str(place)]) == 0
        out = capsys.readouterr().out
        assert read_table(out) == [
            "a 9 4 lateness 4 4 batch 2 holds back: silent since batch 2",
            "c 1 4 in order 0 batch 7 idle: no events for 61.5 s, not waited for",
            "b 30 29 in order 0 batch 7",
        ]
        assert out.splitlines()[-1] == (
            "watermark 4 after batch 7, held back by a, 25 behind the next; 12 events wait"
        )
    assert run_command(["watermark", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["by"], document["batch"], document["pending"]) == (25, 7, 12)
    assert document["held_back_by"] == {"a": "silent since batch 2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "requires an argument"),
        (["gone.py"], "there is no file 'gone.py'"),
        (["examples"], "'examples' has no batches of a run"),
        (["examples", "--suggest"], "--suggest applies to a program and its input"),
        (["examples", "--lateness", "5"], "--lateness applies to a program and its input"),
        (["examples/fraud.py", "--input", "gone.jsonl"], "there is no file 'gone.jsonl'"),
        (["examples/fraud.py", "--lateness", "100%"], "a confidence is not a share of events"),
        (["examples/fraud.py", "--lateness", "much"], "nor a share of events"),
    ],
)
def test_a_wrong_call_says_why_and_ends_with_2(arguments, message, capsys):
    assert run_command(["watermark", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_a_checkpoint_that_lies_elsewhere_can_not_say_it(tmp_path, capsys):
    (tmp_path / "state" / "offsets").mkdir(parents=True)
    assert run_command(["watermark", str(tmp_path / "state")]) == 2
    assert "give the output folder of the run" in capsys.readouterr().err


def test_an_idle_timeout_is_for_a_stream(program, inputs, capsys):
    command = ["run", program, *inputs, "--idle-after-s", "5"]
    assert run_command(command) == 2
    assert "--idle-after-s needs a stream" in capsys.readouterr().err
    assert run_command([*command, "--master", "local[1]"]) == 2
    assert "--idle-after-s needs a stream" in capsys.readouterr().err


def test_explain_says_that_an_estimated_channel_takes_the_row_path(program, capsys):
    assert run_command(["explain", program]) == 0
    line = "row path: the lateness of channel 'north' is estimated"
    assert line in capsys.readouterr().out


DATED = """
from datetime import datetime
from typing import NamedTuple
from anabranch import EventTime
from anabranch.windows import Tumbling
from anabranch.query import aggregate
from anabranch.state import Count

class Visit(NamedTuple):
    at: EventTime[datetime]
    user: str

visits = aggregate(Visit, Tumbling("10 min"), per="user", n=Count(), name="visits")
"""


def test_times_that_are_datetimes_are_shown_and_suggested_with_their_units(tmp_path, capsys):
    (tmp_path / "visits.py").write_text(DATED)
    times = ("12:00:00Z", "12:00:07Z", "14:00:03+02:00", "12:11:00Z")
    rows = [json.dumps({"at": f"2026-07-01T{time}", "user": "x"}) for time in times]
    (tmp_path / "web.jsonl").write_text("\n".join(rows))
    words = [str(tmp_path / "visits.py"), "--input", str(tmp_path / "web.jsonl")]
    assert run_command(["watermark", *words, "--lateness", "5 s"]) == 0
    table = capsys.readouterr().out
    assert "lateness 5 s" in table
    assert "watermark 2026-07-01T12:10:54.999999+00:00, held back by web; 1 event waits" in table
    assert run_command(["watermark", *words, "--suggest"]) == 0
    assert "4 s          0 of 4" in capsys.readouterr().out
    assert run_command(["run", *words, "--lateness", "5 s"]) == 0
    assert "2026-07-01T12:19:59.999999+00:00" in capsys.readouterr().out
    assert run_command(["run", *words, "--lateness", "5"]) == 2
    assert 'give a unit, such as "5 s"' in capsys.readouterr().err
