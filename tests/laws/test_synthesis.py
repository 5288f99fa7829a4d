"""Forks and joins that are found, those that are not and why, and that the text is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from anabranch import Map, Program, depends, on
from anabranch.laws import check
from anabranch.laws.synthesis import synthesis as synthesis_module
from anabranch.laws.synthesis.grammar import read_layout, write_literal, write_pair
from anabranch.laws.synthesis.synthesis import synthesise
from anabranch.state import Sum

CASES = 15


class Value(NamedTuple):
    time: int
    v: int


class Barrier(NamedTuple):
    time: int


class Hit(NamedTuple):
    time: int
    key: str


class Read(NamedTuple):
    time: int
    key: str


class View(NamedTuple):
    time: int
    page: str


class Update(NamedTuple):
    time: int
    page: str
    meta: int


class Reading(NamedTuple):
    time: int
    x: float


class Fraud(NamedTuple):
    prev: int
    cur: int


class Range(NamedTuple):
    low: int
    high: int
    total: int


@dataclass(frozen=True)
class Alarm:
    raised: bool
    seen: int


def values(update, init, *, output=None, barrier=None, report=lambda s, e: s):
    """A program of values between barriers, without a fork."""
    return Program(
        on(Value, update=update, output=output),
        on(Barrier, update=barrier or (lambda s, e: init), output=report),
        depends(Barrier, Value, Barrier),
        init=init,
    )


def hit(s, e):
    return {**s, e.key: s.get(e.key, 0) + 1}


FOUND = {
    "sum": (
        values(lambda s, e: s + e.v, 0),
        """
fork=lambda s, left, right: (s, 0),
join=lambda a, b: a + b,
zero=0,
""",
    ),
    "maximum": (
        values(lambda s, e: max(s, e.v), 0),
        """
fork=lambda s, left, right: (s, s),
join=lambda a, b: max(a, b),
zero=0,
""",
    ),
    "fraud": (
        values(
            lambda s, e: Fraud(s.prev, s.cur + e.v),
            Fraud(0, 0),
            output=lambda s, e: e if s.prev % 1000 == e.v % 1000 else None,
            barrier=lambda s, e: Fraud(s.cur, 0),
            report=lambda s, e: s.cur,
        ),
        """
fork=lambda s, left, right: (s, Fraud(s.prev, 0)),
join=lambda a, b: Fraud(a.prev, a.cur + b.cur),
""",
    ),
    "sum and count": (
        values(lambda s, e: (s[0] + e.v, s[1] + 1), (0, 0)),
        """
fork=lambda s, left, right: (s, (0, 0)),
join=lambda a, b: (a[0] + b[0], a[1] + b[1]),
zero=(0, 0),
""",
    ),
    "minimum, maximum and sum": (
        values(
            lambda s, e: Range(min(s.low, e.v), max(s.high, e.v), s.total + e.v),
            Range(10**7, -(10**7), 0),
        ),
        """
fork=lambda s, left, right: (s, Range(s.low, s.high, 0)),
join=lambda a, b: Range(min(a.low, b.low), max(a.high, b.high), a.total + b.total),
zero=Range(10000000, -10000000, 0),
""",
    ),
    "distinct values": (
        values(lambda s, e: s | {e.v}, frozenset(), report=lambda s, e: len(s)),
        """
fork=lambda s, left, right: (s, frozenset()),
join=lambda a, b: a | b,
zero=frozenset(),
""",
    ),
    "metadata of a page": (
        Program(
            on(View, output=lambda s, e: s),
            on(Update, update=lambda s, e: e.meta, output=lambda s, e: s),
            depends(Update, View, Update),
            init=10_000,
        ),
        """
fork=lambda s, left, right: (s, s),
join=lambda a, b: a,
""",
    ),
    "counts by key between barriers": (
        Program(
            on(Hit, update=hit),
            on(Barrier, update=lambda s, e: {}, output=lambda s, e: dict(s)),
            depends(Barrier, Hit, Barrier),
            init={},
        ),
        """
