"""Which path a run takes, and what a user is told of it."""

from typing import NamedTuple

import pytest

from anabranch import Program, on
from anabranch.errors import InputError
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.path_choice import describe_row_path, plan_path
from anabranch.plan.layouts import choose_layout


class Word(NamedTuple):
    time: int
    letters: tuple[int, ...]


class Inc(NamedTuple):
    time: int


words = Program(on(Word, update=lambda n, word: n + len(word.letters)), init=0, name="words")
counts = Program(on(Inc, update=lambda n, inc: n + 1), init=0, name="counts")


def plan(program):
    return plan_columns(program, choose_layout(program, 2), {}, numbered=True)


def test_a_program_that_fits_columns_takes_them_unless_it_must_not():
    found = plan(counts)
    assert plan_path(counts, found, "auto") == plan_path(counts, found, "require") == (found, None)
    assert plan_path(counts, found, "never") == (None, None)


def test_a_program_that_does_not_fit_takes_the_row_path_and_tells_why():
    found, reason = plan_path(words, plan(words), "auto")
    assert found is None
    line = words.initial.handlers[Word].where.line
    assert reason == (
        "Word has field 'letters' of type tuple[int, ...], and its handler is not compiled: "
        f"test_path_choice.py:{line} reads letters, which has no column"
    )
    line = describe_row_path(words, reason)
    assert line.startswith(
        f"words takes the row path: {reason} (tests/microbatch/job/test_path_choice.py:"
    )


def test_a_program_that_does_not_fit_is_refused_where_columns_are_required():
    with pytest.raises(InputError, match="words can't take the columnar path") as caught:
        plan_path(words, plan(words), "require")
    assert caught.value.got == plan(words)
    assert str(caught.value.where).startswith("tests/microbatch/job/test_path_choice.py:")


def test_another_word_is_refused():
    with pytest.raises(InputError, match="'always' is not a choice of path"):
        plan_path(counts, plan(counts), "always")
