"""What leaves fold from zero: shards, the simulator and the law checker step through the same functions."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.laws import check
from anabranch.plan.tree import Plan, PlanNode
from anabranch.reference.sequential import run
from anabranch.reference.simulator import NO_FAULTS, simulate
from anabranch.state import MapOf, Max, Min, Sum


class Temp(NamedTuple):
    time: int
    room: int
    degrees: int


class Report(NamedTuple):
    time: int


@dataclass(frozen=True)
class Highest(Max):
    """A maximum that begins at a number, while deltas of it begin at None."""

    @property
    def zero(self):
        return None


def hottest(shape):
    return Program(
        on(Temp, update=lambda top, temp: max(top, temp.degrees)),
        on(Report, output=lambda state, _: list(state.items()) if shape.by else state),
        depends(Report, Temp, Report),
        state=shape,
    )


CHANNELS = (Channel("a"), Channel("b"))
ITEMS = end_channels(
    [
        Event(Temp(1, 7, 20), "a", 0),
        Event(Temp(2, 7, 30), "b", 0),
        Event(Temp(3, 8, 10), "a", 1),
        Event(Report(4), "a", 2),
    ],
    channels=CHANNELS,
)


@pytest.mark.parametrize("shape", [Highest(start=0), MapOf(Highest(start=0), by="room")], ids=repr)
def test_an_update_that_fails_on_zero_breaks_the_law_of_zero(shape):
    report = check(hottest(shape), cases=100)
    broken = [result for result in report.results if result.verdict == "broken"]
    assert [result.law for result in broken] == ["join_has_identity"]
    example = broken[0].counterexample
    assert "TypeError" in str(example.got)
    scope = {"Temp": Temp, "Report": Report}
    code = example.code.replace("...  # your program", "hottest(shape)")
    with pytest.raises(AssertionError, match="TypeError"):
        exec(code, scope | {"hottest": hottest, "shape": shape})


@pytest.mark.parametrize("shape", [Highest(start=0), MapOf(Highest(start=0), by="room")], ids=repr)
def test_the_simulator_folds_leaves_from_zero_as_shards_do(shape):
    program = hottest(shape)
    sides = tuple(PlanNode(take(Temp, channel=name)) for name in "ab")
    plan = Plan(PlanNode(Report, children=sides))
    answer = run(program, ITEMS, CHANNELS)
    even, odd = (
        simulate(program, plan, ITEMS, CHANNELS, seed=seed, faults=NO_FAULTS) for seed in (0, 1)
    )
    assert [output.value for output in even.outputs] == answer.values
    assert [len(even.rejected), len(odd.rejected)] == [0, 3]


@pytest.mark.parametrize("inner", [Max(start=0), Min(start=99), Sum(start=5)], ids=repr)
def test_a_state_with_a_start_keeps_the_law_of_zero_in_every_entry(inner):
    choose = {"Max": max, "Min": min, "Sum": lambda a, b: a + b}[type(inner).__name__]
    program = Program(
        on(Temp, update=lambda s, temp: choose(s, temp.degrees)),
        on(Report, output=lambda rooms, _: list(rooms.items())),
        depends(Report, Temp, Report),
        state=MapOf(inner, by="room"),
    )
    results = check(program, laws=["join_has_identity"]).results
    assert [result.verdict for result in results] == ["kept"]
