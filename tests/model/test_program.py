import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass
from typing import NamedTuple

import pytest

from anabranch import Event, ForkJoin, Program, State, depends, on, take
from anabranch.state import Max, Sum


class Value(NamedTuple):
    time: int
    value: int


@dataclass(frozen=True)
class Barrier:
    time: int


def add(total, value):
    return total + value.value


def say(total, barrier):
    return total


def fork(total, left, right):
    return total, 0


def join(left, right):
    return left + right


def make(**options):
    return Program(
        on(Value, update=add),
        on(Barrier, output=say),
        depends(Barrier, Value, Barrier),
        **{"init": 0, "fork": fork, "join": join, "zero": 0, **options},
    )


program = make()


def explode(*args):
    raise AssertionError("a program that is being built runs nothing")


def test_building_a_program_runs_none_of_its_functions():
    make_exploding = Program(
        on(Value, update=explode),
        on(Barrier, output=explode),
        depends(Barrier, Value, Barrier),
        init=0,
        fork=explode,
        join=explode,
        same=explode,
        zero=0,
        lanes=4,
    )
    assert make_exploding.lanes == 4


def test_a_program_can_not_be_changed():
    with pytest.raises(FrozenInstanceError):
        program.name = "other"


def test_a_changed_program_differs_in_what_was_changed():
    other = program.changed(name="other", lanes=4)
    assert (other.name, other.lanes, program.lanes) == ("other", 4, None)
    assert other.where == program.where
    assert other.event_types == program.event_types


def test_a_program_can_be_given_more_parts():
    class Tick(NamedTuple):
        time: int

    assert program.changed(on(Tick), depends(Tick, Tick)).event_types == (Value, Barrier, Tick)


def test_a_program_equals_itself_built_again():
    assert program.changed() == program
    assert hash(program.changed()) == hash(program)
    assert program.changed(init=1) != program


def fold_three(any_program):
    state = any_program.init
    for seq in range(3):
        state = any_program.update(state, Event(Value(1, seq), "a", seq))
    return state


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
@pytest.mark.parametrize("original", [program, program.changed(lanes=3), make(rank=Value)])
def test_a_copied_program_is_the_same_program(again, original):
    copied = again(original)
    assert copied.state_types == original.state_types
    assert copied.dependence == original.dependence
    assert (copied.rank, copied.lanes) == (original.rank, original.lanes)
    assert (copied.name, copied.where) == (original.name, original.where)
    assert fold_three(copied) == fold_three(original)


def test_a_step_gives_the_state_and_what_was_said_of_the_state_before():
    deferring = Program(on(Value, update=add, output=say), init=0)
    assert deferring.step(5, Value(1, 2)) == (7, (5,))
    assert deferring.step(5, Event(Value(1, 2), "a", 0)) == (7, (5,))
    assert deferring.update(5, Value(1, 2)) == 7
    assert deferring.output(5, Value(1, 2)) == (5,)


def test_fork_and_join_can_be_called_by_hand():
    left, right = program.fork(7, [take(Value, channel="a")], [take(Value, channel="b")])
    assert (left, right) == (7, 0)
    assert program.join(7, 5) == 12


def test_a_fork_is_told_which_events_go_where():
    told = []

    def listen(total, left, right):
        told.append((repr(left), repr(right)))
        return total, 0

    make(fork=listen).fork(0, [take(Value, channel="a")], [Value])
    assert told == [("{Value@a}", "{Value}")]


def test_event_types_and_types_are_found_by_name():
    assert program.event_type("Barrier") is Barrier
    assert program.state_type("state") is program.initial
    with pytest.raises(KeyError, match="no event type 'Nothing'; it has Value, Barrier"):
        program.event_type("Nothing")
    with pytest.raises(KeyError, match="no state type 'other'; it has state"):
        program.state_type("other")


def test_a_state_that_forks_brings_a_fork_of_its_own():
    own = program.find_fork("state", "state", "state")
    assert (own.fork, own.join) == (fork, join)
    assert Program(on(Value), init=0).forks == ()
    assert program.find_fork("state", "state", "other") is None


def test_several_types_of_state_fork_into_each_other():
    home = Program(
        State("both", on(Value, update=add), on(Barrier, output=say), init=(0, None)),
        State("sum", on(Value, update=add), state=Sum()),
        State("top", on(Value), state=Max()),
        ForkJoin("both", "sum", "top", lambda s, left, right: s, lambda a, b: (a, b)),
        depends(Barrier, Value, Barrier),
    )
    assert [state_type.name for state_type in home.state_types] == ["both", "sum", "top"]
    assert home.fork((3, 4), [Value], [Value]) == (3, 4)
    assert home.join(3, 4) == (3, 4)
    assert home.fork(3, [Value], [Value], kind="sum") == (3, 0)
    assert home.state_type("sum").handles([Value])
    assert not home.state_type("sum").handles([Value, Barrier])
    assert home.find_fork("sum", "sum", "sum") is not None


def test_a_fork_given_for_a_type_replaces_its_own():
    mine = ForkJoin("all", "all", "all", fork, join)
    own = Program(State("all", on(Value, update=add), state=Max()), mine)
    assert own.forks == (mine,)


def test_a_marker_orders_events_that_are_free_among_themselves():
    assert program.markers == (Barrier,)
    assert Program(on(Value), depends(Value, Value), init=0).markers == ()


def test_equality_of_states_is_the_programs_own():
    close = make(same=lambda a, b: abs(a - b) < 2)
    assert close.initial.shape.same(1, 2)
    assert not program.initial.shape.same(1, 2)


def test_a_program_reads_as_its_name_and_event_types():
    assert str(program.changed(name="sums")) == "sums (Value, Barrier)"
