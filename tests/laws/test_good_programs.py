"""Programs that keep the laws are not accused."""

import pytest

from anabranch import load
from anabranch.laws import check
from anabranch.model.targets import load_module

FILE = "tests/laws/good_programs.py"
GOOD = load_module(FILE).GOOD


@pytest.mark.parametrize("name", GOOD)
def test_a_good_program_keeps_every_law(name):
    report = check(load(f"{FILE}:{name}"), cases=100, seed=1, events=GOOD[name])

    assert [str(r) for r in report.results if r.verdict not in ("kept", "skipped")] == []
    assert report.ok