fork=lambda s, left, right: (s, {}),
join=lambda a, b: {**a, **b, **{k: a[k] + b[k] for k in a.keys() & b.keys()}},
zero={},
""",
    ),
    "counts by key, read by key": (
        Program(
            on(Hit, update=hit),
            on(Read, update=lambda s, e: {**s, e.key: 0}, output=lambda s, e: s.get(e.key, 0)),
            depends(Read, Hit, Read, same="key"),
            init={},
        ),
        """
fork=lambda s, left, right: ({k: v for k, v in s.items() if left.has_value('key', k)}, {k: v for k, v in s.items() if not left.has_value('key', k)}),
join=lambda a, b: {**a, **b, **{k: a[k] + b[k] for k in a.keys() & b.keys()}},
zero={},
""",
    ),
    "an alarm that stays": (
        values(lambda s, e: Alarm(s.raised or e.v > 100, s.seen + 1), Alarm(False, 0)),
        """
fork=lambda s, left, right: (s, Alarm(False, 0)),
join=lambda a, b: Alarm((a.raised or b.raised), a.seen + b.seen),
zero=Alarm(False, 0),
""",
    ),
    "a sum that starts at ten": (
        values(lambda s, e: s + e.v, 10),
        """
fork=lambda s, left, right: (s, 0),
join=lambda a, b: a + b,
zero=0,
""",
    ),
    "a checksum": (
        values(lambda s, e: (s + e.v) % 7, 0),
        """
fork=lambda s, left, right: (s, 0),
join=lambda a, b: (a + b) % 7,
zero=0,
""",
    ),
    "a maximum of nothing yet": (
        values(lambda s, e: e.v if s is None else max(s, e.v), None),
        """
fork=lambda s, left, right: (s, s),
join=lambda a, b: (b if a is None else a if b is None else max(a, b)),
zero=None,
""",
    ),
    "the best two": (
        values(lambda s, e: tuple(sorted((*s, e.v), reverse=True)[:2]), ()),
        """
