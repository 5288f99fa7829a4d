"""Whatever a user's function raises becomes a reason, in one place."""

import operator
import sys
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from anabranch import Event, Program, on
from anabranch.errors import StateTooLargeError
from anabranch.model.failures import MOST_CHARACTERS, Failed, Passing, attempt
from anabranch.model.step import run as call
from anabranch.reference.sequential import run


class Mute(Exception):  # noqa: N818 - as users name them
    def __str__(self):
        raise RuntimeError("no words")


class Quitting(Exception):  # noqa: N818 - as users name them
    def __str__(self):  # noqa: PLE0307 - it must not return
        sys.exit(0)


class Odd(BaseException):
    pass


class Deposit(NamedTuple):
    time: int


def fail(error):
    raise error


def recurse():
    return recurse()


@pytest.mark.parametrize(("error", "words"), [
    (ValueError("no such key"), "ValueError: no such key"),
    (Mute(), "Mute: (its __str__ raises RuntimeError)"),
    (Quitting(), "Quitting: (its __str__ raises SystemExit)"),
    (SystemExit(0), "SystemExit: 0"),
    (MemoryError(), "MemoryError: "),
    (Odd("x"), "Odd: x"),
])  # fmt: skip
def test_an_exception_becomes_a_reason_with_the_users_line(error, words):
    line = fail.__code__.co_firstlineno + 1
    place = f"test_failures.py:{line}"
    assert attempt(fail, error) == Failed(error, f"{words} ({place})", place)


def test_endless_recursion_is_a_reason():
    failed = attempt(recurse)
    assert isinstance(failed, Failed)
    assert failed.kind == "RecursionError"


def test_the_line_is_the_users_where_a_library_raises():
    def parse():
        import json

        return json.loads("{")

    failed = attempt(parse)
    assert failed.reason.endswith(f"(test_failures.py:{parse.__code__.co_firstlineno + 3})")


def test_a_long_message_is_cut_short():
    assert len(attempt(fail, ValueError("x" * 10_000)).reason) < MOST_CHARACTERS + 100


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), GeneratorExit(), Passing(), StateTooLargeError(2, 1, "items", stops=True)],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_must_stop_a_run_passes(error):
    with pytest.raises(type(error)):
        attempt(fail, error)


class Txn(NamedTuple):
    time: int
    amount: int


@pytest.mark.parametrize("error", [Mute(), SystemExit(0), Odd()], ids=lambda e: type(e).__name__)
def test_an_event_on_which_a_function_raises_anything_is_rejected(error):
    def update(state, event):
        if event.amount < 0:
            raise error
        return state + event.amount

    program = Program(on(Txn, update=update), init=0)
    answer = run(
        program, [Event(Txn(1, 5), "a", 0), Event(Txn(2, -5), "a", 1), Event(Txn(3, 1), "a", 2)]
    )
    assert (answer.ledger.input, answer.ledger.rejected) == (3, 1)
    assert answer.rejected[0].reason.startswith(f"on Txn: {type(error).__name__}: ")


def test_a_function_without_a_line_of_its_own_is_located_where_its_handler_was_written():
    handler = on(Deposit, update=operator.add)
    failed = attempt(call, handler, 0, Deposit(1))
    assert failed.place == f"test_failures.py:{handler.where.line}"
    assert failed.reason == (
        f"TypeError: unsupported operand type(s) for +: 'int' and 'Deposit' ({failed.place})"
    )


def test_the_line_is_the_users_and_not_one_of_a_generated_method():
    @dataclass(frozen=True)
    class Fixed:
        n: int

    def change(fixed):
        fixed.n = 2

    line = change.__code__.co_firstlineno + 1
    assert attempt(change, Fixed(1)).place == f"test_failures.py:{line}"
