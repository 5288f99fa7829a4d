import json
from typing import NamedTuple

import pytest

from anabranch import ForkJoin, Program, State, depends, on
from anabranch.errors import InputError
from anabranch.model.targets import load
from anabranch.plan.explanation import compare, explain, rival_rows, write_comparison
from anabranch.plan.pricing.rates import assume_rates, declare_rates, read_rates
from anabranch.state import MapOf, Sum


class Step(NamedTuple):
    time: int
    room: str


class Note(NamedTuple):
    time: int
    room: str


def example(name):
    program = load(f"examples/{name}.py:{name}")
    return program, read_rates(program, f"docs/rates/{name}.json")


def stay(state, event):
    return state


def why(program, optimizer="best", rates=None):
    (obstacle,) = explain(program, rates or assume_rates(program), optimizer).obstacles
    return obstacle


@pytest.mark.parametrize("optimizer", ["best", "greedy"])
def test_the_key_counter_is_explained_word_for_word(optimizer, message):
    message(f"explain_key_counter_{optimizer}", str(explain(*example("key_counter"), optimizer)))


def test_the_key_counter_is_compared_word_for_word(message):
    message("explain_key_counter_compare", write_comparison(compare(*example("key_counter"))))


def test_the_dependence_is_a_symmetric_table():
    rows = explain(*example("inc_dec")).dependence_rows()
    assert rows == [
        ["Inc", "·", "always", "always"],
        ["Dec", "always", "·", "always"],
        ["Mark", "always", "always", "always"],
    ]


def test_lanes_are_named_in_the_dependence():
    program, rates = example("value_barrier")
    assert explain(program.changed(lanes=4), rates).dependence_rows()[0] == [
        "Value", "same lane", "always"
    ]  # fmt: skip


def test_the_published_plan_has_its_rates_and_machines():
    duties = explain(*example("key_counter"), "greedy").duties
    assert [(d.path, d.rate, d.syncs, d.node.machine) for d in duties] == [
        ("0", 0, 0, "E0"),
        ("0.0", 10, 10, "E0"),
        ("0.0.0", 200, 0, "E2"),
        ("0.0.1", 300, 0, "E3"),
        ("0.1", 115, 0, "E1"),
    ]


def test_json_is_plain_data_that_names_everything():
    document = json.loads(json.dumps(explain(*example("smart_home")).to_json()))
    assert document["kind"] == "forked"
    assert document["event_types"]["Minute"]["depends"] == {
        "Temp": "always", "Pressure": "always", "Minute": "always"
    }  # fmt: skip
    assert document["levels"][0]["markers"] == ["Minute"]
    nodes = document["plan"]["nodes"]
    assert [(w["path"], w["state"]) for w in nodes] == [
        ("0", "home"), ("0.0", "rooms"), ("0.0.0", "rooms"), ("0.0.1", "rooms"), ("0.1", "gauge")
    ]  # fmt: skip
    assert document["keeps_up"] is True
    assert document["why_one_worker"] == []


def test_what_was_left_together_is_said_with_the_reason():
    notes = explain(*example("key_counter")).notes
    assert len(notes) == 1
    assert "node 0.0 could be cut further (Inc[key=2]@a | Inc[key=2]@b)" in notes[0]


def test_a_hot_slice_is_spread_and_the_lanes_share_its_rate():
    program, rates = example("fraud")
    explanation = explain(program, rates)
    lanes = [d.rate for d in explanation.duties if not d.node.children]
    assert sorted(lanes) == [450_000, 450_000, 500_000, 500_000, 500_000]
    assert "Txn@south has 1.5M/s, more than one node's 700k/s: it is spread over 3 lanes" in (
        explanation.reasons
    )


def test_a_plan_that_can_not_keep_up_says_which_worker():
    program, rates = example("value_barrier")
    explanation = explain(program, rates, "sequential")
    assert not explanation.keeps_up
    assert "node 0 can't keep up: it would need 240% of its time" in explanation.reasons


def test_a_leaf_without_zero_waits_for_its_state():
    assert any(
        "no zero is declared for gauge" in r for r in explain(*example("smart_home")).reasons
    )
    assert not any("no zero" in r for r in explain(*example("value_barrier")).reasons)