fork=lambda s, left, right: (s, ()),
join=lambda a, b: tuple(sorted(a + b, reverse=True)[:2]),
zero=(),
""",
    ),
}


@pytest.mark.parametrize(("program", "code"), FOUND.values(), ids=FOUND)
def test_a_fork_and_join_is_found_and_its_text_keeps_the_laws(program, code, monkeypatch):
    monkeypatch.setattr(synthesis_module, "prove", lambda program: ())  # It has its own test.
    found = synthesise(program, cases=CASES)
    assert found.found, found
    assert found.code == code.strip()
    pasted = eval(f"dict({found.code})", {**globals(), "Map": Map})
    report = check(program.changed(**pasted), cases=CASES, seed=1)
    assert report.ok, report
    assert found.program is not None
    assert found.program.forks
    assert found.report is not None
    assert found.report.ok


def test_what_is_found_is_proved_where_it_can_be():
    found = synthesise(FOUND["fraud"][0], cases=CASES)
    assert found.report is not None
    assert found.report.result("update_passes_through_join").verdict == "proved"
    assert found.reason == f"the laws were kept in {CASES} cases each, and 4 of them proved"


def test_without_z3_it_is_found_all_the_same(monkeypatch):
    def refuse(program):
        raise synthesis_module.MissingExtraError("proofs need z3, which is not installed")

    monkeypatch.setattr(synthesis_module, "prove", refuse)
    found = synthesise(FOUND["sum"][0], cases=CASES)
    assert found.found
    assert found.reason == f"the laws were kept in {CASES} cases each"


def test_a_float_sum_is_found_with_what_cures_its_rounding(monkeypatch):
    program = Program(
        on(Reading, update=lambda s, e: s + e.x),
        on(Barrier, update=lambda s, e: 0.0, output=lambda s, e: s),
        depends(Barrier, Reading, Barrier),
        init=0.0,
    )
    # One law shows the rounding; all of them would only take longer.
    one = {"laws": ["update_passes_through_join"]}
    monkeypatch.setattr(synthesis_module, "check", lambda p, **how: check(p, **{**how, **one}))
    found = synthesise(program, cases=CASES)
    assert found.found
    assert (
        found.code == "fork=lambda s, left, right: (s, 0.0),\njoin=lambda a, b: a + b,\nzero=0.0,"
    )
    assert "but for the sides differ" not in found.reason
    assert "add lanes=8" in found.reason


def test_many_parts_are_searched_one_at_a_time(monkeypatch):
    monkeypatch.setattr(synthesis_module, "prove", lambda program: ())  # Not what is tested here.

    def update(s, e):
        low, high, total, size, largest, squares = s
        return (
            min(low, e.v), max(high, e.v), total + e.v, size + 1,
            max(largest, abs(e.v)), squares + e.v * e.v,
        )  # fmt: skip

    found = synthesise(values(update, (10**7, -(10**7), 0, 0, 0, 0)), cases=CASES)
    assert found.found, found
    assert found.tried <= synthesis_module.MAX_CLIMBS
    assert "min(a[0], b[0]), max(a[1], b[1]), a[2] + b[2]" in found.code


@pytest.mark.parametrize(
    ("update", "init"),
    [(lambda s, e: 0.9 * s + 0.1 * e.v, 0.0), (lambda s, e: (*s, e.v), ())],
    ids=["a moving average", "a list"],
)
def test_none_is_found_where_independent_events_do_not_commute(update, init):
    found = synthesise(values(update, init), cases=CASES)
    assert not found.found
    assert found.code == ""
    assert found.program is None
    assert found.reason.startswith("independent_updates_commute is broken already")
    assert not found.report.ok


def test_the_part_that_got_stuck_is_named():
    # Two phases could be joined by a product modulo 5, which is not in the grammar.
    class Wheel(NamedTuple):
        turns: int
        phase: int

    def update(s, e):
        return Wheel(s.turns + e.v, s.phase * 3 % 5)

    found = synthesise(values(update, Wheel(0, 1)), cases=CASES)
    assert not found.found
    assert found.reason == "nothing in the grammar joins s.phase as its updates change it"
    assert found.tried > 50


def test_a_program_that_has_a_fork_or_nothing_apart_is_left_alone():
    forked = Program(on(Value, update=lambda s, e: s + e.v), state=Sum())
    chained = Program(on(Value, update=lambda s, e: e.v), depends(Value, Value), init=0)
    assert synthesise(forked).reason == "the program has a fork and join already"
    assert synthesise(chained, cases=CASES).reason == (
        "every two events depend on each other: nothing can run in parallel"
    )


def test_the_same_seed_finds_the_same():
    program = FOUND["minimum, maximum and sum"][0]
    one, two = (synthesise(program, cases=10, seed=3) for _ in range(2))
    assert (one.code, one.tried) == (two.code, two.tried)


def test_progress_is_told():
    told = []
    synthesise(FOUND["fraud"][0], cases=10, progress=lambda *args: told.append(args))
    assert any(what == "trying forks and joins" for what, _, _ in told)
    assert any(what == "update_passes_through_join" for what, _, _ in told)


def test_nested_records_are_written_with_their_names():
    states = [(Fraud(0, 1), 2), (Fraud(3, 4), 5)]
    layout = read_layout(states, (), ())
    assert [slot.path for slot in layout.slots()] == ["s[0].prev", "s[0].cur", "s[1]"]
    sums = [slot.pieces[0] for slot in layout.slots()]
    pair = write_pair(layout, sums, zero=True)
    built = pair.build({"Fraud": Fraud})
    assert built["zero"] == (Fraud(0, 0), 0)
    assert built["fork"]((Fraud(1, 2), 3), None, None) == ((Fraud(1, 2), 3), (Fraud(0, 0), 0))
    assert built["join"]((Fraud(1, 2), 3), (Fraud(4, 5), 6)) == (Fraud(5, 7), 9)


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), ("a", "'a'"), (None, "None"), (float("nan"), None), (object(), None)],
)
def test_only_what_can_be_read_back_is_written(value, text):
    assert write_literal(value) == text
