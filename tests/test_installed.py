"""The wheel in an environment of its own: the command line, an example and the tour. `tests/acceptance` runs its jobs there."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import clean_environment

TOUR = """
from pathlib import Path
from rich.console import Console
from anabranch.tour.child import Home
from anabranch.tour.view import Page
from anabranch.tour.stations import show_tour
from anabranch.tour.traffic import Traffic

home = Home(Path("tour"), Path("scratch"))
home.folder.mkdir()
raise SystemExit(show_tour(Page(Console()), home, Traffic(tips=2_000, days=1, batches=4), spark=True))
"""

# One process, and so one JVM, for a copied example and for one where it is installed.
SESSION = """
import runpy, sys
from anabranch.cli.main import main
from anabranch.tour.example_program import find_example

sys.argv = ["key_counter.py", "--master", "local[2]", "--shards", "2"]
runpy.run_path("key_counter.py", run_name="__main__")
sys.stdout.flush()
sys.argv = ["anabranch", "run", str(find_example()), "--master", "local[2]", "--shards", "2", "--json"]
main()
"""


@pytest.fixture
def call(installed, tmp_path):
    """Return a function that runs a program of the environment in an empty folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()

    def call(name: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(installed / name), *arguments],
            cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


def test_a_new_project_is_made_from_the_wheel(call):
    call("anabranch", "new", "shop")
    emitted = call("anabranch", "run", "shop/balances.py", "--input", "shop/payments")
    assert "ledger    8 in = 6 processed + 1 late + 1 rejected" in emitted


@pytest.mark.spark
def test_the_tour_runs_on_spark(installed, call):
    place = "import anabranch; print(anabranch.__file__)"
    assert Path(call("python", "-c", place).strip()).is_relative_to(installed.parent)
    assert "✓ the same answer, row by row, and the same ledger" in call("python", "-c", TOUR)


@pytest.mark.spark
def test_an_example_and_the_command_line_run_on_spark(call):
    assert "copied to key_counter.py" in call("anabranch", "examples", "copy", "key_counter")
    example, ledger, command = call("python", "-c", SESSION).partition("5 input, 5 processed\n")
    assert example == "at 3: key 1 was counted 1 times\nat 5: key 1 was counted 0 times\n"
    assert ledger
    same, _, document = command.partition("\n")
    assert same == "the same on Spark: 2 outputs, row by row"
    assert json.loads(document)["outputs"][0]["value"] == [94, 115, 80]
