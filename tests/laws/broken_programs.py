"""Programs that each break a law as real ones do, with the law and the size of the smallest case."""

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from anabranch import ForkJoin, Program, State, depends, on

PURE = "functions_are_pure"
C1 = "update_passes_through_join"
C2 = "join_undoes_fork"
C3 = "independent_updates_commute"
IDENTITY = "join_has_identity"
ASSOCIATIVE = "join_is_associative"


class Value(NamedTuple):
    time: int
    amount: int


class Level(NamedTuple):
    time: int
    amount: float


class Share(NamedTuple):
    time: int
    amount: Fraction


class Barrier(NamedTuple):
    time: int


class Inc(NamedTuple):
    time: int


class Dec(NamedTuple):
    time: int


class Reset(NamedTuple):
    time: int


class Put(NamedTuple):
    time: int
    key: int
    group: str
    value: int


class View(NamedTuple):
    time: int
    page: int


class Update(NamedTuple):
    time: int
    page: int
    text: str


def add(total, event):
    return total + event.amount


def add_up(left, right):
    return left + right


def keep_left(state, left, right):
    return state, 0


def say(state, event):
    return state


summing = (on(Value, update=add), on(Barrier, output=say), depends(Barrier, Value, Barrier))

# Sums whose fork, join or zero is wrong.

double_count = Program(*summing, init=0, fork=lambda s, left, right: (s, s), join=add_up)

forgetful_join = Program(*summing, init=0, fork=keep_left, join=lambda left, right: left)

subtracting_join = Program(*summing, init=0, fork=keep_left, join=lambda left, right: left - right)

wrong_zero = Program(*summing, init=0, zero=1, fork=keep_left, join=add_up)

float_sum = Program(
    on(Level, update=add),
    on(Barrier, output=say),
    depends(Barrier, Level, Barrier),
    init=0.0,
    zero=0.0,
    fork=lambda s, left, right: (s, 0.0),
    join=add_up,
)

freezing_maximum = Program(
    on(Value, update=lambda top, e: max(top, e.amount)),
    on(Barrier, output=say, update=lambda top, e: -273),
    depends(Barrier, Value, Barrier),
    init=-273,
    zero=0,
    fork=lambda s, left, right: (s, s),
    join=max,
)


def fork_by_name(state, left, right):
    if left.has(Inc):
        return state, 0
    return (0, state) if right.has(Inc) else (0, 0)


named_fork = Program(
    on(Inc, update=lambda s, e: s + 1),
    on(Dec, update=lambda s, e: s - 1),
    init=0,
    fork=fork_by_name,
    join=add_up,
)

capped_counter = Program(
    on(Inc, update=lambda n, e: min(n + 1, 3)), init=0, fork=keep_left, join=add_up
)


def fork_level(state, left, right):
    level, total = state
    return (level + 1, total), (level + 1, 0)


def join_level(left, right):
    return left[0] - 1, left[1] + right[1]


level_counter = Program(
    on(Value, update=lambda s, e: (s[0], s[1] + e.amount)),
    init=(0, 0),
    fork=fork_level,
    join=join_level,
)


def fork_top_level(state, left, right):
    level, total = state
    return (level + 1, total), (level + 1, total if level else 0)


shallow_fork = Program(
    on(Value, update=lambda s, e: (s[0], s[1] + e.amount)),
    init=(0, 0),
    fork=fork_top_level,
    join=join_level,
)

# Updates that do not commute, and nobody said so.

last_writer = Program(on(Value, update=lambda s, e: e.amount), init=0)

moving_average = Program(on(Level, update=lambda s, e: 0.5 * s + 0.5 * e.amount), init=0.0)

appended_log = Program(on(Value, update=lambda log, e: (*log, e.amount)), init=())

missing_dependence = Program(
    on(Inc, update=lambda s, e: s + 1),
    on(Reset, update=lambda s, e: 0),
    depends(Reset, Reset),
    init=0,
)

