"""The page on savepoints: its code prints what it shows, after its commands have run."""

import contextlib
import io
import shlex
from pathlib import Path

from anabranch.cli.main import run_command
from tests.cli.test_docs import BLOCK

PAGE = Path(__file__).parents[2] / "docs" / "savepoints.md"


def test_the_page_shows_what_its_code_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    printed, shown = [], []
    for language, title, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        said = io.StringIO()
        if title:
            Path(title).write_text(body, encoding="utf-8")
        elif language == "text":
            shown.append(body)
        elif language == "console":
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                assert run_command(shlex.split(body.partition("\n")[0])[2:]) == 0, said.getvalue()
        else:
            with contextlib.redirect_stdout(said):
                exec(body, names)
            printed += [said.getvalue()] if said.getvalue() else []
    assert len(shown) == 3
    assert printed == shown
