"""The plugin for pytest, tried in a project of its own."""

import pytest

pytest_plugins = ["pytester"]

PROGRAM = """
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import Sum

class Paid(NamedTuple):
    time: int
    amount: int

total = Program(
    on(Paid, output=lambda n, paid: n + paid.amount, update=lambda n, paid: n + paid.amount),
    depends(Paid, Paid),
    state=Sum(),
)
"""
OPTIONS = ("-p", "no:cacheprovider", "-n", "0")


@pytest.fixture
def project(pytester):
    pytester.makepyfile(payments=PROGRAM)
    pytester.syspathinsert()
    return pytester


def test_the_marker_names_the_program_and_check_program_runs_it(project):
    project.makepyfile(
        """
        import pytest
        from payments import Paid

        pytestmark = pytest.mark.program("payments.py")

        def test_total(check_program):
            assert check_program([Paid(1, 4), Paid(2, 5)], [4, 9]).values == [4, 9]

        def test_wrong(check_program):
            check_program([Paid(1, 4)], [5])

        def test_name(program):
            assert program.name == "total"
        """
    )
    result = project.runpytest_inprocess(*OPTIONS, "--strict-markers")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*DifferenceError: total gives other outputs than expected*"])


def test_the_setting_names_the_program_of_a_project(project):
    project.makeini("[pytest]\nanabranch_program = payments.py:total\n")
    project.makepyfile(
        """
        from payments import Paid

        def test_total(check_program):
            check_program([Paid(1, 4)], [4])
        """
    )
    result = project.runpytest_inprocess(*OPTIONS, "--anabranch-on=reference,simulated")
    result.assert_outcomes(passed=1)


def test_a_test_without_a_program_is_refused_with_what_to_write(project):
    project.makepyfile("def test_none(program): pass")
    result = project.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture `program` has no program*"])
