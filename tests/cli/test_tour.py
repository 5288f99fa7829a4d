import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.spark.sinks.directory import Frontiers, read_ledger
from anabranch.spark.sinks.progress import Batch
from anabranch.tour import child, lessons, stations
from anabranch.tour.child import Home
from anabranch.tour.example_program import load_program
from anabranch.tour.page import Page
from anabranch.tour.traffic import DAY_S, HOUR_S, SOURCES, Traffic, write_traffic
from anabranch.tour.verdict import fold_files, judge
from anabranch.tour.view import Hour, LiveView, draw_hours, draw_sources, format_header, format_row

SMALL = Traffic(tips=2000, days=2, files=6)
BATCH = Batch(
    4,
    5014,
    1730.4,
    18,
    2_121_812,
    Ledger(25_070, 18_377, 86, 4, 0, 6_603),
    Frontiers(236_520, {"airport": 330_420, "city": 332_580, "clock": 331_199, "suburb": 236_520}),
)


def open_page(**options) -> tuple[io.StringIO, Page]:
    file = io.StringIO()
    return file, Page(Console(file=file, highlight=False, emoji=False, **options))


def make_home(folder: Path) -> Home:
    return Home(folder, folder / "scratch")


# The view


def test_a_batch_is_a_row_below_its_header():
    assert format_header().plain == (
        "  batch  events/s  processed  pending  late rejected   state  frontier  held by"
    )
    assert format_row(BATCH).plain == (
        "      4     1,730     18,377    6,603    86        4    2 MB  Wed 17:42 suburb"
    )


def test_a_batch_that_ends_the_stream_is_held_by_nobody():
    ended = Frontiers(FOREVER, dict.fromkeys(("city", "clock"), FOREVER))
    row = format_row(BATCH._replace(frontiers=ended)).plain
    assert row.endswith("2 MB  ended")


def test_a_batch_of_which_nothing_is_published_yet_still_has_a_row():
    row = format_row(BATCH._replace(ledger=None, frontiers=None)).plain
    assert row == "      4     1,730                                       2 MB"


def test_sources_are_drawn_as_far_as_they_have_come():
    assert BATCH.frontiers is not None
    lines = [line.plain for line in draw_sources(BATCH.frontiers, 7 * DAY_S)]
    assert lines == [
        "    airport  ███████████████████▋                  Thu 19:47",
        "    city     ███████████████████▊                  Thu 20:23",
        "    clock    ███████████████████▊                  Thu 19:59",
        "    suburb   ██████████████▏                       Wed 17:42  holds back",
    ]


def test_the_last_hours_are_drawn_to_one_scale():
    hours = [Hour(n * HOUR_S, (100 * n, 50, 0)) for n in range(1, 7)]
    assert [line.plain for line in draw_hours(hours)][-1] == (
        "    Mon 06:00  taxi 1 ██████   600  taxi 2 ▌         50  taxi 3            0"
    )
    assert len(draw_hours(hours)) == 4


def test_the_picture_of_now_fits_eighty_columns():
    file = io.StringIO()
    console = Console(file=file, width=80)
    hours = [Hour(HOUR_S, (99_999, 9_999, 999))]
    view = LiveView(console, 7 * DAY_S, status="batch 5 is at work", last=BATCH, hours=hours)
    console.print(view.draw())
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert len(lines) == 9, "no line was wrapped"
    assert lines[-1].endswith("batch 5 is at work")


# The stream and its verdict


def test_the_traffic_has_everything_that_real_input_has(tmp_path):
    files = write_traffic(SMALL, tmp_path)
    answer = fold_files(load_program(), files)
    assert answer.ledger == Ledger(2048, 2037, 7, 4, 0, 0)
    assert len(answer.outputs) == 48
    taxis = [sum(tips) for tips in zip(*answer.values, strict=True)]
    assert taxis[0] > 3 * sum(taxis[1:]), "one taxi is hot"
    assert {late.event.source for late in answer.late} == {"airport"}
    assert [file.read_text() for file in files] == [
        file.read_text() for file in write_traffic(SMALL, tmp_path / "again")
    ]
    brought = {}
    for file in files[2:4]:
        for line in file.read_text().splitlines():
            name = re.search(r'"source": "(\w+)"', line)
            brought[name and name[1]] = True
    assert set(brought) >= {source.name for source in SOURCES} - {"suburb"}


def publish(folder: Path, answer, outputs) -> None:
    from anabranch.microbatch.exchange.result_rows import describe_late, describe_output

    rows = [describe_output(o.value, o.event, o.index, o.key) for o in outputs]
    rows += [describe_late(late.event, late.distance) for late in answer.late]
    for kind, name in (("output", "outputs"), ("late", "late")):
        place = folder / "batch=0" / name
        place.mkdir(parents=True)
        lines = [json.dumps(row._asdict()) for row in rows if row.kind == kind]
        (place / "part-0.json").write_text("\n".join(lines))
    (folder / "batch=0" / "_ledger.json").write_text(json.dumps(answer.ledger._asdict()))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda outputs: outputs, (48, 48, 0, 0, 0)),
        (lambda outputs: outputs[:-1], (47, 48, 1, 0, 0)),
        (lambda outputs: [*outputs, outputs[3]], (49, 48, 0, 1, 0)),
        (lambda outputs: [outputs[0]._replace(value=(0, 0, 1)), *outputs[1:]], (48, 48, 0, 0, 1)),
    ],
    ids=["as it is", "one is missing", "one is there twice", "one says something else"],
)
def test_the_verdict_sees_every_difference(tmp_path, change, found):
    answer = fold_files(load_program(), write_traffic(SMALL, tmp_path / "events"))
    publish(tmp_path / "published", answer, change(answer.outputs))
    verdict = judge(load_program(), answer, tmp_path / "published")
    assert verdict.comparisons[0][1:] == found
    assert verdict.comparisons[1].agrees
    assert verdict.agrees is (found == (48, 48, 0, 0, 0))


