"""Programs that keep every law, most of them published ones."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from anabranch import ForkJoin, Map, Program, State, depends, on
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
    SplitList,
    Struct,
    Sum,
    TopK,
    UnionList,
    Value,
)


class Temp(NamedTuple):
    time: int
    degrees: int


class Report(NamedTuple):
    time: int


class Level(NamedTuple):
    time: int
    amount: float


class Up(NamedTuple):
    time: int
    key: int


class Read(NamedTuple):
    time: int
    key: int


class Gain(NamedTuple):
    time: int
    amount: int


class Loss(NamedTuple):
    time: int
    amount: int


class View(NamedTuple):
    time: int
    page: str


class Edit(NamedTuple):
    time: int
    page: str
    text: str


class Tip(NamedTuple):
    time: int
    taxi: int
    cents: int


class Hour(NamedTuple):
    time: int


class Kind(Enum):
    CARD = 1
    CASH = 2


@dataclass(frozen=True)
class Payment:
    time: int
    kind: Kind
    place: Literal["shop", "web"]
    amount: int | None


class Pressure(NamedTuple):
    time: int
    value: int


def per_report(event_type, **rest):
    return (
        on(event_type, **rest),
        on(Report, output=lambda s, e: s),
        depends(Report, event_type, Report),
    )


max_temp = Program(
    on(Temp, update=lambda top, e: max(top, e.degrees)),
    on(Report, output=lambda top, e: top, update=lambda top, e: 0),
    depends(Report, Temp, Report),
    init=0,
    zero=0,
    fork=lambda top, left, right: (top, top),
    join=max,
)


def fork_counts(counts, left, right):
    mine = {key: n for key, n in counts.items() if left.has(Read, key=key)}
    return Map(mine), Map({key: n for key, n in counts.items() if key not in mine})


def join_counts(left, right):
    return Map({key: left.get(key, 0) + right.get(key, 0) for key in {*left, *right}})


key_counter = Program(
    on(Up, update=lambda counts, e: counts.set(e.key, counts.get(e.key, 0) + 1)),
    on(
        Read,
        output=lambda counts, e: (e.key, counts.get(e.key, 0)),
        update=lambda counts, e: counts.set(e.key, 0),
    ),
    depends(Read, Read, Up, same="key"),
    init=Map(),
    fork=fork_counts,
    join=join_counts,
)

value_barrier = Program(*per_report(Temp, update=lambda s, e: s + e.degrees), state=Sum())

value_barrier_with_reset = Program(
    on(Temp, update=lambda s, e: s + e.degrees),
    on(Report, output=lambda s, e: s, update=lambda s, e: 0),
    depends(Report, Temp, Report),
    init=0,
    zero=0,
    fork=lambda s, left, right: (s, 0),
    join=lambda left, right: left + right,
)

fraud = Program(
    on(
        Temp,
        update=lambda s, e: (s[0], s[1] + e.degrees),
        output=lambda s, e: e.degrees if s[0] % 1000 == e.degrees % 1000 else None,
    ),
    on(Report, output=lambda s, e: s[1], update=lambda s, e: (s[1], 0)),
    depends(Report, Temp, Report),
    init=(0, 0),
    fork=lambda s, left, right: (s, (s[0], 0)),
    join=lambda left, right: (left[0], left[1] + right[1]),
)

page_view = Program(
    on(View, output=lambda text, e: text),
    on(Edit, output=lambda text, e: ("old", text), update=lambda text, e: e.text),
    depends(Edit, Edit, View, same="page"),
    state=MapOf(Replicated(), by="page"),
)

taxi_tips = Program(
    on(Tip, update=lambda cents, e: cents + e.cents),
    on(Hour, output=lambda tips, e: sorted(tips.items()), update=lambda tips, e: Map()),
    depends(Hour, Tip, Hour),
    state=MapOf(Sum(), by="taxi"),
)

moving_average = Program(
    on(
        Tip, update=lambda table, e: table.set(e.taxi, 0.5 * table.get(e.taxi, 0.0) + 0.5 * e.cents)
    ),
    depends(Tip, Tip, same="taxi"),
    init=Map(),
)


def join_peaks(left, right):
    total = left[0] + right[0]
    return total, max(left[1], total)


peak = Program(
    on(Gain, update=lambda s, e: (s[0] + e.amount, max(s[1], s[0] + e.amount))),
    on(Loss, update=lambda s, e: (s[0] - e.amount, s[1])),
    on(Report, output=lambda s, e: s[1], update=lambda s, e: (0, 0)),
    depends(Report, Gain, Loss, Report),
    depends(Gain, Loss),
    init=(0, 0),
    fork=lambda s, left, right: (s, (0, 0)),
    join=join_peaks,
)


def note_temp(temps, event):
    return {**temps, event.taxi: max(event.cents, temps.get(event.taxi, 0))}


def note_pressure(spike, event):
    last, most = spike
    return event.value, max(most, event.value - last)


def fork_temps(temps, left, right):
    mine = {key: t for key, t in temps.items() if left.has(Tip, taxi=key)}
    return mine, {key: t for key, t in temps.items() if key not in mine}


smart_home = Program(
    State(
        "home",
        on(Tip, update=lambda s, e: (note_temp(s[0], e), s[1])),
        on(Pressure, update=lambda s, e: (s[0], note_pressure(s[1], e))),
        on(
            Hour,
            output=lambda s, e: (
                "alert" if s[1][1] >= 100 and min(s[0].values(), default=0) >= 50 else None
            ),
            update=lambda s, e: ({}, (s[1][0], 0)),
        ),
        init=({}, (0, 0)),
    ),
    State("temps", on(Tip, update=note_temp)),
    State("pressure", on(Pressure, update=note_pressure)),
    ForkJoin("home", "temps", "pressure", lambda s, left, right: s, lambda temps, p: (temps, p)),
    ForkJoin(
        "temps",
        "temps",
        "temps",
        fork_temps,
        lambda a, b: {k: max(a.get(k, 0), b.get(k, 0)) for k in {*a, *b}},
    ),
    depends(Hour, Tip, Pressure, Hour),
    depends(Pressure, Pressure),
)

laned_float_sum = Program(
    *per_report(Level, update=lambda s, e: s + e.amount), state=Sum(0.0), lanes=4
)

exact_sum = Program(
    *per_report(Level, update=lambda s, e: ExactSum().add(s, e.amount)), state=ExactSum()
)
exact_mean = Program(
    *per_report(Level, update=lambda s, e: ExactMean().add(s, e.amount)), state=ExactMean()
)
exact_variance = Program(
    *per_report(Level, update=lambda s, e: ExactVariance().add(s, e.amount)), state=ExactVariance()
)

stats = Struct(seen=Count(), top=Max(), least=Min())
struct = Program(
    *per_report(Temp, update=lambda s, e: stats.add(s, seen=1, top=e.degrees, least=e.degrees)),
    state=stats,
)
top_three = Program(*per_report(Temp, update=lambda s, e: TopK(3).add(s, e.degrees)), state=TopK(3))
distinct = Program(*per_report(Temp, update=lambda s, e: SetOf().add(s, e.degrees)), state=SetOf())
several = Several(
    seen=Count(),
    mean=(Mean(), "degrees"),
    middle=(Median(), "degrees"),
    least=(Quantile(0.1, interpolate=False), "degrees"),
    usual=(Mode(), "degrees"),
    kinds=(Distinct(), "degrees"),
    about=(ApproxDistinct(k=3), "degrees"),
    nearly=(ApproxQuantile(0.9), "degrees"),
)
measured = Program(
    on(Temp, update=several.add),
    on(Report, output=lambda s, e: several.value(s)),
    depends(Report, Temp, Report),
    state=several,
)
warmest = Program(*per_report(Temp, update=lambda s, e: Max().add(s, e.degrees)), state=Max())
coldest = Program(*per_report(Temp, update=lambda s, e: Min().add(s, e.degrees)), state=Min())

payments = Program(
    on(
        Payment,
        update=lambda n, e: n + (e.amount or 0),
        output=lambda n, e: e.place if e.amount is None else None,
    ),
    depends(Payment, Payment, same=("kind", "place")),
    state=MapOf(MapOf(Sum(), by="place"), by="kind"),
)


def move(bag):
    return lambda s, e: (bag.add if e.degrees > 0 else bag.remove)(s, abs(e.degrees))


def in_order(state, update):
    """Keep the order of each key's events."""
    return Program(
        on(Tip, update=update, output=lambda s, e: s),
        depends(Tip, Tip, same="taxi"),
        state=MapOf(state, by="taxi"),
    )