reset_of_one_lane = Program(
    on(Inc, update=lambda s, e: s + 1),
    on(Reset, update=lambda s, e: 0),
    on(Barrier, output=say),
    depends(Barrier, Inc, Reset, Barrier),
    init=0,
    fork=keep_left,
    join=add_up,
    zero=0,
    lanes=4,
)


def count_up(state, event):
    total, top = state
    return total + 1, max(top, total + 1)


def count_down(state, event):
    total, top = state
    return total - 1, top


def join_peaks(left, right):
    total = left[0] + right[0]
    return total, max(left[1], total)


unordered_peak = Program(on(Inc, update=count_up), on(Dec, update=count_down), init=(0, 0))

peak_from_one = Program(
    on(Inc, update=count_up),
    on(Dec, update=count_down),
    on(Barrier, output=lambda s, e: s[1], update=lambda s, e: (0, 0)),
    depends(Barrier, Inc, Dec, Barrier),
    depends(Inc, Dec),
    init=(0, 0),
    zero=(1, 0),
    fork=lambda s, left, right: (s, (0, 0)),
    join=join_peaks,
)

weak_same = Program(
    on(Put, update=lambda table, e: {**table, e.group: e.value}),
    depends(Put, Put, same=("key", "group")),
    init={},
)

peeking_output = Program(on(Value, update=add, output=say), init=0, fork=keep_left, join=add_up)

# States of several parts.

forgotten_rule = Program(
    on(
        Value,
        update=lambda s, e: (s[0], s[1] + e.amount),
        output=lambda s, e: e.amount if s[0] == e.amount else None,
    ),
    on(Barrier, update=lambda s, e: (s[1], 0)),
    depends(Barrier, Value, Barrier),
    init=(0, 0),
    fork=lambda s, left, right: (s, (0, 0)),
    join=lambda left, right: (left[0], left[1] + right[1]),
)


def spend(state, event):
    limit, spent = state
    if event.amount > limit:
        raise ValueError("over the limit")
    return limit, spent + event.amount


forgotten_limit = Program(
    on(Value, update=spend),
    init=(10, 0),
    fork=lambda s, left, right: (s, (0, 0)),
    join=lambda left, right: (left[0] + right[0], left[1] + right[1]),
)

dropped_field = Program(
    on(Value, update=lambda s, e: (s[0] + e.amount, s[1] + 1)),
    init=(0, 0),
    fork=lambda s, left, right: (s, (0, 0)),
    join=lambda left, right: (left[0] + right[0], left[1]),
)


def move_mean(state, event):
    mean, size = state
    return mean + (event.amount - mean) / (size + 1), size + 1


average_of_averages = Program(
    on(Share, update=move_mean),
    init=(Fraction(0), 0),
    fork=lambda s, left, right: (s, (s[0], 0)),
    join=lambda left, right: ((left[0] + right[0]) / 2, left[1] + right[1]),
)

dropped_state_type = Program(
    State(
        "both",
        on(Inc, update=lambda s, e: (s[0] + 1, s[1])),
        on(Dec, update=lambda s, e: (s[0], s[1] + 1)),
        init=(0, 0),
    ),
    State("ups", on(Inc, update=lambda s, e: s + 1)),
    State("downs", on(Dec, update=lambda s, e: s + 1)),
    ForkJoin("both", "ups", "downs", lambda s, left, right: (s[0], 0), lambda u, d: (u, d)),
)

# Collections.


def count_group(table, event):
    return {**table, event.key: table.get(event.key, 0) + 1}


def fork_known_keys(table, left, right):
    return (
        {k: n for k, n in table.items() if left.has(Put, key=k)},
        {k: n for k, n in table.items() if right.has(Put, key=k)},
    )


lost_key = Program(
    on(Put, update=count_group),
    depends(Put, Put, same="key"),
    init={},
    fork=fork_known_keys,
    join=lambda left, right: {**left, **right},
)

stale_copy = Program(
    on(View, output=lambda pages, e: pages.get(e.page)),
    on(Update, update=lambda pages, e: {**pages, e.page: e.text}),
    depends(Update, Update, View, same="page"),
    init={},
    fork=lambda pages, left, right: (pages, pages),
    join=lambda left, right: {**left, **right},
)

