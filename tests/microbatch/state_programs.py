"""A program for each ready-made state that is not a number, as its users would write it."""

from typing import NamedTuple

from anabranch import Map, Program, Shard, depends, on, take
from anabranch.state import (
    Bag,
    Count,
    Dictionary,
    Latest,
    Limited,
    ListOf,
    MapOf,
    Max,
    Mean,
    PerChannel,
    Replicated,
    SetOf,
    SplitList,
    Struct,
    UnionList,
    Value,
)
from tests.microbatch.programs import Day, Limit, Month, Reading


class Kept(NamedTuple):
    amount: int
    before: int | None


def say(state, event):
    return state


def keyed(state, update, output=say):
    """Keep the order of each meter's readings."""
    return Program(
        on(Reading, update=update, output=output),
        depends(Reading, Reading, same="meter"),
        state=MapOf(state, by="meter"),
    )


def free(state, update, output=say, reset=None):
    """Fold readings in any order; a month says what there is."""
    return Program(
        on(Reading, update=update),
        on(Month, output=output, update=reset),
        depends(Month, Reading, Month),
        state=state,
    )


def per_meter(state, update, output=say, reset=None):
    """Fold the readings of a meter in any order; its day says what there is."""
    return Program(
        on(Reading, update=update),
        on(Day, output=output, update=reset),
        depends(Day, Reading, Day, same="meter"),
        state=MapOf(state, by="meter"),
    )


def move(bag):
    return lambda s, e: (bag.add if e.amount % 3 else bag.remove)(s, e.amount % 7)


recent = Struct(
    last=ListOf(last=3), kinds=SetOf(), seen=Dictionary(Count()), state=Value(of=Kept), mean=Mean()
)


def note(s, e):
    s = recent.add(s, last=e.amount, kinds=e.amount % 5, mean=e.amount)
    before = s.state.amount if s.state else None
    seen = Dictionary(Count()).add(s.seen, e.amount % 2 == 0)
    return s._replace(seen=seen, state=Kept(e.amount, before))


latest = Dictionary(Latest(of=Reading))
sorted_list = ListOf(Reading, ordered_by="amount", last=5)
names = Dictionary(Count())

STATE_PROGRAMS = {
    "value": keyed(Value(start=1), lambda s, e: (s * 31 + e.amount) % 1009),
    "value of a record": keyed(
        Value(of=Kept), lambda s, e: Kept(e.amount, s.amount if s else None)
    ),
    "value of free events": free(
        MapOf(Value(start=0), by="meter"), lambda s, e: max(s, e.amount), lambda s, e: dict(s)
    ),
    "list": keyed(ListOf(), lambda s, e: (*s, e.amount)[-9:]),
    "last of a list": keyed(ListOf(last=3), lambda s, e: ListOf(last=3).add(s, e.amount)),
    "sorted list": free(sorted_list, sorted_list.add),
    "sorted list per meter": per_meter(
        sorted_list, sorted_list.add, reset=lambda s, e: s[1:]
    ),
    "latest": free(
        latest, lambda s, e: latest.add(s, e.meter, e), lambda s, e: latest.value(s)
    ),
    "latest per meter": per_meter(Latest(), Latest().add),
    "dictionary": keyed(
        Dictionary(),
        lambda s, e: Dictionary().add(s, e.amount % 3, e.time),
        lambda s, e: dict(s),
    ),
    "dictionary of counts": per_meter(
        names, lambda s, e: names.add(s, e.amount % 4), lambda s, e: names.value(s)
    ),
    "set": per_meter(
        SetOf(), lambda s, e: SetOf().add(s, e.amount % 9), lambda s, e: sorted(s)
    ),
    "map in a map": Program(
        on(Reading, update=lambda s, e: s + 1, output=say),
        on(Day, whole=True, output=lambda s, e: [sorted((k, *v.items()) for k, v in s.items())]),
        depends(Day, Reading, Day),
        depends(Reading, Reading, same=("meter", "amount")),
        state=MapOf(MapOf(Count(), by="amount"), by="meter"),
    ),
    "bag": free(Bag(), move(Bag()), lambda s, e: Bag().value(s)),
    "bag per meter": per_meter(Bag(), move(Bag()), reset=lambda s, e: s[1:]),
    "split list": free(SplitList(), move(SplitList()), lambda s, e: SplitList().value(s)),
    "union list": free(
        UnionList(), lambda s, e: UnionList().add(s, e.meter, e.amount % 5)
    ),
    "per channel": Program(
        on(Reading, update=lambda n, e: n + 1),
        on(Limit, output=say, update=lambda n, e: n + 1000),
        on(Month, whole=True, output=lambda s, e: dict(s), update=lambda s, e: Map({"a": len(s)})),
        depends(Limit, Reading, Limit),
        depends(Month, Reading, Limit, Month),
        state=PerChannel(Count()),
    ),
    "offsets per meter": per_meter(PerChannel(Max()), lambda s, e: Max().add(s, e.amount)),
    "broadcast": Program(
        on(Reading, output=lambda most, e: e.amount > most),
        on(Limit, update=lambda most, e: e.most),
        depends(Limit, Reading, Limit),
        state=Replicated(start=500),
    ),
    "struct": keyed(recent, note),
    "limited list": keyed(Limited(ListOf(), items=4), lambda s, e: (*s, e.amount)[e.amount % 2 :]),
    "limited bytes": keyed(Limited(Value(""), bytes=6), lambda s, e: str(e.amount) * (e.amount % 4)),
    "limited in a struct": keyed(
        Struct(n=Count(), all=Limited(Dictionary(Count()), items=2)),
        lambda s, e: s._replace(n=s.n + 1, all=names.add(s.all, e.amount % 3)),
        lambda s, e: (s.n, names.value(s.all)),
    ),
    "limited as a whole": free(
        Limited(SetOf(), items=3), lambda s, e: s | {e.amount}, lambda s, e: sorted(s), lambda s, e: frozenset()
    ),
}  # fmt: skip

REASONS = {
    "value of a record": "the state of an entry can't be stored in columns",
    "list": "the state of an entry can't be stored in columns",
    "last of a list": "the state of an entry can't be stored in columns",
    "sorted list per meter": "the state of an entry can't be stored in columns",
    "latest per meter": "the state of an entry can't be stored in columns",
    "dictionary": "the state of an entry can't be stored in columns",
    "dictionary of counts": "the state of an entry can't be stored in columns",
    "set": "the state of an entry can't be stored in columns",
    "bag per meter": "the state of an entry can't be stored in columns",
    "struct": "the state of an entry can't be stored in columns",
    "value of free events": "Month sees all entries at once",
    "map in a map": "the state has entries within entries",
    "offsets per meter": "the state has entries within entries",
    "per channel": "the state has entries per channel",
    "limited list": "the state has a limit",
    "limited bytes": "the state has a limit",
    "limited in a struct": "the state has a limit",
    "limited as a whole": "the state has a limit",
}
"""Why a run goes event by event; the others go by columns, some with objects in them."""


def slice_program(program):
    """Return slices of a program's event types: by meter if meters never meet, else by channel."""
    event_types = program.inputs
    if all("meter" in event_type._fields for event_type in event_types) and not any(
        handler.whole for handler in program.initial.handlers.values()
    ):
        return [take(event_type, meter=Shard(n, 2)) for event_type in event_types for n in (0, 1)]
    if program.dependence.restrictions(Reading, Reading):
        return [take(event_type) for event_type in event_types]
    return [*(take(Reading, channel=channel) for channel in "abc"), *map(take, event_types[1:])]
