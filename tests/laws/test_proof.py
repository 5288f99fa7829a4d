"""What is proved, what is not and why, and above all that nothing false is proved."""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from anabranch import ForkJoin, Map, Program, State, depends, on
from anabranch.errors import MissingExtraError
from anabranch.laws import check
from anabranch.laws.proving.proof import Proof, attach, prove
from anabranch.state import Count, MapOf, Max, Min, Struct, Sum

C1, C2, C3 = "update_passes_through_join", "join_undoes_fork", "independent_updates_commute"
IDENTITY, ASSOCIATIVE = "join_has_identity", "join_is_associative"
LAWS = (C1, C2, C3, IDENTITY, ASSOCIATIVE)


class Value(NamedTuple):
    time: int
    v: int


class Barrier(NamedTuple):
    time: int


class Inc(NamedTuple):
    time: int


class Dec(NamedTuple):
    time: int


class Hit(NamedTuple):
    time: int
    key: str


class Read(NamedTuple):
    time: int
    key: str


class Flag(NamedTuple):
    time: int
    up: bool


class Reading(NamedTuple):
    time: int
    x: float


class Fraud(NamedTuple):
    prev: int
    cur: int


class Run(NamedTuple):
    total: int
    top: int


@dataclass(frozen=True)
class Tally:
    size: int
    total: int


ORDER = depends(Barrier, Value, Barrier)


def reset_at_barrier(start):
    return on(Barrier, update=lambda s, e: start, output=lambda s, e: s)


def value_program(update, *, init=0, output=None, **options):
    return Program(
        on(Value, update=update, output=output), reset_at_barrier(init), ORDER, init=init, **options
    )


value_barrier = value_program(
    lambda s, e: s + e.v, zero=0, fork=lambda s, left, right: (s, 0), join=lambda a, b: a + b
)
max_temperature = value_program(
    lambda s, e: max(s, e.v), zero=0, fork=lambda s, left, right: (s, s), join=max
)
fraud = Program(
    on(
        Value,
        update=lambda s, e: Fraud(s.prev, s.cur + e.v),
        output=lambda s, e: e if s.prev % 1000 == e.v % 1000 else None,
    ),
    on(Barrier, update=lambda s, e: Fraud(s.cur, 0), output=lambda s, e: s.cur),
    ORDER,
    init=Fraud(0, 0),
    fork=lambda s, left, right: (s, Fraud(s.prev, 0)),
    join=lambda a, b: Fraud(a.prev, a.cur + b.cur),
)
inc_dec = Program(
    on(Inc, update=lambda s, e: Run(s.total + 1, max(s.top, s.total + 1))),
    on(Dec, update=lambda s, e: Run(s.total - 1, max(s.top, s.total - 1))),
    on(Barrier, update=lambda s, e: Run(0, 0), output=lambda s, e: s.top),
    depends(Barrier, Inc, Dec, Barrier),
    depends(Inc, Dec),
    init=Run(0, 0),
    fork=lambda s, left, right: (s, Run(0, 0)),
    join=lambda a, b: Run(a.total + b.total, max(a.top, a.total + b.total)),
)
key_counter = Program(
    on(Hit, update=lambda s, e: s + 1),
    on(Read, update=lambda s, e: 0, output=lambda s, e: (e.key, s)),
    depends(Read, Hit, Read, same="key"),
    state=MapOf(Count(), by="key"),
)
stats = Struct(seen=Count(), total=Sum(), low=Min(), high=Max())
statistics = Program(
    on(Value, update=lambda s, e: stats.add(s, seen=1, total=e.v, low=e.v, high=e.v)),
    on(
        Barrier,
        update=lambda s, e: stats.init,
        output=lambda s, e: [s.total // s.seen] if s.seen else None,
    ),
    ORDER,
    state=stats,
)


def verdicts(program: Program) -> dict[str, str]:
    return {proof.law: proof.verdict for proof in prove(program)}


def reasons(program: Program) -> dict[str, str]:
    return {proof.law: proof.reason for proof in prove(program)}


# --- what is proved ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [value_barrier, max_temperature, key_counter, statistics],
    ids=["value barrier", "max temperature", "key counter", "statistics"],
)
def test_every_law_is_proved(program):
    assert verdicts(program) == dict.fromkeys(LAWS, "proved")


def test_the_zero_of_a_maximum_is_proved_because_states_stay_above_it():
    found = reasons(max_temperature)
    assert found[IDENTITY] == "on reachable states, where s >= 0 (for zero)"
    assert found[C1] == "for all states"


