"""Pages show what the command prints. `python tests/cli/test_docs.py` writes them anew."""

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest

from anabranch.cli.main import run_command

ROOT = Path(__file__).parent.parent.parent
NAMES = (
    "cli.md",
    "speculation.md",
    "watermarks.md",
    "evolution.md",
    "savepoints.md",
    "troubleshooting.md",
)
PAGES = [ROOT / "docs" / name for name in NAMES]
BLOCK = re.compile(r'```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.DOTALL)


def fill(page: str, folder: Path) -> str:
    """Run every console block in a folder that holds the examples and the page's own files."""
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )

    def run(block: re.Match) -> str:
        language, title, body = block.groups()
        if title:
            (folder / title).write_text(body, encoding="utf-8")
        if language != "console":
            return block.group()
        command = body.partition("\n")[0]
        emitted = io.StringIO()
        with contextlib.redirect_stdout(emitted), contextlib.redirect_stderr(emitted):
            run_command(shlex.split(command)[2:])
        return f"```console\n{command}\n{emitted.getvalue().rstrip()}\n```"

    before = Path.cwd()
    os.chdir(folder)
    try:
        return BLOCK.sub(run, page)
    finally:
        os.chdir(before)


def forget_counts(page: str) -> list[str]:
    """Return the lines of a page without what differs from machine to machine.

    That is how many seeds a second, when a savepoint was made, and how well its files are packed.
    """
    speed = re.compile(r"^(  .* (?:same|DIFFERENT) +[\d,]+ .*?)\s+[\d,]+$")
    page = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", page)
    page = re.sub(r"(?m)^(id +)[0-9a-f]{16}$|[\d,]+(?= bytes)", r"\1", page)
    page = re.sub(r"(?m)^(  (?:\S+ +DATE|state|pending/\w+) .*?)\s+[\d,]+$", r"\1", page)
    return [speed.sub(r"\1", line) for line in page.splitlines()]


@pytest.mark.parametrize("file", PAGES, ids=[file.stem for file in PAGES])
def test_a_page_shows_what_the_command_prints(tmp_path, file):
    page = file.read_text(encoding="utf-8")
    filled = fill(page, tmp_path)
    assert forget_counts(filled) == forget_counts(page), "cure: python tests/cli/test_docs.py"


if __name__ == "__main__":
    for file in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            file.write_text(fill(file.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
