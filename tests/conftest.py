import os
import re
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
        "anabranch-tests",
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
