"""Random programs over random dependence relations, on every plan that an optimizer makes of them.

The state of these programs is the set of facts seen so far. An event adds a fact of its own, says
which of the facts it depends on are there, and may take some of them away. A set does not mind in
which order it grows, and a fork gives a fact to each side that could ask for it: so the laws hold
by construction, whatever the dependence relation is. What an event says, on the other hand, shows
every dependent event that came too early or too late.
"""

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import Event, Program, Shard, Slices, depends, on, take
from anabranch.eventtime.channels import end_channels
from anabranch.model.values.hashing import hash_stably
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults
from anabranch.reference.verification import prepare
from examples.key_counter import Inc, Read, key_counter
from examples.smart_home import Minute, Pressure, Temp, smart_home
from examples.value_barrier import Barrier, Value, value_barrier
from tests.plan import programs


class North(NamedTuple):
    time: int
    number: int
    x: int
    y: int


class East(NamedTuple):
    time: int
    number: int
    x: int
    y: int


class South(NamedTuple):
    time: int
    number: int
    x: int


class West(NamedTuple):
    time: int
    number: int


EVENT_TYPES = (North, East, South, West)
FIELDS = ("x", "y")


class Fact(NamedTuple):
    event_type: str
    number: int
    x: int | None
    y: int | None


def fact_of(event):
    fields = (getattr(event, name, None) for name in FIELDS)
    return Fact(type(event).__name__, event.number, *fields)


def concerns(restrictions, fact, event):
    """Say whether an event depends on the event behind a fact."""
    return any(
        all(getattr(fact, name) == getattr(event, name) for name in same) for same in restrictions
    )


class Relation(NamedTuple):
    """A dependence as a table, read by the handlers; and which event types take facts away."""

    table: dict[tuple[str, str], tuple[tuple[str, ...], ...]]
    takers: frozenset[str]

    def between(self, a, b):
        return self.table.get((a, b), ())

    def reads(self, state, event):
        name = type(event).__name__
        return {
            fact for fact in state if concerns(self.between(name, fact.event_type), fact, event)
        }

    def may_take(self, taker, event_type):
        """Say whether whoever looks at facts of `type` is sure to be in order with the taker."""
        names = {a for a, b in self.table if b == event_type}
        return taker in self.takers and all(
            any(set(s) <= set(looking) & set(taking) for s in self.between(name, taker))
            for name in names
            for looking in self.between(name, event_type)
            for taking in self.between(taker, event_type)
        )

    def output(self, state, event):
        return (event.number, tuple(sorted(fact.number for fact in self.reads(state, event))))

    def update(self, state, event):
        name = type(event).__name__
        taken = {fact for fact in self.reads(state, event) if self.may_take(name, fact.event_type)}
        return state - taken | {fact_of(event)}

    def asks(self, side, fact, event_types):
        """Say whether a side of a fork may have events that depend on a fact."""
        return any(
            side.has(event_type, **{name: getattr(fact, name) for name in same})
            for event_type in event_types
            for same in self.between(event_type.__name__, fact.event_type)
        )

    def fork(self, event_types):
        def cut(state, left, right):
            lefts = {fact for fact in state if self.asks(left, fact, event_types)}
            rights = {fact for fact in state if self.asks(right, fact, event_types)}
            return frozenset(lefts), frozenset(rights | (state - lefts))

        return cut


def build_program(event_types, pairs, takers=(), declared=None):
    """Make a program of pairs `(a, b, same)`; `declared` are those it admits to."""
    table: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {}
    for a, b, same in pairs:
        for key in {(a.__name__, b.__name__), (b.__name__, a.__name__)}:
            table[key] = (*table.get(key, ()), same)
    relation = Relation(table, frozenset(event_type.__name__ for event_type in takers))
    return Program(
        *(
            on(event_type, output=relation.output, update=relation.update)
            for event_type in event_types
        ),
        *(depends(a, b, same=same) for a, b, same in (pairs if declared is None else declared)),
        init=frozenset(),
        zero=frozenset(),
        fork=relation.fork(event_types),
        join=frozenset.union,
    )


