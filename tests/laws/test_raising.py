"""Functions that always raise, which no law would notice."""

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import load
from anabranch.laws import check

FILE = "tests/laws/raising_programs.py"


def look_at(name):
    target = f"{FILE}:{name}"
    return check(load(target), cases=20, laws="functions_are_pure", target=target)


def line_of(text):
    lines = Path(FILE).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(("name", "function", "error", "text"), [
    (
        "misspelt_field", "the update of Txn",
        "AttributeError: 'Txn' object has no attribute 'amout'", "txn.amout",
    ),
    (
        "misspelt_output", "the output of Report",
        "NameError: name 'totl' is not defined", "totl",
    ),
    (
        "builtin_update", "the update of Txn",
        "TypeError: unsupported operand type(s) for +: 'int' and 'Txn'", "operator.add",
    ),
    (
        "misspelt_due", "the due of Wake",
        "AttributeError: 'int' object has no attribute 'when'", "total.when",
    ),
])  # fmt: skip
def test_a_function_that_always_raises_is_named_with_its_line(name, function, error, text):
    report = look_at(name)
    assert not report.ok
    assert [(one.function, one.error, one.where) for one in report.raising] == [
        (function, error, f"raising_programs.py:{line_of(text)}")
    ]


@pytest.mark.parametrize("name", ["misspelt_field", "misspelt_due"])
def test_the_smallest_case_raises_when_it_is_run(name):
    (one,) = look_at(name).raising
    done = subprocess.run(
        [sys.executable, "-c", one.code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(one.error)


def test_a_function_that_returns_on_some_event_is_no_defect():
    report = look_at("sometimes")
    assert report.raising == ()
    assert report.ok


def test_the_message_is_as_written_down(message):
    (one,) = look_at("misspelt_field").raising
    message("function_that_always_raises", str(one))


def test_a_report_as_data_has_the_function():
    document = look_at("builtin_update").to_json()
    assert document["ok"] is False
    assert [one["function"] for one in document["raising"]] == ["the update of Txn"]
