"""Whatever is proved of a random program survives a search of all small states and events."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch import Program, on
from anabranch.laws.proving.proof import prove

C1, C2, C3 = "update_passes_through_join", "join_undoes_fork", "independent_updates_commute"
IDENTITY, ASSOCIATIVE = "join_has_identity", "join_is_associative"
LAWS = (C1, C2, C3, IDENTITY, ASSOCIATIVE)


class Value(NamedTuple):
    time: int
    v: int


COMPONENTS = ("x", "y", "x + v", "y + v", "max(x, v)", "min(y, v)", "x + 1", "v", "x - y", "y + x",
              "x * v", "x // 2", "x % 3", "x if v > 0 else y", "abs(x)", "max(x, y, v)")  # fmt: skip
JOINS = ("{a} + {b}", "max({a}, {b})", "min({a}, {b})", "{a}", "{b}", "{a} - {b}", "{a} * {b}",
         "{a} if {a} > {b} else {b}")  # fmt: skip
FORKS = (("{s}", "0"), ("{s}", "{s}"), ("0", "{s}"), ("{s} // 2", "{s} - {s} // 2"),
         ("{s}", "1"), ("{s} - 1", "1"))  # fmt: skip
OUTPUTS = ("None", "None", "None", "x", "v", "[x, y]", "v if x > y else None")


@st.composite
def programs(draw):
    one, two = draw(st.sampled_from(COMPONENTS)), draw(st.sampled_from(COMPONENTS))
    output = f"lambda x, y, v: {draw(st.sampled_from(OUTPUTS))}"
    joins = [draw(st.sampled_from(JOINS)).format(a=f"a[{n}]", b=f"b[{n}]") for n in range(2)]
    forks = [[half.format(s=f"s[{n}]") for half in draw(st.sampled_from(FORKS))] for n in range(2)]
    left, right = (f"({forks[0][side]}, {forks[1][side]})" for side in range(2))
    zero = draw(st.sampled_from(((0, 0), (0, 1), (-3, -3))))
    init = draw(st.sampled_from(((0, 0), (0, 0), (1, 0), (-2, 2))))
    return {
        "update": f"lambda x, y, v: ({one}, {two})",
        "output": output,
        "join": f"lambda a, b: ({', '.join(joins)})",
        "fork": f"lambda s, left, right: ({left}, {right})",
        "zero": zero,
        "init": init,
    }


def build(text) -> Program:
    update, output = eval(text["update"]), eval(text["output"])
    return Program(
        on(Value, update=lambda s, e: update(*s, e.v), output=lambda s, e: output(*s, e.v)),
        init=text["init"],
        zero=text["zero"],
        fork=eval(text["fork"]),
        join=eval(text["join"]),
    )


BOX = tuple(itertools.product(range(-2, 3), repeat=2))
EVENTS = tuple(Value(0, v) for v in (-2, -1, 0, 1, 3))


def reach(program: Program) -> list:
    """Every state within two updates and a fork of the start."""
    states = [program.init]
    for _ in range(2):
        more = [program.update(s, e) for s in states for e in EVENTS]
        more += [side for s in states for side in program.fork(s, [Value], [Value])]
        states = list(dict.fromkeys([*states, *more]))
    return states[:60]


def brute(program: Program, law: str, *, everywhere: bool) -> object:
    """Search a small box, or small reachable states, for a counterexample."""
    join, step = program.join, program.step
    states = list(BOX) if everywhere else reach(program)
    if law == C2:
        cases = ((join(*program.fork(s, [Value], [Value])), s) for s in states)
    elif law == C3:
        orders = [(s, e, f) for s in states for e in EVENTS for f in EVENTS]
        cases = (
            (
                (step(step(s, e)[0], f)[0], step(s, e)[1]),
                (step(step(s, f)[0], e)[0], step(step(s, f)[0], e)[1]),
            )
            for s, e, f in orders
        )
    elif law == IDENTITY:
        zero = program.initial.shape.zero
        cases = ((join(*pair), s) for s in states for pair in ((s, zero), (zero, s)))
    elif law == ASSOCIATIVE:
        some = states[::2]
        cases = (
            (join(join(a, b), c), join(a, join(b, c))) for a in some for b in some for c in some
        )
    else:
        if everywhere:
            pairs = list(itertools.product(BOX[::2], BOX[::2]))
        else:
            pairs = [program.fork(s, [Value], [Value]) for s in states]
            pairs += [(step(a, e)[0], b) for a, b in pairs for e in EVENTS]
            pairs += [(a, step(b, e)[0]) for a, b in pairs[:200] for e in EVENTS]
        events = [(a, b, e) for a, b in pairs for e in EVENTS]
        cases = itertools.chain(
            (((join(step(a, e)[0], b), step(a, e)[1]), step(join(a, b), e)) for a, b, e in events),
            (((join(a, step(b, e)[0]), step(b, e)[1]), step(join(a, b), e)) for a, b, e in events),
        )
    return next((case for case in cases if case[0] != case[1]), None)


def test_whatever_is_proved_survives_brute_force():
    proved = dict.fromkeys(LAWS, 0)

    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def search(text):
        program = build(text)
        for proof in prove(program, timeout_ms=1000):
            if proof.verdict == "proved":
                proved[proof.law] += 1
                everywhere = proof.reason == "for all states"
                assert brute(program, proof.law, everywhere=everywhere) is None, (proof, text)

    search()
    # A test of soundness that proves nothing would test nothing.
    assert all(count >= 1 for count in proved.values()), proved