def test_fraud_is_proved_because_siblings_have_the_same_previous_sum():
    assert verdicts(fraud) == {C1: "proved", C2: "proved", C3: "proved", ASSOCIATIVE: "proved"}
    expected = "on reachable states, where s1.prev == s2.prev (for Value on the right)"
    assert reasons(fraud)[C1] == expected


def test_inc_dec_is_proved_on_reachable_states_only():
    proofs = {proof.law: proof for proof in prove(inc_dec)}
    assert {law for law, proof in proofs.items() if proof.verdict == "proved"} == {C1, C2, C3}
    assert "s.total <= s.top" in proofs[C2].reason
    assert proofs[ASSOCIATIVE].verdict == "unknown"
    assert proofs[ASSOCIATIVE].reason.startswith(
        "holds only on reachable states, if at all: z3 has a counterexample"
    )


def test_a_modulus_is_proved_from_a_bound_that_the_program_mentions():
    program = value_program(
        lambda s, e: (s + e.v) % 7,
        zero=0,
        fork=lambda s, left, right: (s, 0),
        join=lambda a, b: (a + b) % 7,
    )
    found = {proof.law: proof for proof in prove(program)}
    assert {proof.verdict for proof in found.values()} == {"proved"}
    assert found[C2].reason == "on reachable states, where s >= 0 and s <= 6 (for any state)"


def test_truth_values_and_frozen_dataclasses_are_followed():
    flags = Program(
        on(Flag, update=lambda s, e: s or e.up),
        on(Barrier, update=lambda s, e: False, output=lambda s, e: s),
        depends(Barrier, Flag, Barrier),
        init=False,
        zero=False,
        fork=lambda s, left, right: (s, False),
        join=lambda a, b: a or b,
    )
    tally = value_program(
        lambda s, e: Tally(s.size + 1, s.total + e.v),
        init=Tally(0, 0),
        zero=Tally(0, 0),
        fork=lambda s, left, right: (s, Tally(0, 0)),
        join=lambda a, b: Tally(a.size + b.size, a.total + b.total),
    )
    assert verdicts(flags) == verdicts(tally) == dict.fromkeys(LAWS, "proved")


def test_several_state_types_are_proved_along_their_forks():
    program = Program(
        State(
            "both",
            on(Value, update=lambda s, e: (s[0] + e.v, s[1])),
            on(Inc, update=lambda s, e: (s[0], s[1] + 1)),
            on(Barrier, update=lambda s, e: (0, 0), output=lambda s, e: s),
            init=(0, 0),
        ),
        State("values", on(Value, update=lambda s, e: s + e.v)),
        State("counts", on(Inc, update=lambda s, e: s + 1)),
        ForkJoin("both", "values", "counts", lambda s, left, right: s, lambda a, b: (a, b)),
        depends(Barrier, Value, Inc, Barrier),
        depends(Value, Value),
        depends(Inc, Inc),
    )
    assert {(p.law, p.subject): p.verdict for p in prove(program)} == {
        (C1, "both -> values, counts"): "proved",
        (C2, "both -> values, counts"): "proved",
        (C3, "both"): "proved",
    }


def test_a_fork_that_asks_its_slices_is_proved_for_every_answer():
    program = value_program(
        lambda s, e: s + e.v,
        fork=lambda s, left, right: (s, 0) if left.has(Value) else (0, s),
        join=lambda a, b: a + b,
    )
    assert verdicts(program)[C2] == "proved"


def test_a_map_that_an_hour_resets_is_proved_key_by_key():
    taxi = Program(
        on(Hit, update=lambda s, e: s + 1),
        on(Barrier, update=lambda s, e: Map(), output=lambda s, e: dict(s)),
        depends(Barrier, Hit, Barrier),
        state=MapOf(Count(), by="key"),
    )
    assert verdicts(taxi) == dict.fromkeys(LAWS, "proved")


# --- where it stops ---------------------------------------------------------------------------

