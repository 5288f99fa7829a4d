"""Every program of the ordinary corpus gives the answer of its oracle, on the reference and embedded."""

import doctest

import pytest

import bench.ordinary.__main__
import bench.ordinary.cases
from anabranch import run
from bench.ordinary.__main__ import Trial, choose_contenders, compare, describe, main, try_contender
from bench.ordinary.cases import CLOSING, find_difference, read_values
from bench.ordinary.contenders import CONTENDERS, Contender, Outcome, Place, run_embedded
from bench.ordinary.corpus import CASES, choose_cases
from bench.ordinary.inputs import draw, list_sources, write_input

N = 500


@pytest.mark.parametrize("name", CASES)
def test_oracle_a_program_gives_the_answer_of_plain_python(tmp_path, name):
    case = CASES[name]
    tables = draw(case, N)
    write_input(case, tables, tmp_path / "in", files=3)
    answer = run(case.program, list_sources(case, tmp_path / "in", ended=True), on="reference")
    expected = list(case.answer(tables))
    assert len(expected) > 10
    assert find_difference(expected, case.choose(read_values(answer.values, case.columns))) is None
    events = sum(len(rows) for rows in tables.values())
    assert (answer.ledger.input, answer.ledger.processed) == (events, events)
    embedded = run_embedded(case, Place(None, tmp_path / "in", tmp_path, 1))
    assert find_difference(expected, case.choose(embedded.rows)) is None


def test_the_corpus_has_twenty_programs_of_every_shape():
    assert len(CASES) >= 20
    formats = {given.format for case in CASES.values() for given in case.inputs.values()}
    assert formats == {"parquet", "json", "csv"}


@pytest.mark.parametrize("name", CASES)
def test_the_same_input_is_drawn_each_time_and_closed_in_every_channel(name):
    case = CASES[name]
    tables = draw(case, N)
    assert tables == draw(case, N)
    assert set(tables) == set(case.inputs)
    for rows in tables.values():
        assert any(str(value).startswith(CLOSING) for value in rows[-1].values())


def test_a_wrong_answer_and_a_failure_have_no_rate(tmp_path):
    case = CASES["turnover"]
    place = Place(None, tmp_path, tmp_path, 1)

    def fail(case, place):
        raise RuntimeError("no such thing\nand more")

    def answer(case, place):
        return Outcome([("minute 1", 5)], 2.0, "row", "a reason")

    failed = try_contender(case, Contender("a", "A", fail), place, [], 10)
    assert failed == Trial(None, "failed: RuntimeError: no such thing")
    wrong = try_contender(case, Contender("a", "A", answer), place, [("minute 1", 6)], 10)
    assert (wrong.rate, wrong.word) == (
        None,
        "wrong: 1 of 1 rows are wrong, the first is ('minute 1', 5) instead of ('minute 1', 6)",
    )
    right = try_contender(case, Contender("a", "A", answer), place, [("minute 1", 5)], 10)
    assert right == Trial(5.0, "right", "row", "a reason")


def test_a_further_runtime_is_one_more_column():
    known = {contender.name: contender for contender in CONTENDERS}
    contenders = [known[name] for name in ("anabranch-spark", "anabranch-local", "pyspark")]
    trials = {
        "anabranch-spark": Trial(200.0, path="row", reason="a list"),
        "anabranch-local": Trial(900.0),
        "pyspark": Trial(100.0),
    }
    assert compare(trials, contenders) == {"anabranch-spark": 2.0, "anabranch-local": 9.0}
    line = describe(CASES["outliers"], trials, contenders)
    assert line.split() == ["outliers", "row", "200", "2.00x", "900", "9.00x", "100", "a", "list"]
    assert compare({**trials, "pyspark": Trial(None)}, contenders) == {}


def test_programs_and_contenders_are_chosen_by_name(capsys):
    assert [case.name for case in choose_cases(("sess", "top"))] == ["sessions", "top_scores"]
    assert [contender.name for contender in choose_contenders(("pyspark",))] == ["pyspark"]
    assert main(["--only", "storm"]) == 2
    assert capsys.readouterr().err.startswith("There is no program 'storm'. Existing: sliding_")
    assert main(["--contender", "storm"]) == 2
    assert capsys.readouterr().err.startswith("There is no contender 'storm'. Existing: anabranch")


@pytest.mark.parametrize("module", [bench.ordinary.cases, bench.ordinary.__main__])
def test_the_examples_in_docstrings_hold(module):
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
