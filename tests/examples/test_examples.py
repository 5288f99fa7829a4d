"""Every example runs alone, and stands in the documentation as it is.

That it gives its answer is shown in `tests/runtimes`, `test_on_spark.py` and `test_oracles.py`.
"""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from anabranch import Event, load, run

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples").glob("*.py"))
PAGES = ROOT / "docs" / "examples"

every_example = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])


def test_these_are_the_examples():
    assert [file.stem for file in FILES] == [
        "busy_airports",
        "card_watch",
        "click_through",
        "energy_forecast",
        "ewma",
        "exchange",
        "fraud",
        "inc_dec",
        "key_counter",
        "max_temperature",
        "outlier_detection",
        "page_view",
        "smart_home",
        "taxi_tips",
        "trending_words",
        "value_barrier",
    ]


@every_example
def test_the_program_is_found_without_its_name_and_takes_it(file: Path):
    assert load(str(file)).name == file.stem


@every_example
def test_every_event_is_processed(file: Path):
    program, module = load(f"examples.{file.stem}"), import_module(f"examples.{file.stem}")
    events = [item for item in module.events if isinstance(item, Event)]
    ledger = run(program, module.events, channels=module.channels).ledger
    assert (ledger.input, ledger.processed) == (len(events), len(events))


@every_example
def test_there_are_at_least_three_plans_and_one_is_sequential(file: Path):
    plans = import_module(f"examples.{file.stem}").plans
    assert len(plans) >= 3
    assert plans["sequential"].height == 1
    assert max(plan.height for plan in plans.values()) >= 3


@every_example
def test_the_file_runs_alone(file: Path, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") > 2


def test_max_temperature_takes_no_more_than_twelve_lines():
    text = (ROOT / "examples" / "max_temperature.py").read_text()
    program = text[text.index("class Temp") : text.index("events = ")]
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) <= 12


@every_example
def test_the_page_shows_the_code_as_it_is(file: Path):
    page = (PAGES / f"{file.stem}.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    text = file.read_text()
    assert blocks
    assert [block for block in blocks if block not in text] == []


@every_example
def test_the_page_shows_what_the_file_prints(file: Path):
    page = (PAGES / f"{file.stem}.md").read_text()
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert f"```text\n{done.stdout}```" in page


@every_example
def test_the_page_is_listed(file: Path):
    assert f"({file.stem}.md)" in (PAGES / "index.md").read_text()
    assert f"examples/{file.stem}.md" in (ROOT / "mkdocs.yml").read_text()


def test_the_list_shows_no_page_without_an_example():
    assert {page.stem for page in PAGES.glob("*.md")} == {file.stem for file in FILES} | {"index"}
