import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline anywhere: a slow machine is not a defect. The `ci` profile is derandomized, so that a
# failure there belongs to the change at hand; `default` explores new cases on every run.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


ROOT = Path(__file__).parents[1]
MESSAGES = Path(__file__).parent / "messages"
PLACE = re.compile(r"(?:[^\s'\"`]*/)?([\w.]+\.py):\d+")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-messages", action="store_true", help="write tests/messages/*.txt anew"
    )


@pytest.fixture
def message(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare what a user reads with tests/messages/NAME.txt, word for word but for the line."""

    def compare(name: str, text: str) -> None:
        file = MESSAGES / f"{name}.txt"
        shown = PLACE.sub(r"\1:LINE", text).rstrip("\n") + "\n"
        if request.config.getoption("--update-messages"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(shown, encoding="utf-8")
        assert file.is_file(), f"no {file.name} yet; run pytest with --update-messages, and read it"
        assert shown == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from anabranch.spark.session.startup import start_session

    scratch = tmp_path_factory.mktemp("spark")
    session = start_session(
        name="anabranch-tests",
        ui=False,
        **{
            "spark.local.dir": str(scratch / "local"),
            # Tests are many short queries: compiling them to the last costs more than it brings.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of an environment that has Anabranch from its wheel.

    What Anabranch needs is taken from the environment of the tests. A line of a `.pth` file adds a folder,
    and not what the `.pth` files in there add: Anabranch itself can only come from the wheel.
    """
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = ["wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*pip, *wheel], check=True)
    venv.create(folder / "env", with_pip=False)
    programs = folder / "env" / "bin"
    [made] = folder.glob("*.whl")
    install = ["--python", str(programs / "python"), "install", "--no-deps", str(made)]
    subprocess.run([*pip, *install], check=True)
    [packages] = (folder / "env").glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment of a process in which Python finds only what is installed."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    return {name: value for name, value in os.environ.items() if name not in hidden} | more
