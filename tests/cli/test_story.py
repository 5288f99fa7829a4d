"""Stories of a program that changes and of a run that moves, run as they are told.

`python -m tests.cli.test_story` writes them anew.
"""

import contextlib
import io
import logging
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from anabranch.cli.main import run_command
from tests.cli.test_docs import BLOCK

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "change-your-program.md", DOCS / "move.md"]


def tell(page: str, folder: Path) -> str:
    """Do in a folder what the page does, block by block; return the page with what was printed."""
    names = {"__name__": "page"}
    printed = ""

    def run(block: re.Match) -> str:
        nonlocal printed
        language, title, body = block.groups()
        if title:
            (folder / title).parent.mkdir(parents=True, exist_ok=True)
            (folder / title).write_text(body, encoding="utf-8")
        elif language == "console":
            command = body.partition("\n")[0]
            return f"```console\n{command}\n{_call(command)}\n```"
        elif language == "python":
            emitted = io.StringIO()
            with contextlib.redirect_stdout(emitted):
                exec(body, names)
            printed = emitted.getvalue()
        elif language == "text":
            return f"```text\n{printed}```"
        return block.group()

    with contextlib.chdir(folder):
        return BLOCK.sub(run, page)


def _call(command: str) -> str:
    """Return what a command prints, as if it ran in a process of its own: it reads its program anew."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").parent == Path.cwd():
            del sys.modules[name]
    emitted = io.StringIO()
    with (
        contextlib.redirect_stdout(emitted),
        contextlib.redirect_stderr(emitted),
        _log_as_a_process_does(emitted),
    ):
        run_command(shlex.split(command)[2:])
    return emitted.getvalue().rstrip()


@contextlib.contextmanager
def _log_as_a_process_does(stream: io.StringIO):
    """Write warnings of the log where Python writes them when nothing else listens, under pytest too."""
    log, handler = logging.getLogger("anabranch"), logging.StreamHandler(stream)
    handler.setLevel(logging.WARNING)
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = True
        log.removeHandler(handler)


def forget_what_varies(page: str) -> str:
    """Return a page without dates, ids, how well files are packed, and the sums of byte code."""
    page = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", page)
    page = re.sub(r"code: \d\.\d+ [0-9a-f]{16}", "code", page)
    page = re.sub(r"(?m)^(id +)[0-9a-f]{16}$|[\d,]+(?= bytes)", r"\1", page)
    return re.sub(
        r"(?m)^(  (?:\S+ +DATE|state|pending/\w+|sources/\S+) .*?)\s+[\d,]+$", r"\1", page
    )


@pytest.mark.spark
@pytest.mark.parametrize("file", PAGES, ids=[file.stem for file in PAGES])
def test_the_story_is_what_happens(spark, tmp_path, file):
    page = file.read_text(encoding="utf-8")
    told = tell(page, tmp_path)
    assert forget_what_varies(told) == forget_what_varies(page), (
        "cure: python -m tests.cli.test_story"
    )


if __name__ == "__main__":
    for written in map(Path, sys.argv[1:] or PAGES):
        with tempfile.TemporaryDirectory() as place:
            told = tell(written.read_text(encoding="utf-8"), Path(place))
            written.write_text(told, encoding="utf-8")