@st.composite
def relations(draw):
    event_types = (
        EVENT_TYPES[-draw(st.integers(2, 4)) :]
        if draw(st.booleans())
        else EVENT_TYPES[: draw(st.integers(2, 4))]
    )
    pairs = []
    for place, a in enumerate(event_types):
        for b in event_types[place:]:
            shared = [name for name in FIELDS if hasattr(a, name) and hasattr(b, name)]
            sames = [(), *((name,) for name in shared), *([tuple(shared)] if shared[1:] else [])]
            chosen = draw(st.lists(st.sampled_from(sames), max_size=2, unique=True))
            pairs += [(a, b, same) for same in chosen]
    return build_program(
        event_types, pairs, draw(st.lists(st.sampled_from(event_types), unique=True))
    )


CHANNELS = ("p", "q", "r")


@st.composite
def inputs(draw, event_types):
    """Draw events of a few channels, each in order; equal times are common."""
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from(event_types), st.sampled_from(CHANNELS), st.integers(0, 2),
                st.integers(0, 2), st.integers(0, 2),
            ),
            min_size=4, max_size=18,
        )
    )  # fmt: skip
    clock = dict.fromkeys(CHANNELS, 1)
    events = []
    for number, (event_type, channel, step, x, y) in enumerate(drawn):
        clock[channel] += step
        fields = {"x": x, "y": y}
        own = {name: fields[name] for name in FIELDS if hasattr(event_type, name)}
        events.append(Event(event_type(clock[channel], number, **own), channel, number))
    return events


@st.composite
def rates(draw, program, events):
    """Cut each event type its own way: by channel, by values or shards of its fields, or not at all."""
    loads = []
    for event_type in program.event_types:
        by_channel = draw(st.booleans())
        cuts = {
            name: draw(st.sampled_from(["whole", "value", "shard"]))
            for name in FIELDS
            if hasattr(event_type, name)
        }
        for event in events:
            if event.event_type is not event_type:
                continue
            fields = {}
            for name, cut in cuts.items():
                value = getattr(event.data, name)
                if cut != "whole":
                    fields[name] = value if cut == "value" else Shard(hash_stably(value) % 2, 2)
            channel = event.channel if by_channel else None
            loads.append(Load(take(event_type, channel=channel, **fields), 1, event.channel))
    scale = draw(st.sampled_from([1, 1000, 400_000]))
    weights = {event_type: draw(st.sampled_from([1, 2, 50])) for event_type in program.event_types}
    return Rates(Load(x.slice, scale * weights[x.slice.event_type], x.machine) for x in loads)


@settings(max_examples=60)
@given(st.data())
def test_every_optimizer_makes_a_valid_plan_that_gives_the_sequential_answer(data):
    program = data.draw(relations())
    events = data.draw(inputs(program.event_types))
    arriving = data.draw(rates(program, events))
    items = end_channels(events)
    plans = {name: make(program, arriving, ()) for name, make in OPTIMIZERS.items()}
    for name, plan in plans.items():
        assert find_faults(program, plan) == []
        trial = prepare(program, plan, items)
        for seed in range(3):
            _, mismatch = trial.verify(seed)
            assert mismatch is None, f"{name}: {mismatch}"


@settings(max_examples=40)
@given(st.data())
def test_a_change_from_any_optimizer_to_any_other_does_not_show(data):
    program = data.draw(relations())
    events = data.draw(inputs(program.event_types))
    plans = [
        make(program, data.draw(rates(program, events)), ())
        for make in data.draw(st.permutations([*OPTIMIZERS.values()]))
    ][:3]
    trial = prepare(program, plans[0], end_channels(events), then=plans[1:])
    for seed in range(4):
        simulation, mismatch = trial.verify(seed, trace=True)
        assert mismatch is None
        assert sum("change of plan" in line for line in simulation.trace) == 2


