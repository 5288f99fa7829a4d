"""Everything that can't be a program, a plan or a channel is refused, in words that help."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anabranch import ForkJoin, Program, Shard, State, depends, on, take
from anabranch.errors import AnabranchError, ConservationError, InputError, PlanError, ProgramError
from anabranch.eventtime.channels import Channel, read_channels
from anabranch.eventtime.disorder import Estimated, read_lateness
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import Event, Heartbeat
from anabranch.plan.layout_plans import check_layout
from anabranch.plan.layouts import choose_layout
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import check_plan
from anabranch.state import (
    ApproxDistinct,
    ApproxQuantile,
    Count,
    MapOf,
    Max,
    Quantile,
    Replicated,
    Several,
    Shared,
    Struct,
    Sum,
    TopK,
)


class Value(NamedTuple):
    time: int
    key: str
    value: int


class Barrier(NamedTuple):
    time: int


class Timeless(NamedTuple):
    key: str


class Sliding(NamedTuple):
    time: float


class Ordinary:
    time: int


@dataclass
class Changeable:
    time: int


class Outer:
    class Value(NamedTuple):
        time: int


def add(total: int, value: Value) -> int:
    return total + value.value


def keep(state: Any, left: Any, right: Any) -> tuple[Any, Any]:
    return state, 0


def join(left: int, right: int) -> int:
    return left + right


value, barrier = on(Value, update=add), on(Barrier, output=lambda total, b: total)
sync = depends(Barrier, Value, Barrier)
counter = Program(value, barrier, sync, state=Sum(), name="counter")
uncut = Program(value, barrier, sync, init=0, name="uncut")


def two_types(*more: Any, **second: Any) -> Program:
    return Program(State("all", value, barrier, init=0), State(**second), sync, *more)


EVENT_TYPES: dict[str, Callable[[], Any]] = {
    "event_type_is_an_instance": lambda: on(Value(1, "a", 2)),
    "event_type_is_a_string": lambda: on("Value"),
    "event_type_is_an_ordinary_class": lambda: on(Ordinary),
    "event_type_can_be_changed": lambda: on(Changeable),
    "event_type_without_time": lambda: on(Timeless),
    "event_type_with_float_time": lambda: on(Sliding),
    "event_types_of_one_name": lambda: Program(value, on(Outer.Value), init=0),
}

HANDLERS: dict[str, Callable[[], Any]] = {
    "update_is_not_a_function": lambda: on(Value, update=0),
    "update_takes_too_little": lambda: on(Value, update=lambda total: total),
    "output_takes_too_much": lambda: on(Value, output=lambda total, value, time: total),
    "event_type_is_handled_twice": lambda: Program(value, on(Value), init=0),
    "handler_is_no_handler": lambda: Program(State("all", Value, init=0)),
    "nothing_is_handled": lambda: Program(init=0),
}

DEPENDENCE: dict[str, Callable[[], Any]] = {
    "depends_on_nothing": lambda: depends(Value),
    "depends_on_an_unknown_event_type": lambda: Program(value, depends(Value, Barrier), init=0),
    "depends_on_a_string": lambda: Program(value, depends(Value, "Barrier"), init=0),
    "depends_on_an_absent_field": lambda: Program(
        value, barrier, depends(Barrier, Value, same="key"), init=0
    ),
    "rank_of_an_unknown_event_type": lambda: Program(value, init=0, rank=(Barrier, Value)),
    "rank_names_a_event_type_twice": lambda: Program(value, init=0, rank=(Value, Value)),
}

SLICES: dict[str, Callable[[], Any]] = {
    "shard_that_there_is_not": lambda: Shard(4, 4),
    "cut_by_an_absent_field": lambda: take(Value, colour="red"),
    "cut_of_a_string": lambda: take("Value", key="a"),
}

STATES: dict[str, Callable[[], Any]] = {
    "part_is_no_part": lambda: Program(Value, init=0),
    "state_is_described_twice": lambda: Program(value, init=0, state=Sum()),
    "state_has_a_zero_of_its_own": lambda: Program(value, zero=0, state=Sum()),
    "state_is_described_beside_types": lambda: Program(State("all", value, init=0), init=0),
    "handlers_beside_types": lambda: Program(State("all", value, init=0), barrier),
    "fork_without_join": lambda: Program(value, init=0, fork=keep),
    "join_without_fork": lambda: Program(value, init=0, join=join),
    "fork_takes_too_little": lambda: Program(value, init=0, fork=lambda total: (0, 0), join=join),
    "join_is_not_a_function": lambda: Program(value, init=0, fork=keep, join=0),
    "state_is_a_class": lambda: Program(value, state=Sum),
    "state_is_a_number": lambda: Program(value, state=0),
    "state_has_no_start": lambda: Program(value),
    "state_per_absent_field": lambda: Program(value, state=MapOf(Count(), by="colour")),
    "state_per_absent_inner_field": lambda: Program(
        value, state=MapOf(MapOf(Count(), by="colour"), by="key")
    ),
    "map_of_a_class": lambda: MapOf(Count, by="key"),
    "map_of_a_number": lambda: MapOf(0, by="key"),
    "map_that_is_sparse_and_may_be_cut": lambda: MapOf(Sum(), by="key", sparse=True),
    "ttl_of_nothing": lambda: MapOf(Sum(), by="key", ttl=0),
    "ttl_in_seconds": lambda: MapOf(Sum(), by="key", ttl=1.5),
    "ttl_refreshed_by_a_wish": lambda: MapOf(Sum(), by="key", ttl=5, refresh="wishes"),
    "ttl_is_missing": lambda: MapOf(Sum(), by="key", refresh="reads"),
    "ttl_of_a_map_of_maps": lambda: MapOf(MapOf(Sum(), by="value"), by="key", ttl=5),
    "ttl_in_lanes": lambda: Program(value, state=MapOf(Sum(), by="key", ttl=5), lanes=4),
    "shared_without_entries": lambda: Shared(Replicated(0), Sum()),
    "shared_of_a_class": lambda: Shared(Replicated, MapOf(Sum(), by="key")),
    "shared_that_expires": lambda: Shared(
        MapOf(Replicated(), by="row", ttl=5), MapOf(Sum(), by="key")
    ),
    "shared_in_lanes": lambda: Program(
        value, barrier, state=Shared(Replicated(0), MapOf(Sum(), by="key")), lanes=4
    ),
    "shared_with_a_timer": lambda: Program(
        value,
        on(Barrier, due=lambda most: 5),
        state=Shared(Replicated(0), MapOf(Sum(), by="key")),
    ),
    "top_nothing": lambda: TopK(0),
    "struct_of_nothing": Struct,
    "struct_of_a_class": lambda: Struct(seen=Count),
    "struct_of_a_map": lambda: Struct(seen=MapOf(Count(), by="key")),
    "several_of_nothing": Several,
    "several_of_a_class": lambda: Several(top=(Max, "value")),
    "several_of_a_number": lambda: Several(top=(Max(), 3)),
    "several_of_a_map": lambda: Several(seen=MapOf(Count(), by="key")),
    "quantile_above_one": lambda: Quantile(95),
    "quantile_of_a_text": lambda: Quantile("95%"),
    "sketch_of_two_hashes": lambda: ApproxDistinct(k=2),
    "sketch_without_error": lambda: ApproxQuantile(0.5, accuracy=0.0),
}

TYPES: dict[str, Callable[[], Any]] = {
    "state_types_of_one_name": lambda: two_types(name="all"),
    "state_type_handles_nothing": lambda: two_types(name="some"),
    "state_type_handles_more_than_the_first": lambda: Program(
        State("all", value, init=0), State("some", barrier)
    ),
    "fork_into_an_unknown_type": lambda: Program(
        State("all", value, init=0), ForkJoin("all", "all", "some", keep, join)
    ),
    "fork_into_a_larger_type": lambda: Program(
        State("all", value, barrier, init=0),
        State("some", value),
        ForkJoin("some", "some", "all", keep, join),
    ),
    "two_forks_between_the_same_types": lambda: Program(
        State("all", value, init=0),
        ForkJoin("all", "all", "all", keep, join),
        ForkJoin("all", "all", "all", keep, join),
    ),
    "fork_of_types_takes_too_little": lambda: ForkJoin("all", "a", "b", lambda s: s, join),
    "fork_that_the_program_has_not": lambda: uncut.fork(0, [Value], [Value]),
}

LANES: dict[str, Callable[[], Any]] = {
    "lanes_are_no_number": lambda: counter.changed(lanes="four"),
    "lanes_are_too_many": lambda: counter.changed(lanes=65_537),
    "lanes_of_events_in_order": lambda: Program(value, depends(Value, Value), state=Sum(), lanes=4),
    "lanes_beside_an_independent_event_type": lambda: Program(
        value, on(Barrier), depends(Barrier, Barrier), state=Sum(), lanes=4
    ),
    "lanes_of_event_types_that_depend": lambda: Program(
        value, on(Barrier), depends(Value, Barrier), state=Sum(), lanes=4
    ),
    "lanes_of_what_speaks_of_the_state": lambda: Program(
        on(Value, update=add, output=lambda total, value: total),
        barrier,
        sync,
        state=Sum(),
        lanes=4,
    ),
    "lanes_of_a_state_that_can_not_fork": lambda: uncut.changed(lanes=4),
    "lanes_of_a_whole_handler": lambda: Program(
        on(Value, update=add, whole=True), barrier, sync, state=Sum(), lanes=4
    ),
    "lanes_of_a_event_type_without_the_key": lambda: Program(
        value, barrier, state=MapOf(Sum(), by="key"), lanes=4
    ),
}

PLANS: dict[str, Callable[[], Any]] = {
    "worker_with_one_child": lambda: PlanNode(Barrier, children=(PlanNode(Value),)),
    "worker_with_nothing_to_do": PlanNode,
    "worker_of_a_number": lambda: PlanNode(3),
    "plan_with_two_faults": lambda: check_plan(
        counter, Plan(PlanNode(children=(PlanNode(Value), PlanNode(Value, Barrier))), name="twins")
    ),
    "layout_that_parts_what_depends": lambda: check_layout(
        counter,
        replace(choose_layout(counter, 2), leaves=dict.fromkeys(counter.event_types, "state")),
    ),
}

CHANNELS: dict[str, Callable[[], Any]] = {
    "lateness_below_zero": lambda: Channel("a", lateness=-1),
    "ahead_is_a_float": lambda: Channel("a", max_ahead=1.5),
    "confidence_is_certain": lambda: Estimated(1.0),
    "confidence_from_too_few": lambda: Estimated(0.999, within=100),
    "estimated_least_above_most": lambda: Estimated(0.9, least=5, most=4),
    "estimated_most_is_a_float": lambda: Estimated(0.9, most=4.5),
    "idle_at_once": lambda: Channel("a", idle_after_s=0),
    "lateness_is_misspelt": lambda: read_lateness("99 percent"),
    "channel_is_strict_and_late": lambda: Channel("a", lateness=5, unique_times=True),
    "channel_is_declared_twice": lambda: read_channels([], [Channel("a"), Channel("a")]),
    "channel_numbers_some": lambda: read_channels(
        [Event(Barrier(1), "a", 0), Heartbeat(1, "a")], []
    ),
}

REFUSALS: dict[str, tuple[type[AnabranchError], Callable[[], Any]]] = {
    name: (error, build)
    for error, builds in [
        (ProgramError, EVENT_TYPES | HANDLERS | DEPENDENCE | SLICES | STATES | TYPES | LANES),
        (PlanError, {name: build for name, build in PLANS.items() if "number" not in name}),
        (ProgramError, {name: build for name, build in PLANS.items() if "number" in name}),
        (InputError, CHANNELS),
        (ConservationError, {"events_vanish": lambda: Ledger(3, 1, late=1).check("counter")}),
    ]
    for name, build in builds.items()
}


def place_of(where: Any) -> tuple[str, int]:
    return Path(where.file).name, where.line


def above(lines: int) -> tuple[str, int]:
    """Return the place so many lines above the caller."""
    return Path(__file__).name, sys._getframe(1).f_lineno - lines


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_is_wrong_and_what_to_do(name, message):
    error, build = REFUSALS[name]
    with pytest.raises(AnabranchError) as refusal:
        build()
    assert type(refusal.value) is error
    message(name, str(refusal.value))


def test_a_refusal_points_to_the_users_own_line():
    with pytest.raises(ProgramError) as refusal:
        on(Timeless)
    assert place_of(refusal.value.where) == above(1)


def test_a_fork_points_to_the_line_where_it_was_written():
    fork = ForkJoin("all", "all", "all", keep, join)
    assert place_of(fork.where) == above(1)


def test_a_function_of_other_arguments_is_shown_where_it_was_written():
    def update(total):
        return total

    with pytest.raises(ProgramError) as refusal:
        on(Value, update=update)
    assert place_of(refusal.value.where) == above(5)


def test_an_error_is_also_what_a_caller_would_expect():
    with pytest.raises(ValueError, match="no time"):
        on(Timeless)
    with pytest.raises(AssertionError, match="not conserved"):
        Ledger(1).check("counter")


def test_a_builtin_that_tells_nothing_of_its_arguments_is_taken():
    assert on(Value, update=max).update is max


def test_every_message_on_file_is_still_asked_for():
    tests = Path(__file__).parents[1]
    asked = "".join(file.read_text() for file in tests.rglob("test_*.py"))
    families = tuple(re.findall(r'f"(\w+_)\{', asked))
    kept = {file.stem for file in (tests / "messages").glob("*.txt")}
    assert kept
    orphans = {name for name in kept if f'"{name}"' not in asked}
    assert {name for name in orphans if not name.startswith(families)} == set()


def test_no_message_tells_of_the_insides():
    texts = [file.read_text() for file in (Path(__file__).parents[1] / "messages").glob("*.txt")]
    assert [text for text in texts if re.search(r"Traceback|0x[0-9a-f]{6}|_Missing", text)] == []
