"""Every layout is a valid plan, and the shard that an event goes to is the node that answers for it."""

import os
from dataclasses import replace
from glob import glob
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import Event, Program, depends, load, on, take
from anabranch.errors import PlanError
from anabranch.eventtime.channels import end_channels
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.plan.implied_forks import add_copies
from anabranch.plan.layout_plans import check_layout, plan_layout
from anabranch.plan.layouts import choose_layout
from anabranch.plan.validity import find_faults
from anabranch.reference.verification import prepare
from anabranch.state import MapOf, Sum
from tests.plan.random_programs import programs
from tests.simulation.test_random_programs import CHANNELS, inputs, relations

EXAMPLES = sorted(os.path.basename(path)[:-3] for path in glob("examples/*.py"))
SHARDS = range(1, 9)
HOT = st.lists(st.integers(0, 2), unique=True, max_size=2)


class Value(NamedTuple):
    time: int
    key: int


class Mark(NamedTuple):
    time: int
    key: int


def find_owner(layout, plan, event):
    """Return the machine of the lowest node that answers for an event; the root's, if none does.

    Canonical lanes matter where leaves are folded. A layout without them spreads events by their numbers alone.
    """
    owner = plan.root
    while True:
        below = [child for child in owner.children if child.subtree().covers(event, layout.lanes)]
        if not below:
            return owner.machine or "root"
        (owner,) = below


def check_routes(program, layout, events):
    """A node in a shard gets its events there, and only there; a root gets what all shards may see."""
    _, plan = plan_layout(program, layout)
    for event in events:
        owner = find_owner(layout, plan, event)
        reached = [f"shard {number}" for number in layout.route(event)]
        if owner.startswith("shard"):
            assert reached == [owner]
        else:
            assert event.event_type not in layout.leaves or not layout.has_root
            assert len(reached) in (1, layout.shards)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_layout_of_every_example_is_a_valid_plan(name, shards):
    program = load(f"examples/{name}.py")
    for hot_keys in ((), (1, 2), ("a",)):
        for choose in (choose_layout, choose_speculative_layout):
            layout = choose(program, shards, hot_keys=hot_keys)
            forked, plan = plan_layout(program, layout)
            assert find_faults(forked, plan) == []
            machines = {w.machine for w in plan.nodes().values() if w.machine}
            leaves = {machine for machine in machines if machine.startswith("shard")}
            assert leaves == {f"shard {number}" for number in range(layout.shards)}


