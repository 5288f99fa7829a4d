import io
import re
import subprocess
import sys

from rich.console import Console

from anabranch import tour


def test_the_tour_shows_every_station_in_plain_text_when_piped():
    ran = subprocess.run(
        [sys.executable, "-m", "anabranch.tour"], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    out = ran.stdout
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())
    stations = [line for line in out.splitlines() if line[:1].isdigit()]
    assert [line[:2] for line in stations] == ["1.", "2.", "3.", "4.", "5."]
    assert out.count("✓") == len(tour.LAWS)
    assert "answer       ·   ·   ·   ·   ·  25   ·   ·   ·  19   0" in out
    assert "1,000 of 1,000 agree with the sequential answer." in out
    assert "✗ join_undoes_fork: 1 forked and joined again is 0" in out
    assert "[25, 0, 0] where the answer is [25, 19, 0]" in out


def test_the_tour_fits_a_terminal_of_eighty_columns(monkeypatch):
    monkeypatch.setattr(tour, "SCHEDULES", 5)
    monkeypatch.setattr(tour, "CASES", 20)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, highlight=False, emoji=False)
    tour.show_tour(console)
    text = file.getvalue()
    assert "\x1b[1;36m1. A program" in text
    # What a spinner drew and wiped away does not count.
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    lines = [line.rpartition("\r")[2].rstrip() for line in plain.split("\n")]
    assert max(map(len, lines)) <= 80
    assert "Try next" in lines
