"""Each seeded fault is found, under its own law and no other, and shown by its smallest case."""

import re

import pytest

from anabranch import load
from anabranch.laws import check
from anabranch.model.targets import load_module

FILE = "tests/laws/broken_programs.py"
BROKEN = load_module(FILE).BROKEN


def count_events(code):
    return len(re.findall(r"\w+\(time=", code))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_program_breaks_exactly_its_laws_and_shows_the_smallest_case(broken):
    target = f"{FILE}:{broken.name}"

    report = check(load(target), cases=150, target=target)

    found = [result for result in report.results if result.counterexample is not None]
    assert {r.law: count_events(r.counterexample.code) for r in found} == broken.laws
    assert {r.verdict for r in found} == {broken.verdict}
    assert not report.ok
    for result in found:
        assert result.counterexample.where.file == FILE
        with pytest.raises(AssertionError):
            exec(result.counterexample.code, {})


def test_there_are_enough_ways_to_go_wrong():
    assert len(BROKEN) >= 24
    assert {law for broken in BROKEN for law in broken.laws} == {
        "functions_are_pure",
        "update_passes_through_join",
        "join_undoes_fork",
        "independent_updates_commute",
        "join_has_identity",
        "join_is_associative",
    }