symmetric_difference = Program(
    on(Value, update=lambda s, e: s | {e.amount}),
    init=frozenset(),
    fork=lambda s, left, right: (s, frozenset()),
    join=lambda left, right: left ^ right,
)

set_difference = Program(
    on(Value, update=lambda s, e: s | {e.amount}),
    init=frozenset(),
    fork=lambda s, left, right: (s, frozenset()),
    join=lambda left, right: left - right,
)

early_cut_top = Program(
    on(Value, update=lambda top, e: tuple(sorted((*top, e.amount), reverse=True)[:2])),
    init=(),
    fork=lambda top, left, right: (top, ()),
    join=lambda left, right: (left + right)[:2],
)

# Functions that are no functions.


def count_in_place(table, event):
    table[event.key] = table.get(event.key, 0) + 1
    return table


changed_in_place = Program(on(Put, update=count_in_place), depends(Put, Put, same="key"), init={})

sampled = Program(on(Value, update=lambda n, e: n + (random.random() < 0.5)), init=0)


def pop_half(values, left, right):
    half = [values.pop() for _ in range((len(values) + 1) // 2)]
    return values, half


popping_fork = Program(
    on(Value, update=lambda values, e: sorted([*values, e.amount])),
    init=[],
    fork=pop_half,
    join=lambda left, right: sorted(left + right),
)


def join_into_left(left, right):
    left.update(right)
    return left


joined_in_place = Program(
    on(Put, update=count_group),
    depends(Put, Put, same="key"),
    init={},
    fork=lambda table, left, right: (table, {}),
    join=join_into_left,
)


@dataclass(frozen=True)
class Broken:
    """A program, the laws it breaks, and for each the events of its smallest counterexample."""

    name: str
    laws: dict[str, int]
    verdict: str = "broken"


BROKEN = (
    Broken("double_count", {C2: 1}),
    Broken("forgetful_join", {C1: 1}),
    Broken("subtracting_join", {C1: 1, ASSOCIATIVE: 1}),
    Broken("wrong_zero", {IDENTITY: 0}),
    Broken("float_sum", {C1: 3, ASSOCIATIVE: 3, C3: 3, IDENTITY: 3}, verdict="rounding"),
    Broken("freezing_maximum", {IDENTITY: 0}),
    Broken("named_fork", {C2: 1}),
    Broken("capped_counter", {C1: 4}),
    Broken("level_counter", {ASSOCIATIVE: 0}),
    Broken("shallow_fork", {C2: 1, ASSOCIATIVE: 0}),
    Broken("last_writer", {C3: 2}),
    Broken("moving_average", {C3: 2}),
    Broken("appended_log", {C3: 2}),
    Broken("missing_dependence", {C3: 2}),
    Broken("reset_of_one_lane", {C1: 2, C3: 2, IDENTITY: 2}),
    Broken("unordered_peak", {C3: 2}),
    Broken("peak_from_one", {IDENTITY: 0}),
    Broken("weak_same", {C3: 2}),
    Broken("peeking_output", {C1: 2, C3: 2}),
    Broken("forgotten_rule", {C1: 3}),
    Broken("forgotten_limit", {C1: 1}),
    Broken("dropped_field", {C1: 1}),
    Broken("average_of_averages", {C1: 1, ASSOCIATIVE: 1}),
    Broken("dropped_state_type", {C2: 1}),
    Broken("lost_key", {C2: 1}),
    Broken("stale_copy", {C1: 2}),
    Broken("symmetric_difference", {C1: 2}),
    Broken("set_difference", {C1: 1, ASSOCIATIVE: 2}),
    Broken("early_cut_top", {C1: 2}),
    Broken("changed_in_place", {PURE: 1}),
    Broken("sampled", {PURE: 1}),
    Broken("popping_fork", {PURE: 1}),
    Broken("joined_in_place", {PURE: 1}),
)