@settings(max_examples=400)
@given(data=st.data())
def test_the_layout_of_a_random_program_is_a_valid_plan(data):
    program = data.draw(programs())
    hot_keys = data.draw(HOT)
    shards = data.draw(st.sampled_from(SHARDS))
    choose = data.draw(st.sampled_from([choose_layout, choose_speculative_layout]))
    layout = choose(program, shards, hot_keys=hot_keys)
    forked, plan = plan_layout(program, layout)
    assert find_faults(forked, plan) == []
    check_layout(program, layout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anabranch.plan.validity.FEW_PAIRS", 0)
        assert find_faults(forked, plan) == []
    check_routes(program, layout, data.draw(inputs(program.event_types)))


def test_random_programs_are_laid_out_in_every_way_there_is():
    """Else the test above would leave one out."""
    found = set()

    @settings(max_examples=600, database=None, derandomize=True)
    @given(programs(), HOT)
    def collect(program, hot_keys):
        layout = choose_layout(program, 4, hot_keys=hot_keys)
        several = len(set(layout.leaves.values()) - {program.initial.name}) > 0
        found.add((layout.way, bool(layout.hot_keys), layout.lanes is not None, several))

    collect()
    assert {way for way, *_ in found} == {"keyed", "replicated", "shared", "forked", "sequential"}
    assert {hot_keys for way, hot_keys, *_ in found if way in ("keyed", "forked")} == {True, False}
    assert {lanes for way, _, lanes, _ in found if way == "forked"} == {True, False}
    assert {several for way, *_, several in found if way == "forked"} == {True, False}


@settings(max_examples=60)
@given(data=st.data())
def test_a_simulated_layout_gives_the_sequential_answer(data):
    program = data.draw(relations())
    events = data.draw(inputs(program.event_types))
    forked, plan = plan_layout(program, choose_layout(program, data.draw(st.sampled_from(SHARDS))))
    names = [*CHANNELS[: data.draw(st.integers(1, 3))]]
    items = end_channels(
        [event._replace(channel=names[event.seq % len(names)]) for event in events]
    )
    trial = prepare(forked, plan, items)
    for seed in range(3):
        _, mismatch = trial.verify(seed)
        assert mismatch is None, mismatch


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_simulated_layout_of_an_example_gives_the_sequential_answer(name):
    import importlib

    module = importlib.import_module(f"examples.{name}")
    program = load(f"examples/{name}.py")
    items = end_channels(getattr(module, "events", []), channels=getattr(module, "channels", ()))
    forked, plan = plan_layout(program, choose_layout(program, 3))
    trial = prepare(forked, plan, items, getattr(module, "channels", ()))
    for seed in range(10):
        _, mismatch = trial.verify(seed)
        assert mismatch is None, mismatch


def test_a_hot_key_has_a_tree_of_its_own_beside_the_shards_of_the_others():
    program = load("examples/key_counter.py")
    _, plan = plan_layout(program, choose_layout(program, 2, hot_keys=[7]))
    nodes = [(str(node.slices), node.machine) for node in plan.nodes().values() if len(node.slices)]
    root = f"root {choose_layout(program, 2).home(Event(program.event_type('Read')(1, 7)))}"
    assert sorted(nodes) == [
        ("{Inc[key in 0/2 but 7], Read[key in 0/2 but 7]}", "shard 0"),
        ("{Inc[key in 1/2 but 7], Read[key in 1/2 but 7]}", "shard 1"),
        ("{Inc[lane in 0/2, key=7]}", "shard 0"),
        ("{Inc[lane in 1/2, key=7]}", "shard 1"),
        ("{Read[key=7]}", root),
    ]


def test_a_smaller_state_type_is_forked_off_above_its_shards():
    program = load("examples/smart_home.py")
    _, plan = plan_layout(program, choose_layout(program, 2))
    assert [(path, str(w.slices), w.state, w.machine) for path, w in plan.root.walk()] == [
        ("0", "{Minute}", "home", "root"),
        ("0.0", "{}", "rooms", "root"),
        ("0.0.0", "{Temp[room in 0/2]}", "rooms", "shard 0"),
        ("0.0.1", "{Temp[room in 1/2]}", "rooms", "shard 1"),
        ("0.1", "{Pressure}", "gauge", "root"),
    ]


def test_a_state_that_only_markers_change_is_copied_without_a_declared_fork():
    program = Program(
        on(Value, output=lambda s, e: s),
        on(Mark, update=lambda s, e: e.time),
        depends(Mark, Value, Mark),
        init=0,
    )
    assert choose_layout(program, 2).way == "replicated"
    forked, plan = plan_layout(program, choose_layout(program, 2))
    assert (program.forks, len(forked.forks)) == ((), 1)
    assert find_faults(forked, plan) == []
    items = [Event(Value(n, n), "a", n) for n in range(9)] + [Event(Mark(4, 0), "m", 0)]
    _, mismatch = prepare(forked, plan, end_channels(items)).verify(1)
    assert mismatch is None
    assert add_copies(forked) is forked


def test_a_layout_that_parts_what_depends_is_refused_before_it_runs():
    program = Program(
        on(Value, update=lambda s, e: s + 1),
        depends(Value, Value),
        state=MapOf(Sum(), by="key"),
    )
    good = Program(
        on(Value, update=lambda s, e: s + 1),
        depends(Value, Value, same="key"),
        state=MapOf(Sum(), by="key"),
    )
    assert choose_layout(program, 2).way == "sequential"
    with pytest.raises(PlanError, match="defect of Anabranch") as refused:
        check_layout(program, choose_layout(good, 2))
    assert f"{take(Value)}[key in 0/2] depends on {take(Value)}[key in 1/2]" in str(refused.value)
    check_layout(good, choose_layout(good, 2))


def test_a_layout_of_events_that_may_not_leave_the_root_is_refused():
    program = load("examples/value_barrier.py")
    layout = choose_layout(program, 2)
    torn = replace(layout, leaves=dict.fromkeys(program.event_types, "state"))
    with pytest.raises(PlanError, match="Barrier"):
        check_layout(program, torn)


@settings(max_examples=200)
@given(data=st.data())
def test_faults_of_many_slices_are_those_of_all_pairs(data):
    """A layout of one program is held against another: most are torn apart somewhere."""
    program, other = data.draw(programs()), data.draw(programs())
    if set(program.event_types) != set(other.event_types):
        return
    layout = replace(
        choose_layout(program, data.draw(st.sampled_from(SHARDS)), hot_keys=data.draw(HOT)),
        reasons=(),
    )
    _, plan = plan_layout(program, layout)
    faults = find_faults(other, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anabranch.plan.validity.FEW_PAIRS", 0)
        assert sorted(map(str, find_faults(other, plan))) == sorted(map(str, faults))