# The stations


def test_without_spark_the_reference_and_the_simulator_answer():
    ran = subprocess.run(
        [sys.executable, "-m", "anabranch.tour", "--no-spark"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    out = ran.stdout
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())
    titles = [line for line in out.splitlines() if re.match(r"\d\. ", line)]
    assert titles == [
        "1. A program",
        "2. A stream",
        "3. The answer",
        "4. The same answer, simulated",
        "5. A mistake, found before it costs",
    ]
    assert "✓ keeps its 6 laws in 100 cases each" in out
    assert "168 outputs; 50,168 input, 49,963 processed, 159 late, 46 rejected" in out
    assert "500 of 500 agree with the sequential answer." in out
    assert "✗ join_undoes_fork: Map({1: 1}) forked and joined again is Map({1: 2})" in out


def test_where_spark_does_not_start_the_tour_says_why_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "SCHEDULES", 5)
    monkeypatch.setattr(lessons, "CASES", 20)
    said = json.dumps({"failed": "Spark needs Java\n  to do:    pip install 'anabranch[java]'"})
    script = f"import sys; print({said!r}); sys.exit(1)"
    monkeypatch.setattr(child, "DRIVER", (sys.executable, "-c", script))
    file, page = open_page(force_terminal=True, width=80)
    assert stations.show_tour(page, make_home(tmp_path), SMALL, spark=True) == 1
    text = file.getvalue()
    # What a spinner drew and wiped away does not count.
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    lines = [line.rpartition("\r")[2].rstrip() for line in plain.split("\n")]
    assert max(map(len, lines)) <= 80
    assert "Spark needs Java" in lines
    assert "  to do:    pip install 'anabranch[java]'" in lines
    assert "4. The same answer, simulated" in lines


def test_a_query_that_ends_without_a_word_is_told_of_by_its_log(tmp_path, monkeypatch):
    script = "import sys; sys.exit('out of memory')"
    monkeypatch.setattr(child, "DRIVER", (sys.executable, "-c", script))
    home = make_home(tmp_path)
    view = LiveView(open_page()[1].console, DAY_S)
    home.events.mkdir()
    with child.launch(home) as started, pytest.raises(child.ChildError) as raised:
        stations.follow(load_program(), view, started)
    assert str(raised.value) == (
        "the query ended before its time\n"
        "  expected: exit code 0\n"
        "  got:      1; its last words: out of memory"
    )


def test_a_folder_to_keep_things_in_must_be_new(tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="is not a new folder"), stations.open_home(tmp_path):
        pass


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_tour_and_the_query(tmp_path, number):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "anabranch.tour"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    line = next(line for line in process.stdout if line.startswith("Process "))
    pid = int(line.split()[1])
    assert is_alive(pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, "stopped\n")
    assert not is_alive(pid)
    assert list(tmp_path.glob("anabranch-tour-*")) == []


def test_a_query_does_not_outlive_its_tour(tmp_path):
    process = subprocess.Popen(
        [*child.DRIVER, str(tmp_path), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # What a tour that was killed itself can't do, the system does: it closes the pipe.
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == -signal.SIGKILL


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_tour_survives_its_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "CASES", 20)
    home = make_home(tmp_path)
    file, page = open_page(width=stations.PIPE_WIDTH)
    assert stations.show_tour(page, home, SMALL, spark=True) == 0
    out = file.getvalue()
    pid = re.search(r"^Process (\d+) runs it", out, re.MULTILINE)
    assert pid is not None
    assert f"Process {pid[1]} and its JVM get a SIGKILL" in out
    cut_off = re.search(r"exit code -9: batch (\d+) was begun, and is not committed", out)
    assert cut_off is not None, out
    assert 2 <= int(cut_off[1]) < SMALL.files
    rows = [
        int(row) for row in re.findall(r"^ {2,6}(\d+) +[\d,]+ .*(?::|ended)", out, re.MULTILINE)
    ]
    # Each batch once before the crash or after it; the one that was cut off comes after it.
    assert rows == list(range(SMALL.files))
    assert home.list_published() == rows
    assert home.list_unfinished() == []
    assert re.search(r"outputs +48 +48 +0 +0 +0$", out, re.MULTILINE)
    assert re.search(r"late events +7 +7 +0 +0 +0$", out, re.MULTILINE)
    ledgers = [read_ledger(home.published / f"batch={n}") for n in rows]
    assert all(ledger.balanced for ledger in ledgers)
    assert ledgers[-1] == Ledger(2048, 2037, 7, 4, 0, 0)
    assert "2,048 in = 2,037 processed + 7 late + 4 rejected + 0 shed + 0 pending" in out
    assert "✓ the same answer, row by row, and the same ledger" in out