STOPS = {
    "float state": (
        Program(
            on(Reading, update=lambda s, e: s + e.x),
            init=0.0,
            fork=lambda s, left, right: (s, 0.0),
            join=lambda a, b: a + b,
        ),
        "not supported: the start gives a state with a float",
    ),
    "float field": (
        Program(
            on(Reading, update=lambda s, e: s + (e.x > 1)),
            init=0,
            fork=lambda s, left, right: (s, 0),
            join=lambda a, b: a + b,
        ),
        "not supported: Reading.x is read",
    ),
    "text": (value_program(lambda s, e: len(str(s))), "not supported: a number is made into text"),
    "set": (
        value_program(lambda s, e: s | {e.v}, init=frozenset()),
        "not supported: the start gives a state with a frozenset",
    ),
    "loop": (
        value_program(lambda s, e: s + sum(range(e.v))),
        "not supported: a number is used as an index or a length",
    ),
    "type": (
        value_program(lambda s, e: s + 1 if type(s) is int else s),
        "not supported: <lambda> calls type()",
    ),
    "identity": (
        value_program(lambda s, e: s or e.v is True, init=False),
        "not supported: <lambda> compares with `is`",
    ),
    "identity, by operator": (
        value_program(lambda s, e: s or operator.is_(e.v, True), init=False),
        "not supported: a function compares with `is`",
    ),
    "swallowed": (
        value_program(lambda s, e: swallow(s)),
        "not supported: a number is made into text",
    ),
    "lanes": (
        Program(
            on(Value, update=lambda s, e: s + e.v), state=Sum(), lanes=4
        ),
        "not supported: the program has lanes",
    ),
    "whole map": (
        Program(
            on(Hit, update=lambda s, e: s + 1),
            on(Barrier, update=lambda s, e: Map({k: v + 1 for k, v in s.items()})),
            depends(Barrier, Hit, Barrier),
            state=MapOf(Count(), by="key"),
        ),
        "not supported: the whole map, by Barrier, is read",
    ),
}  # fmt: skip


def swallow(state):
    try:
        return len(f"{state}")
    except:  # noqa: E722 - the rudest handler there is
        return 0


@pytest.mark.parametrize(("program", "expected"), STOPS.values(), ids=STOPS)
def test_it_says_where_it_stops(program, expected):
    proofs = prove(program)
    assert {proof.verdict for proof in proofs} == {"unknown"}
    assert {proof.reason for proof in proofs} == {expected}


def test_a_law_whose_sides_may_raise_is_not_proved():
    program = value_program(
        lambda s, e: s // e.v, fork=lambda s, left, right: (s, 0), join=lambda a, b: a + b
    )
    proof = next(p for p in prove(program) if p.law == C3)
    assert proof.verdict != "proved"


def test_without_z3_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'anabranch\[proof\]'"):
        prove(value_barrier)


# --- what goes into a report ------------------------------------------------------------------


def test_attach_turns_what_was_kept_into_what_is_proved():
    report = attach(check(max_temperature, cases=20), prove(max_temperature))
    found = {result.law: result.verdict for result in report.results}
    assert found == {"functions_are_pure": "kept", **dict.fromkeys(LAWS, "proved")}
    assert report.result(IDENTITY).reason == "on reachable states, where s >= 0 (for zero)"


def test_attach_tells_a_refutation_that_the_check_was_not_asked_about():
    report = check(value_barrier, cases=10, laws=[C2])
    refuted = Proof(C2, "state -> state, state", "refuted", "fails at the start")
    result = attach(report, [refuted]).result(C2)
    assert result.verdict == "kept"
    assert result.reason == "does not hold for all events of their types: fails at the start"


def test_attach_says_why_a_proof_stopped_and_leaves_what_is_broken():
    broken = value_barrier.changed(fork=lambda s, left, right: (s, s))
    report = check(broken, cases=30, laws=[C1, C2])
    proofs = [
        Proof(C1, "state -> state, state", "unknown", "z3 reached no result in time"),
        Proof(C2, "state -> state, state", "proved", "as a wrong proof would say"),
    ]
    attached = attach(report, proofs)
    assert attached.result(C1).verdict == "kept"
    assert attached.result(C1).reason == "not proved: z3 reached no result in time"
    assert attached.result(C2) == report.result(C2)
    assert attached.result(C2).verdict == "broken"


# --- soundness --------------------------------------------------------------------------------


def add(a, b):
    return a + b


def left_only(s, left, right):
    return (s, 0)


def both(s, left, right):
    return (s, s)


def keyed(update, inner, **options):
    return Program(
        on(Hit, update=update), on(Barrier, output=lambda s, e: dict(s)),
        depends(Barrier, Hit, Barrier), state=MapOf(inner, by="key"), **options,
    )  # fmt: skip


