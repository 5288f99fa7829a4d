import json
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from anabranch import AnabranchError, Program, depends, load, on
from anabranch.laws import LAWS, check
from anabranch.model.targets import load_module
from anabranch.state import MapOf, Sum

BROKEN = "tests/laws/broken_programs.py"
GOOD = "tests/laws/good_programs.py"


class Value(NamedTuple):
    time: int
    amount: int


class Level(NamedTuple):
    time: int
    amount: float


class Barrier(NamedTuple):
    time: int


def keep_left(state, left, right):
    return state, type(state)(0)


def add_up(left, right):
    return left + right


@pytest.mark.parametrize("name", ["double_count", "sampled", "peeking_output"])
def test_the_same_seed_gives_the_same_report(name):
    first, second = (check(load(f"{BROKEN}:{name}"), cases=40, seed=3).to_json() for _ in range(2))

    assert first == second


def test_the_same_seed_rounds_the_same_way():
    laws = ["independent_updates_commute"]
    program = load(f"{BROKEN}:float_sum")

    first, second = (check(program, cases=40, seed=3, laws=laws).to_json() for _ in range(2))

    assert first == second


def test_the_seed_is_in_the_report_and_in_the_counterexample():
    report = check(load(f"{BROKEN}:double_count"), cases=50, seed=11)

    assert report.seed == 11
    assert report.result("join_undoes_fork").counterexample.seed == 11


def test_a_report_is_plain_data():
    report = check(load(f"{BROKEN}:double_count"), cases=50)

    again = json.loads(json.dumps(report.to_json()))

    assert again["ok"] is False
    broken = [r for r in again["results"] if r["verdict"] == "broken"]
    assert [r["law"] for r in broken] == ["join_undoes_fork"]
    assert broken[0]["counterexample"]["expected"] == "1"


def test_every_law_is_checked_in_order_unless_some_are_named():
    program = load(f"{GOOD}:max_temp")

    assert [r.law for r in check(program, cases=5).results] == [law.name for law in LAWS]
    only = check(program, cases=5, laws=["join_undoes_fork"])
    assert [(r.law, r.title) for r in only.results] == [("join_undoes_fork", "C2")]
    with pytest.raises(KeyError, match="was not checked"):
        only.result("join_has_identity")


def test_a_law_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(AnabranchError, match="join_undoes_fork"):
        check(load(f"{GOOD}:max_temp"), laws=["join_redoes_fork"])


@pytest.mark.parametrize(
    "arguments", [{"cases": 0}, {"events": {int: st.integers()}}, {"events": {Value: 3}}]
)
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(AnabranchError):
        check(Program(on(Value), init=0), **arguments)


def test_progress_is_told_for_each_law():
    told = []

    check(load(f"{GOOD}:max_temp"), cases=40, progress=lambda *news: told.append(news))

    assert {law for law, _, _ in told} == {law.name for law in LAWS}
    assert all(0 < done <= total == 40 for _, done, total in told)


def test_a_program_without_a_fork_skips_the_laws_of_forks():
    report = check(load(f"{GOOD}:moving_average"), cases=10)

    assert report.result("join_undoes_fork").verdict == "skipped"
    assert report.result("join_undoes_fork").reason == "the program has no fork and join"
    assert report.result("independent_updates_commute").verdict == "kept"


def test_where_everything_depends_nothing_is_apart():
    program = Program(
        on(Value, update=lambda s, e: e.amount),
        depends(Value, Value),
        init=0,
        fork=keep_left,
        join=add_up,
    )

    report = check(program, cases=10)

    assert report.result("independent_updates_commute").verdict == "skipped"
    assert "nothing can run in parallel" in report.result("update_passes_through_join").reason
    assert report.ok


def test_nothing_else_is_said_of_functions_that_are_not_pure():
    report = check(load(f"{BROKEN}:changed_in_place"), cases=20)

    rest = [r for r in report.results if r.law != "functions_are_pure"]
    assert {r.verdict for r in rest} == {"skipped"}
    assert all("functions_are_pure is broken" in r.reason for r in rest)


def test_checking_a_program_that_changes_its_state_in_place_leaves_its_start_alone():
    program = load(f"{BROKEN}:changed_in_place")

    check(program, cases=20)

    assert program.init == {}


