"""The tour as it is run: its stations, its process, its crash."""

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
from anabranch.microbatch.runs.published_batches import read_ledger
from anabranch.tour import child, lessons, stations
from anabranch.tour.child import Home
from anabranch.tour.traffic import DAY_S, Traffic
from anabranch.tour.view import LiveView, Page

SMALL = Traffic(tips=20_000, days=2, batches=6)


def open_page(**options) -> tuple[io.StringIO, Page]:
    file = io.StringIO()
    return file, Page(Console(file=file, highlight=False, emoji=False, **options))


def make_home(folder: Path) -> Home:
    return Home(folder, folder / "scratch")


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
        "2. The answer",
        "3. The same answer, simulated",
        "4. A mistake, found by the check",
    ]
    assert "✓ keeps its 6 laws in 100 cases each" in out
    assert "168 hours; 50,168 input, 50,123 processed, 33 late, 12 rejected" in out
    assert "✓ NumPy computes the same" in out
    assert "500 of 500 agree with the sequential answer." in out
    assert "✗ join_undoes_fork: Map({1: 1}) forked and joined again is Map({1: 2})" in out


def test_where_spark_does_not_start_the_tour_shows_why_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "SCHEDULES", 5)
    monkeypatch.setattr(lessons, "CASES", 20)
    line = json.dumps({"failed": "Spark needs Java\n  to do:    pip install 'anabranch[java]'"})
    script = f"import sys; print({line!r}); sys.exit(1)"
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


def test_a_query_that_ends_without_a_report_fails_with_the_end_of_its_log(tmp_path, monkeypatch):
    script = "import sys; sys.exit('out of memory')"
    monkeypatch.setattr(child, "DRIVER", (sys.executable, "-c", script))
    home = make_home(tmp_path)
    view = LiveView(open_page()[1].console, DAY_S)
    home.events.mkdir()
    with child.launch(home) as started, pytest.raises(child.ChildError) as raised:
        stations.follow(view, started)
    assert str(raised.value) == (
        "the query ended too early\n"
        "  expected: exit code 0\n"
        "  got:      1; the last line of its log: out of memory"
    )


def test_without_numpy_the_stream_of_the_reference_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(stations, "find_spec", lambda name: None)
    file, page = open_page(width=80)
    module = stations.load_example()
    stations.show_reference(page, module, module.taxi_tips, make_home(tmp_path))
    assert "left out: it needs pip install 'anabranch[kernels,parquet]'" in file.getvalue()
    assert list(tmp_path.iterdir()) == []


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
    # The system closes the pipe of a tour that was killed.
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
    pid = re.search(r"^Process (\d+) starts Spark", out, re.MULTILINE)
    assert pid is not None
    crash = re.search(rf"kill -9 {pid[1]}: exit code -9, batch (\d+) begun", out)
    assert crash is not None, out
    assert SMALL.crash_batch <= int(crash[1]) < SMALL.batches
    rows = [int(row) for row in re.findall(r"^ {2,6}(\d+) +[\d,]+ +\d+\.\d ", out, re.MULTILINE)]
    # Each batch once, before the crash or after it; the one that was killed comes after it.
    assert rows == list(range(SMALL.batches))
    assert home.list_published() == rows
    assert home.list_unfinished() == []
    assert re.search(r"hours +48 +48 +0 +0 +0$", out, re.MULTILINE)
    assert re.search(r"late +15 +15 +0 +0 +0$", out, re.MULTILINE)
    assert re.search(r"rejected +12 +12 +0 +0 +0$", out, re.MULTILINE)
    ledgers = [read_ledger(home.published / f"batch={n}") for n in rows]
    assert all(ledger.balanced for ledger in ledgers)
    assert ledgers[-1] == Ledger(20_048, 20_021, 15, 12, 0, 0)
    # While the suburb is silent, the events of the others wait in the state.
    assert ledgers[SMALL.crash_batch - 1].pending > 2_000
    assert "20,048 = 20,021 processed + 15 late + 12 rejected" in out
    assert re.search(r"hot key +taxi 1 has 8\d % of the tips; of \d+ tasks, the busiest", out)
    assert max(map(len, out.splitlines())) <= 90
    assert "✓ the same answer, row by row, and the same ledger" in out
