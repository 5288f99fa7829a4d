"""Every ready-made state in every layout: programs, and the oracle that says what each must say.

`CASES` are states with their oracle, `LAYOUTS` how a program keeps one. `make_program(case, layout)` builds
the program, `expect(case, layout, rows)` is what it must say of rows, `draw_rows` draws some. What is run
over it is the business of tests: files, Spark and the shards alone can take the same.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from anabranch import Event, Program, depends, on
from anabranch.eventtime.windows.panes import Fold
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.query import aggregate
from anabranch.state import (
    ApproxDistinct,
    ApproxQuantile,
    Bag,
    Count,
    Dictionary,
    Distinct,
    ExactMean,
    ExactSum,
    ExactVariance,
    Latest,
    Limited,
    ListOf,
    MapOf,
    Max,
    Mean,
    Median,
    Min,
    Mode,
    PerChannel,
    Quantile,
    Replicated,
    SetOf,
    Several,
    Shared,
    SplitList,
    Struct,
    Sum,
    TopK,
    UnionList,
    Value,
)
from tests.cross import oracle
from tests.cross.oracle import Emitted, Pane, Row

CHANNELS = ("a", "b", "c")
KEYS = (0, 1, 2)


class Item(NamedTuple):
    time: int
    key: int
    value: int


class Peek(NamedTuple):
    time: int


class Rule(NamedTuple):
    time: int
    value: int


@dataclass(frozen=True)
class Case:
    """A state: how a value is added, how it is shown, and what the oracle says of the values.

    `fold` is what a window is given in place of the state, if not (state, "value"), and `read` makes of the
    JSON that a window says of it what `show` would.
    """

    shape: Any
    add: Callable[[Any, int], Any]
    show: Callable[[Any], Any]
    sum_up: oracle.Summary
    fold: Any = None
    read: Callable[[Any], Any] = lambda value: value


def ready(shape: Any, sum_up: oracle.Summary, show: Callable[[Any], Any] | None = None) -> Case:
    """Return a state that is used by its own `add` and `value`."""
    return Case(shape, shape.add, show or shape.value, sum_up)


def pass_none(function: Callable[[list[int]], Any]) -> oracle.Summary:
    return lambda values: function(values) if values else None


def keep_order(shape: Any) -> Case:
    return ready(shape, lambda values: values[-3:])


def add_to_struct(state: Any, value: int) -> Any:
    return STRUCT.add(state, n=1, total=value, low=value)


def add_of_owner(state: Any, value: int) -> Any:
    return UnionList().add(state, value % 2, value)


STRUCT = Struct(n=Count(), total=Sum(), low=Min())
SEVERAL = Several(n=Count(), top=(Max(), "value"), twice=(Sum(), lambda item: 2 * item.value))
NAMES = Dictionary(Count())
APPROXIMATE = ApproxQuantile(0.5)

CASES: dict[str, Case] = {
    "Count": Case(Count(), lambda s, v: Count().add(s), lambda s: s, len, fold=Count()),
    "Count from a start": Case(
        Count(start=10), lambda s, v: s + 1, lambda s: s, lambda values: 10 + len(values)
    ),
    "Sum": ready(Sum(), sum),
    "Sum from a start": Case(
        Sum(start=5), lambda s, v: s + v, lambda s: s, lambda values: 5 + sum(values)
    ),
    "Max": ready(Max(), pass_none(max)),
    "Max from a start": Case(
        Max(start=0), max, lambda s: s, lambda values: max([0, *values])
    ),
    "Min": ready(Min(), pass_none(min)),
    "Min from a start": Case(
        Min(start=3), min, lambda s: s, lambda values: min([3, *values])
    ),
    "Mean": ready(Mean(), oracle.average),
    "ExactSum": ready(ExactSum(), lambda values: float(sum(values))),
    "ExactMean": ready(ExactMean(), oracle.average),
    "ExactVariance": ready(ExactVariance(), oracle.variance),
    "Median": ready(Median(), lambda values: oracle.quantile(values, Fraction(1, 2))),
    "Quantile": ready(Quantile(0.25), lambda values: oracle.quantile(values, Fraction(1, 4))),
    "Mode": ready(Mode(), oracle.mode),
    "Distinct": ready(Distinct(), lambda values: len(set(values))),
    "ApproxDistinct": ready(ApproxDistinct(k=64), lambda values: len(set(values))),
    "ApproxQuantile": Case(
        APPROXIMATE,
        APPROXIMATE.add,
        # Buckets are a percent wide, so the middle of one lies that near a whole number.
        lambda s: None if not s else round(APPROXIMATE.value(s)),
        pass_none(lambda values: sorted(values)[(len(values) + 1) // 2 - 1]),
        read=round,
    ),
    "TopK": ready(TopK(3), lambda values: sorted(values, reverse=True)[:3]),
    "SetOf": ready(SetOf(), lambda values: sorted(set(values)), sorted),
    "ListOf": keep_order(ListOf(last=3)),
    "ListOf by an order": ready(
        ListOf(ordered_by=lambda v: v, last=3), lambda values: sorted(values)[-3:]
    ),
    "Bag": ready(Bag(), sorted, lambda s: sorted(Bag().value(s))),
    "SplitList": ready(SplitList(), sorted, lambda s: sorted(SplitList().value(s))),
    "UnionList": Case(
        UnionList(), add_of_owner, sorted,
        lambda values: sorted([v % 2, v] for v in set(values)),
    ),
    "Value": ready(Value(start=-1), lambda values: values[-1] if values else -1),
    "Latest": ready(Latest(ordered_by=lambda v: v), pass_none(max)),
    "Dictionary": Case(
        NAMES, NAMES.add, lambda s: sorted(NAMES.value(s).items()),
        oracle.count_each, read=sorted,
    ),
    "Limited": keep_order(Limited(ListOf(last=3), items=3)),
    "Struct": Case(
        STRUCT, add_to_struct, tuple,
        lambda values: [len(values), sum(values), min(values, default=None)],
    ),
    "Several": Case(
        SEVERAL, lambda s, v: SEVERAL.add(s, Item(0, 0, v)), lambda s: tuple(SEVERAL.value(s)),
        lambda values: [len(values), max(values, default=None), 2 * sum(values)], fold=SEVERAL,
        read=lambda out: [out["n"], out["top"], out["twice"]],
    ),
    "Fold": Case(
        None, lambda s, v: None, lambda s: s, lambda values: 3 * sum(values),
        fold=Fold(0, lambda total, item: total + 3 * item.value, lambda a, b: a + b),
    ),
}  # fmt: skip

APART = {
    "MapOf": "every keyed, forked and shared program here has one",
    "PerChannel": "it is keyed by the channel, and not by a field of events; tests/state/test_per_channel.py",
    "Replicated": "it is the common part of every shared program here",
    "Shared": "it is a layout here",
}
"""Ready-made states that are no case of their own."""

for name, kind in {"MapOf": MapOf, "PerChannel": PerChannel}.items():
    assert kind.__name__ == name


def make_keyed(case: Case) -> Program:
    return Program(
        on(
            Item,
            update=lambda s, e: case.add(s, e.value),
            output=lambda s, e: wrap(case.show(s)),
        ),
        depends(Item, Item, same="key"),
        state=MapOf(case.shape, by="key"),
    )


def make_forked(case: Case) -> Program:
    return Program(
        on(Item, update=lambda s, e: case.add(s, e.value)),
        on(Peek, output=lambda s, e: wrap(case.show(s))),
        depends(Peek, Item, Peek),
        state=case.shape,
    )


def make_forked_keys(case: Case) -> Program:
    return Program(
        on(Item, update=lambda s, e: case.add(s, e.value)),
        on(Peek, output=lambda s, e: wrap(tuple((k, case.show(s[k])) for k in s))),
        depends(Peek, Item, Peek),
        state=MapOf(case.shape, by="key"),
    )


def make_shared(case: Case) -> Program:
    return Program(
        on(Rule, update=lambda common, e: e.value),
        on(
            Item,
            update=lambda view, e: case.add(view.entry, e.value + view.common),
            output=lambda view, e: wrap((view.common, case.show(view.entry))),
        ),
        depends(Item, Item, same="key"),
        depends(Rule, Item, Rule),
        state=Shared(Replicated(start=0), MapOf(case.shape, by="key")),
    )


def make_sequential(case: Case) -> Program:
    return Program(
        on(
            Item,
            update=lambda s, e: case.add(s, e.value),
            output=lambda s, e: wrap(case.show(s)),
        ),
        depends(Item, Item),
        state=case.shape,
    )


def make_windows(window: Any) -> Callable[[Case], Program]:
    def make(case: Case) -> Program:
        fold = (case.shape, "value") if case.fold is None else case.fold
        return aggregate(Item, window, per="key", out=fold)

    return make


def wrap(value: Any) -> Any:
    """Return one output: a list would be several, and None none."""
    return (value,)


@dataclass(frozen=True)
class Layout:
    """How a program keeps a state, what it must say, and which events beside items it takes."""

    way: str
    make: Callable[[Case], Program]
    expect: Callable[[list[Row], oracle.Summary], list[Any]]
    marker: type | None = None

    @property
    def is_windowed(self) -> bool:
        return self.way == "windowed"


LAYOUTS: dict[str, Layout] = {
    "keyed": Layout("keyed", make_keyed, oracle.say_per_key),
    "forked": Layout("forked", make_forked, oracle.say_at_markers, Peek),
    "forked keys": Layout("forked", make_forked_keys, oracle.say_keys_at_markers, Peek),
    "shared": Layout("shared", make_shared, oracle.say_with_shared, Rule),
    "sequential": Layout("sequential", make_sequential, oracle.say_in_order),
    "tumbling": Layout(
        "windowed",
        make_windows(Tumbling(4)),
        lambda rows, sum_up: oracle.fill_windows(rows, 4, 4, sum_up),
    ),
    "sliding": Layout(
        "windowed",
        make_windows(Sliding(6, every=2)),
        lambda rows, sum_up: oracle.fill_windows(rows, 6, 2, sum_up),
    ),
    "sessions": Layout(
        "windowed",
        make_windows(Sessions(3)),
        lambda rows, sum_up: oracle.fill_sessions(rows, 3, sum_up),
    ),
}


def make_program(case: str, layout: str) -> Program:
    """Return the program that keeps a state in a layout; raise what the library raises."""
    return LAYOUTS[layout].make(CASES[case])


def draw_rows(rng: random.Random, layout: str, count: int) -> list[Row]:
    """Draw the rows of three channels, each in the order of time, with many equal times and values."""
    marker = LAYOUTS[layout].marker
    rows = []
    for channel in CHANNELS:
        time = 0
        for seq in range(count):
            time += rng.choice((0, 0, 1, 1, 2, 5))
            if marker is not None and rng.random() < 0.2:
                rows.append(Row("marker", time, channel, seq, None, rng.randint(0, 3)))
            else:
                key, value = rng.choice(KEYS), rng.randint(0, 6)
                rows.append(Row("item", time, channel, seq, key, value))
    return rows


def to_event(row: Row, layout: str) -> Event:
    """Return a row as the event that a program takes."""
    if row.kind == "item":
        return Event(Item(row.time, row.key, row.value), row.channel, row.seq)
    marker = LAYOUTS[layout].marker
    data = Peek(row.time) if marker is Peek else Rule(row.time, row.value)
    return Event(data, row.channel, row.seq)


def expect(case: str, layout: str, rows: list[Row]) -> list[Any]:
    """Return what the oracle says of rows, in an order of its own."""
    return sort_outputs(LAYOUTS[layout].expect(rows, CASES[case].sum_up))


def read_output(
    case: str, layout: str, time: int, channel: str, seq: int | None, value: str
) -> Emitted | Pane:
    """Return an output of a run, its value being JSON, as the oracle has it."""
    read = json.loads(value)
    if LAYOUTS[layout].is_windowed:
        return Pane(read["key"], read["start"], read["end"], CASES[case].read(read["value"]["out"]))
    return Emitted(time, channel, seq or 0, read[0])


def sort_outputs(outputs: list[Any]) -> list[Any]:
    """Return outputs in an order that does not depend on how they came."""
    return sorted(outputs, key=lambda output: json.dumps(list(output), sort_keys=True))