@settings(max_examples=100)
@given(st.data())
def test_a_slice_moved_beside_one_that_it_must_not_leave_is_noticed(data):
    """Take a valid plan and put beside a slice itself, or one that depends on it."""
    program = data.draw(relations())
    events = data.draw(inputs(program.event_types))
    arriving = data.draw(rates(program, events))
    plan = OPTIMIZERS[data.draw(st.sampled_from(["greedy", "keyed", "best"]))](
        program, arriving, ()
    )
    inner = [(path, node) for path, node in plan.root.walk() if node.children]
    if not inner:
        return
    path, node = data.draw(st.sampled_from(inner))
    side = data.draw(st.sampled_from([0, 1]))
    here = data.draw(st.sampled_from(list(node.children[side].subtree())))
    near = [part for part in plan.root.subtree() if program.dependence.depend(part, here)]
    moved = data.draw(st.sampled_from([here, *near]))
    others = dict(node.children[1 - side].walk(f"{path}.{1 - side}"))
    target = data.draw(st.sampled_from(list(others)))
    torn = Plan(add_slice(plan.root, "0", target, moved))
    faults = find_faults(program, torn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anabranch.plan.validity.FEW_PAIRS", 0)
        assert sorted(map(str, find_faults(program, torn))) == sorted(map(str, faults))
    assert {fault.rule for fault in faults} == {"V2"}
    assert any(str(moved) in fault.reason and str(here) in fault.reason for fault in faults)


def add_slice(node, path, target, part):
    own = [*node.slices, part] if path == target else list(node.slices)
    children = [
        add_slice(child, f"{path}.{side}", target, part) for side, child in enumerate(node.children)
    ]
    return PlanNode(*own, children=children, state=node.state, machine=node.machine)


@pytest.mark.parametrize(
    ("pairs", "left", "right"),
    [
        ([(North, East, ())], take(North), take(East)),
        ([(North, North, ("x",))], take(North, channel="p"), take(North, channel="q")),
        ([(North, South, ("x",))], take(North, x=1), take(South)),
    ],
)
def test_a_dependence_that_is_not_admitted_shows(pairs, left, right):
    """The programs above can tell: the handlers depend, the declaration does not say so."""
    rng = random.Random(1)
    events = [
        Event(
            event_type(
                t,
                10 * t + n,
                *([1, 1] if event_type is North else [1] * (len(event_type._fields) - 2)),
            ),
            s,
            t,
        )
        for t in range(1, 9)
        for n, (event_type, s) in enumerate(
            [(rng.choice((pairs[0][0], pairs[0][1])), s) for s in "pq"]
        )
    ]
    program = build_program((North, East, South), pairs, declared=[])
    trial = prepare(
        program, Plan(PlanNode(children=(PlanNode(left), PlanNode(right)))), end_channels(events)
    )
    assert any(trial.verify(seed)[1] is not None for seed in range(20))


# A thousand implementation event types.

MANY = {
    "a thousand channels below a barrier": (
        value_barrier,
        [
            Load(take(Barrier), 1),
            *(Load(take(Value, channel=f"s{n}"), 100 + n, f"m{n % 10}") for n in range(999)),
        ],
    ),
    "barriers as frequent as values": (
        value_barrier,
        [
            Load(take(event_type, channel=f"s{n}"), 1 + n % 7)
            for n in range(500)
            for event_type in (Value, Barrier)
        ],
    ),
    "250 keys from three channels": (
        key_counter,
        [
            *(Load(take(Read, key=k), 1 + k % 3, "reads") for k in range(250)),
            *(Load(take(Inc, key=k, channel=s), 99 + k, s) for k in range(250) for s in "abc"),
        ],
    ),
    "250 shards from three channels": (
        key_counter,
        [
            *(Load(take(Read, key=Shard(k, 250)), 1) for k in range(250)),
            *(
                Load(take(Inc, key=Shard(k, 250), channel=s), 9, s)
                for k in range(250)
                for s in "abc"
            ),
        ],
    ),
    "months, days and readings of 500 meters": (
        programs.calendar,
        [
            Load(take(programs.Month), 1),
            *(Load(take(programs.Day, meter=n), 30) for n in range(500)),
            *(Load(take(programs.Reading, meter=n), 1000) for n in range(500)),
        ],
    ),
    "three types of state": (
        smart_home,
        [
            Load(take(Minute), 1),
            Load(take(Pressure), 100),
            *(Load(take(Temp, channel=f"t{n}"), 1000, f"m{n % 4}") for n in range(998)),
        ],
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_a_thousand_slices_have_a_valid_plan_whatever_the_optimizer(name):
    program, loads = MANY[name]
    arriving = Rates(loads)
    assert len(arriving.loads) >= 1000
    plans = {how: make(program, arriving, ()) for how, make in OPTIMIZERS.items()}
    for how in ("best", "greedy", "keyed", "sequential"):
        assert find_faults(program, plans[how]) == []
    assert plans["greedy"].root.subtree() == Slices(load.slice for load in loads)
    # The hybrid is the greedy tree on one machine, and is as valid.
    shape = [(path, node.slices) for path, node in plans["hybrid"].root.walk()]
    assert shape == [(path, node.slices) for path, node in plans["greedy"].root.walk()]
