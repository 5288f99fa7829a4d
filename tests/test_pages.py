"""The README and the first pages: their programs and commands run, and print what is shown.

`python -m tests.test_pages` writes what is printed into the pages, except for blocks that leave out lines with `…`.
"""

import contextlib
import re
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from tests.cli.test_docs import BLOCK
from tests.cli.test_story import tell

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
ON_SPARK = (ROOT / "docs" / "quick-start.md",)
NAMES = ("concepts.md", "embedded.md", "hot-keys.md", "tuning.md")
HERE = (README, *(ROOT / "docs" / name for name in NAMES))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
GAP = "…"


def fits(shown: str, printed: str) -> bool:
    """Return whether a block shows what was printed; a line `…` stands for any lines."""
    parts = [re.escape(part.strip("\n")) for part in re.split(rf"(?m)^{GAP}\n", shown)]
    return re.fullmatch(r"\n*(?:.*\n)*?".join(parts) + r"\n*", printed) is not None


def run_page(file: Path, folder: Path) -> list[tuple[str, str]]:
    """Run a page in a folder; return each block of output as it is shown, and as it was printed."""
    page = file.read_text(encoding="utf-8")
    blocks = zip(BLOCK.findall(page), BLOCK.findall(tell(page, folder)), strict=True)
    return [
        (shown, printed)
        for (language, title, shown), (_, _, printed) in blocks
        if language in ("console", "text") and not title
    ]


def check_page(file: Path, folder: Path) -> None:
    outputs = run_page(file, folder)
    assert outputs, "the page shows no output"
    for shown, printed in outputs:
        if not fits(shown, printed):
            assert shown == printed, "cure: python -m tests.test_pages"


@pytest.mark.parametrize("file", HERE, ids=lambda file: file.stem)
def test_a_page_shows_what_its_code_and_commands_print(file, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    check_page(file, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("file", ON_SPARK, ids=lambda file: file.stem)
def test_a_page_that_uses_spark_shows_what_its_code_and_commands_print(
    file, spark, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    check_page(file, tmp_path)


def test_lines_may_be_left_out_and_no_others():
    assert fits("$ a\nfirst\n…\nlast\n", "$ a\nfirst\nsecond\n\nthird\nlast\n")
    assert fits("$ a\nfirst\n…\n", "$ a\nfirst\nsecond\n")
    assert fits("$ a\nfirst\n", "$ a\nfirst\n")
    assert not fits("$ a\nfirst\n", "$ a\nfirst\nsecond\n")
    assert not fits("$ a\nsecond\n…\n", "$ a\nfirst\nsecond\n")
    assert not fits("$ a\n…\nother\n", "$ a\nfirst\nsecond\n")


def test_the_readme_is_short_and_has_two_set_up_commands():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130
    assert re.findall(r"^make \w+", text, re.MULTILINE) == ["make run", "make test"]


def test_links_of_the_readme_lead_somewhere():
    links = LINK.findall(README.read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_readme_lists_every_command_and_no_other():
    from anabranch.cli.main import build_app

    text = README.read_text(encoding="utf-8").partition("## Command line")[2].partition("\n## ")[0]
    listed = re.findall(r"`anabranch (\w+)", text)
    known = [name for name in build_app() if not name.startswith("-")]
    assert sorted(set(listed)) == sorted(known)


@pytest.mark.parametrize("file", [README, ROOT / "docs" / "install.md"], ids=lambda file: file.stem)
def test_what_pip_is_asked_for_exists(file):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = re.findall(r"pip install [^\n]*\[([\w,]+)\]", file.read_text(encoding="utf-8"))
    assert asked
    assert {extra for some in asked for extra in some.split(",")} <= set(extras)


def test_the_page_on_settings_has_every_setting_and_every_option():
    from anabranch.microbatch.runs.run_options import RunOptions
    from anabranch.spark.session.settings import PACKAGES, SETTINGS
    from anabranch.spark.session.startup import DEFAULT_SETTINGS, LOCAL_SETTINGS

    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    known = [*(setting.name for setting in SETTINGS), *DEFAULT_SETTINGS, *LOCAL_SETTINGS]
    known += [*RunOptions.__dataclass_fields__]
    assert [name for name in known if f"`{name}`" not in page] == []
    assert [name for name, *_ in PACKAGES if f"| {name} |" not in page] == []


def write_page(file: Path) -> None:
    """Write what a page prints into it, except where it leaves out lines."""
    page = file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        with contextlib.suppress(ValueError):
            for shown, printed in run_page(file, Path(folder)):
                if not fits(shown, printed):
                    page = page.replace(f"\n{shown}```", f"\n{printed}```", 1)
        sys.path.remove(folder)
    file.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or [*map(str, (*HERE, *ON_SPARK))]:
        write_page(Path(name))
