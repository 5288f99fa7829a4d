"""What a user reads when a law is broken, word for word."""

from pathlib import Path

import pytest

from anabranch import load
from anabranch.laws import check

FILE = "tests/laws/broken_programs.py"
MESSAGES = Path("tests/messages")


@pytest.mark.parametrize(
    "name",
    [
        "double_count",
        "float_sum",
        "missing_dependence",
        "changed_in_place",
        "peeking_output",
        "forgotten_limit",
        "dropped_state_type",
        "reset_of_one_lane",
    ],
)
def test_the_message_is_as_written_down(name):
    target = f"{FILE}:{name}"

    message = f"{check(load(target), cases=100, target=target)}\n"

    assert message == (MESSAGES / f"laws_{name}.txt").read_text(encoding="utf-8")
