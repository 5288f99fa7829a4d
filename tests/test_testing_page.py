"""The page on testing: its code prints what it shows, and its tests pass."""

import contextlib
import io
from pathlib import Path

from tests.cli.test_docs import BLOCK

pytest_plugins = ["pytester"]
PAGE = Path(__file__).parents[1] / "docs" / "testing.md"


def test_the_page_shows_what_its_code_prints_and_its_tests_pass(pytester):
    pytester.syspathinsert()
    names = {"__name__": "page"}
    printed, shown = [], []
    for language, title, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        emitted = io.StringIO()
        if title:
            Path(title).write_text(body, encoding="utf-8")
        elif language == "text":
            shown.append(body)
        else:
            with contextlib.redirect_stdout(emitted):
                exec(body, names)
            printed += [emitted.getvalue()] if emitted.getvalue() else []
    assert len(shown) == 4
    assert printed == shown
    options = ("-p", "no:cacheprovider", "-n", "0")
    pytester.runpytest_inprocess(*options, "--strict-markers").assert_outcomes(passed=2)
