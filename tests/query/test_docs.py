"""The pages on windows, joins and evolution show what their code prints, and a picture of what it did."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        "windows.md",
        "late-data.md",
        "repeated-events.md",
        "joins.md",
        "evolution.md",
        "state-in-time.md",
        "times.md",
    ],
)
def test_the_page_shows_what_its_code_prints(page):
    names = {"__name__": page}
    printed, shown = [], []
    for language, body in BLOCK.findall((ROOT / "docs" / page).read_text()):
        if language == "text":
            shown.append(body)
            continue
        emitted = io.StringIO()
        with contextlib.redirect_stdout(emitted):
            exec(body, names)
        printed += [emitted.getvalue()] if emitted.getvalue() else []
    assert len(shown) >= 3
    assert printed == shown


def test_the_picture_is_of_the_run_that_the_page_shows():
    spec = importlib.util.spec_from_file_location("drawing", ROOT / "tools" / "draw_late_data.py")
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    drawn = drawing.draw(drawing.run_page(drawing.PAGE.read_text()))
    assert drawn == drawing.PICTURE.read_text(), "cure: make pictures"
    assert [drawn.count(f", {timing}") for timing in ("early", "on time", "late")] == [2, 2, 1]