value = in_order(Value(start=0), lambda s, e: s * 2 + e.cents)
last_tips = in_order(ListOf(last=3), lambda s, e: ListOf(last=3).add(s, e.cents))
settings = in_order(Dictionary(), lambda s, e: Dictionary().add(s, e.cents % 2, e.time))
limited = in_order(Limited(ListOf(), items=2), lambda s, e: (*s, e.cents)[e.cents % 2 :])
sorted_list = ListOf(Temp, ordered_by="degrees", last=2)
sorted_temps = Program(*per_report(Temp, update=sorted_list.add), state=sorted_list)
latest_by_place = Dictionary(Latest("cents"))
latest = Program(
    *per_report(Tip, update=lambda s, e: latest_by_place.add(s, e.taxi, e)), state=latest_by_place
)
bag = Program(*per_report(Temp, update=move(Bag())), state=Bag())
split_list = Program(*per_report(Temp, update=move(SplitList())), state=SplitList())
union_list = Program(
    *per_report(Tip, update=lambda s, e: UnionList().add(s, e.taxi, e.cents)), state=UnionList()
)
per_channel = Program(
    on(Temp, update=lambda n, e: n + 1),
    on(Report, whole=True, output=lambda counts, e: dict(counts), update=lambda counts, e: Map()),
    depends(Report, Temp, Report),
    state=PerChannel(Count()),
)
broadcast = Program(
    on(Temp, output=lambda most, e: e.degrees > most),
    on(Loss, update=lambda most, e: e.amount),
    depends(Loss, Temp, Loss),
    state=Replicated(start=10),
)

positive = st.integers(min_value=1, max_value=5)

GOOD = {
    "max_temp": {},
    "key_counter": {},
    "value_barrier": {},
    "value_barrier_with_reset": {},
    "fraud": {},
    "page_view": {},
    "taxi_tips": {},
    "moving_average": {},
    "peak": {
        Gain: st.builds(Gain, time=st.just(0), amount=positive),
        Loss: st.builds(Loss, time=st.just(0), amount=positive),
    },
    "smart_home": {},
    "laned_float_sum": {},
    "exact_sum": {},
    "exact_mean": {},
    "exact_variance": {},
    "struct": {},
    "top_three": {},
    "distinct": {},
    "measured": {},
    "warmest": {},
    "coldest": {},
    "payments": {},
    "value": {},
    "last_tips": {},
    "settings": {},
    "limited": {},
    "sorted_temps": {},
    "latest": {},
    "bag": {},
    "split_list": {},
    "union_list": {},
    "per_channel": {},
    "broadcast": {},
}
"""The programs, each with the events to try where not every event makes sense."""