SUM = value_barrier
BROKEN = {
    "sum forked to both": (SUM.changed(fork=both), C2),
    "sum loses the right": (SUM.changed(join=lambda a, b: a), C1),
    "sum loses the left": (SUM.changed(join=lambda a, b: b), C2),
    "sum with a wrong zero": (SUM.changed(zero=1), IDENTITY),
    "difference": (SUM.changed(join=lambda a, b: a - b), ASSOCIATIVE),
    "maximum joined by sum": (max_temperature.changed(join=add), C2),
    "maximum forked to the left": (
        value_program(
            lambda s, e: max(s, e.v), init=-5, fork=left_only, join=max
        ),
        C2,
    ),
    "maximum with a zero above the start": (
        value_program(
            lambda s, e: max(s, e.v), init=-9, zero=0, fork=both, join=max
        ),
        IDENTITY,
    ),
    "last value": (value_program(lambda s, e: e.v, fork=both, join=lambda a, b: a), C3),
    "first value": (
        value_program(lambda s, e: s or e.v, fork=left_only, join=lambda a, b: a or b), C3,
    ),
    "halving": (value_program(lambda s, e: (s + e.v) // 2, fork=left_only, join=add), C3),
    "product joined by sum": (
        value_program(lambda s, e: s * e.v, init=1, fork=left_only, join=add), C1,
    ),
    "output of a running sum": (
        value_program(lambda s, e: s + e.v, output=lambda s, e: s, fork=left_only, join=add), C1,
    ),
    "output hidden by a rare value": (
        value_program(
            lambda s, e: s + e.v, output=lambda s, e: s if e.v == 123_457 else None,
            fork=left_only, join=add,
        ),
        C1,
    ),
    "a rare value is lost": (
        value_program(lambda s, e: s if s == 987_654 else s + e.v, fork=left_only, join=add), C1,
    ),
    "mean forgets the count": (
        value_program(
            lambda s, e: (s[0] + e.v, s[1] + 1), init=(0, 0),
            fork=lambda s, left, right: (s, (0, 0)), join=lambda a, b: (a[0] + b[0], a[1]),
        ),
        C1,
    ),
    "fields swapped": (
        value_program(
            lambda s, e: (s[0] + e.v, s[1] + 1), init=(0, 0),
            fork=lambda s, left, right: (s, (0, 0)), join=lambda a, b: (a[1] + b[1], a[0] + b[0]),
        ),
        C2,
    ),
    "truncating division": (
        value_program(
            lambda s, e: s + e.v, fork=lambda s, left, right: (s // -2, s - s // -2 + (s < -3)),
            join=add,
        ),
        C2,
    ),
    "fork drops what no side asks for": (
        value_program(
            lambda s, e: s + e.v,
            fork=lambda s, left, right: (s if left.has(Value, v=1) else 0, 0), join=add,
        ),
        C2,
    ),
    "inc and dec declared independent": (
        Program(
            on(Inc, update=lambda s, e: Run(s.total + 1, max(s.top, s.total + 1))),
            on(Dec, update=lambda s, e: Run(s.total - 1, s.top)),
            init=Run(0, 0), fork=lambda s, left, right: (s, Run(0, 0)),
            join=lambda a, b: Run(a.total + b.total, max(a.top, a.total + b.total)),
        ),
        C3,
    ),
    "entries start above zero": (keyed(lambda s, e: s + 1, Sum(start=10)), C1),
    "entries do not commute": (keyed(lambda s, e: e.time, Count()), C3),
    "a reset of all keys that depends on one": (
        Program(
            on(Hit, update=lambda s, e: s + 1), on(Read, update=lambda s, e: Map(), whole=True),
            depends(Read, Hit, Read, same="key"), state=MapOf(Count(), by="key"),
        ),
        C3,
    ),
    "a copy of what leaves write": (
        fraud.changed(join=lambda a, b: Fraud(a.prev, max(a.cur, b.cur))), C1,
    ),
    "exclusive or, told apart by type": (
        Program(
            on(Flag, update=lambda s, e: s != e.up, output=lambda s, e: (1 if s is None else s)),
            init=False, fork=lambda s, left, right: (s, False), join=lambda a, b: a != b,
        ),
        C1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("program", "law"), BROKEN.values(), ids=BROKEN)
def test_a_broken_law_is_never_proved(program, law):
    assert verdicts(program)[law] != "proved"


def test_a_counterexample_near_the_start_is_run_and_refutes():
    found = next(p for p in prove(BROKEN["sum forked to both"][0]) if p.law == C2)
    assert found.verdict == "refuted"
    assert found.reason.startswith("any state: fails after Value(time=0, v=")