def test_dependence_on_everything_is_named_with_the_pair_and_the_statement():
    program = Program(on(Step, update=stay), depends(Step, Step), init=0)
    obstacle = why(program)
    assert (obstacle.pair, obstacle.missing) == (("Step", "Step"), "independence")
    assert obstacle.text.startswith("every Step depends on every other (test_explanation.py:")
    assert "depends(Step, Step, same='room')" in obstacle.text
    assert "independent_updates_commute" in obstacle.text


def test_a_missing_fork_is_named_with_the_event_types_that_it_would_part():
    program = Program(
        on(Step, update=stay), on(Note, update=stay), depends(Note, Step, Note), init=0
    )
    obstacle = why(program)
    assert (obstacle.pair, obstacle.missing) == (("Step", "Step"), "fork")
    assert "two Step are independent, but there is no fork and join" in obstacle.text
    assert "join_undoes_fork and update_passes_through_join" in obstacle.text


def test_a_missing_key_in_the_state_is_named():
    program = Program(on(Step, update=stay), depends(Step, Step, same="room"), init=0)
    obstacle = why(program)
    assert (obstacle.pair, obstacle.missing) == (("Step", "Step"), "fork")
    assert "Step of different room are independent" in obstacle.text
    assert "state=MapOf(..., by='room')" in obstacle.text


def test_forks_that_lead_nowhere_are_named():
    # The first type handles both event types and forks into a type that handles notes only.
    program = Program(
        State("all", on(Step, update=stay), on(Note, update=stay), init=0),
        State("notes", on(Note, update=stay), state=MapOf(Sum(), by="room")),
        ForkJoin("all", "notes", "notes", lambda s, a, b: (s, s), lambda a, b: a),
        depends(Step, Step),
    )
    obstacle = why(program)
    assert (obstacle.pair, obstacle.missing) == (("Step", "Note"), "fork")
    assert "the program has all -> notes, notes" in obstacle.text


def test_rates_that_are_not_worth_a_cut_are_named():
    program, _ = example("value_barrier")
    rows = [{"type": "Barrier", "rate": 1}]
    rows += [{"type": "Value", "channel": name, "rate": 50} for name in ("a", "b")]
    obstacle = why(program, rates=declare_rates(program, rows))
    assert (obstacle.pair, obstacle.missing) == (("Value", "Value"), "events")
    assert "3 nodes would cost" in obstacle.text


def test_one_slice_of_everything_is_nothing_to_part():
    program, _ = example("value_barrier")
    assert "Value arrives as one slice of 100/s" in why(program).text


def test_a_marker_as_frequent_as_its_values_is_named():
    program, _ = example("value_barrier")
    rows = [{"type": "Barrier", "rate": 60}]
    rows += [{"type": "Value", "channel": name, "rate": 50} for name in ("a", "b")]
    obstacle = why(program, rates=declare_rates(program, rows))
    assert obstacle.text == (
        "two Value could run in parallel, but at these rates Barrier is about as frequent, "
        "and each requires a join"
    )


def test_an_optimizer_that_never_cuts_is_named():
    obstacle = why(*example("value_barrier")[:1], "keyed", example("value_barrier")[1])
    assert obstacle.missing == "choice"
    assert "the optimizer 'keyed' never separates them" in obstacle.text


def test_a_plan_of_several_workers_has_no_obstacles():
    assert explain(*example("value_barrier")).obstacles == ()


def test_an_optimizer_that_can_not_plan_says_why_and_the_others_go_on():
    program = Program(on(Step, update=stay), on(Note, update=stay), init=0, name="steps")
    rivals = compare(program, assume_rates(program))
    assert [(rival.optimizer, rival.plan is None) for rival in rivals] == [
        ("best", False), ("greedy", True), ("hybrid", True), ("keyed", False), ("sequential", False)
    ]  # fmt: skip
    assert rivals[1].reason == "steps has no forks that lead to the greedy plan"
    assert rivals[1].to_json()["cost"] is None
    assert rival_rows(rivals)[2][-1] == "steps has no forks that lead to the greedy plan"


def test_the_best_plan_is_never_dearer_than_another():
    for name in (
        "max_temperature",
        "key_counter",
        "inc_dec",
        "smart_home",
        "fraud",
        "value_barrier",
    ):
        best, *others = compare(*example(name))
        assert all(best.cost.total <= rival.cost.total for rival in others), name


def test_an_unknown_optimizer_is_refused():
    program, rates = example("fraud")
    with pytest.raises(InputError, match="there is no optimizer 'fastest'"):
        explain(program, rates, "fastest")