def test_events_can_be_given_where_not_every_event_makes_sense():
    program = Program(
        on(Value, update=lambda s, e: s + abs(e.amount)),
        on(Barrier, output=lambda s, e: s < 0),
        depends(Barrier, Value),
        init=0,
        fork=lambda s, left, right: (s, 0),
        join=lambda left, right: max(left, right) if left == -1 else left + right,
    )
    small = st.builds(Value, time=st.just(0), amount=st.integers(5, 6))

    report = check(program, cases=50, events={Value: small})

    assert report.ok


def test_rounding_names_the_cures_that_apply():
    result = check(
        load(f"{BROKEN}:float_sum"), cases=60, laws=["update_passes_through_join"]
    ).results[0]

    assert result.verdict == "rounding"
    assert "lanes=8" in result.reason
    assert "checked with lanes=4" in result.reason
    assert "ExactSum" in result.reason


def test_rounding_without_independent_lanes_is_cured_by_exact_sums_only():
    program = Program(
        on(Level, update=lambda s, e: s + e.amount),
        on(Value, update=lambda s, e: s + 0.1 * e.amount),
        depends(Level, Value),
        init=0.0,
        fork=lambda s, left, right: (s, 0.0),
        join=add_up,
    )

    result = check(program, cases=60, laws=["update_passes_through_join"]).results[0]

    assert result.verdict == "rounding"
    assert "lanes= does not apply" in result.reason


def test_a_true_break_is_preferred_to_rounding():
    program = Program(
        on(Level, update=lambda s, e: s + e.amount),
        init=0.0,
        fork=lambda s, left, right: (s, 0.0),
        join=lambda left, right: left + (right if right < 1000 else 1000.0),
    )

    result = check(program, laws=["update_passes_through_join"]).results[0]

    assert result.verdict == "broken"
    assert abs(result.counterexample.expected - result.counterexample.got) > 0.1


def test_lanes_do_not_hide_a_state_that_cannot_be_cut():
    report = check(load(f"{BROKEN}:reset_of_one_lane"), cases=100)

    result = report.result("independent_updates_commute")
    assert "without its lanes" in result.reason
    assert ".changed(lanes=None)" in result.counterexample.code


def test_a_side_that_raises_what_the_whole_raises_breaks_nothing():
    def divide(state, event):
        return state + 10 // event.amount

    program = Program(on(Value, update=divide), init=0, fork=keep_left, join=add_up)

    assert check(program, cases=100).ok


def test_a_fork_that_raises_is_found_and_shown():
    program = Program(
        on(Value, update=lambda s, e: {**s, e.amount: 1}),
        init={},
        fork=lambda s, left, right: (s, {k: s[k - 1] for k in s}),
        join=lambda left, right: {**left, **right},
    )

    found = check(program, cases=100).result("join_undoes_fork").counterexample

    assert repr(found.got) == "raises KeyError"
    assert "outcome(lambda: program.join(*program.fork(" in found.code


def test_without_a_target_the_reader_puts_the_program_in():
    found = check(Program(on(Value, update=lambda s, e: e.amount), init=0), cases=50)

    code = found.result("independent_updates_commute").counterexample.code
    assert "program = ...  # your program" in code


def test_what_does_not_commute_is_advised_to_be_declared():
    result = check(load(f"{BROKEN}:missing_dependence"), cases=100).result(
        "independent_updates_commute"
    )

    assert "depends(Inc, Reset)" in result.reason or "depends(Reset, Inc)" in result.reason


def test_a_break_behind_a_threshold_is_found_by_the_programs_own_constants():
    program = Program(
        on(Value, update=lambda s, e: s + (1 if e.amount != 4711 else 10 * (s + 1))), init=0
    )

    result = check(program, laws=["independent_updates_commute"]).results[0]

    assert result.verdict == "broken"


def test_every_law_has_a_sentence_of_theory():
    assert all(law.theory.endswith(".") and law.equation for law in LAWS)
    assert load_module(BROKEN).BROKEN


class Transfer(NamedTuple):
    time: int
    account: int
    amount: int


def test_the_advice_for_events_of_one_key_keeps_other_keys_apart():
    program = Program(
        on(Transfer, update=lambda s, e: max(0, s + e.amount), output=lambda s, e: s),
        state=MapOf(Sum(), by="account"),
    )
    (found,) = check(program, laws=["independent_updates_commute"]).results
    assert (
        found.reason
        == 'declare depends(Transfer, Transfer, same="account"), or make the two commute'
    )
    mended = program.changed(depends(Transfer, Transfer, same="account"))
    assert {r.verdict for r in check(mended).results} <= {"kept", "skipped"}
