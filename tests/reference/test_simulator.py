"""The simulator must agree with the fold, and must be able to notice when something is wrong."""

from typing import NamedTuple

import pytest

from anabranch import FOREVER, Event, Heartbeat, Program, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode
from anabranch.reference import network, simulator
from anabranch.reference.mailboxes import Mailbox
from anabranch.reference.sequential import run
from anabranch.reference.simulator import NO_FAULTS, Faults, rehearse, simulate
from anabranch.reference.verification import prepare
from anabranch.state import Sum


class Value(NamedTuple):
    time: int
    amount: int


class Barrier(NamedTuple):
    time: int


value_barrier = Program(
    on(Value, update=lambda s, e: s + e.amount),
    on(Barrier, output=lambda s, e: s, update=lambda s, e: 0),
    depends(Barrier, Value, Barrier),
    state=Sum(),
)
ITEMS = [
    *(Event(Value(t, t), "a1", t) for t in range(1, 20)),
    *(Event(Value(t, 100 * t), "a2", t) for t in range(2, 20, 3)),
    *(Event(Barrier(t), "b", t) for t in (5, 10, 15)),
]
ENDED = end_channels(ITEMS)
SOME_FAULTS = Faults()
BY_CHANNEL = Plan(
    PlanNode(Barrier, children=[PlanNode(take(Value, channel=s)) for s in ("a1", "a2")]),
    "by channel",
)


def failing_seeds(program=value_barrier, plan=BY_CHANNEL, seeds=60, faults=SOME_FAULTS):
    trial = prepare(program, plan, ENDED)
    return [seed for seed in range(seeds) if trial.verify(seed, faults)[1] is not None]


def test_every_seed_gives_the_sequential_answer():
    assert failing_seeds(seeds=1000) == []


def test_faults_really_happen():
    trial = prepare(value_barrier, BY_CHANNEL, ENDED)
    runs = [trial.verify(seed)[0].counts for seed in range(100)]
    assert sum(run.crashes for run in runs) > 20
    assert sum(run.duplicates for run in runs) > 20
    assert sum(run.snapshots for run in runs) > 20
    assert all(run.joins >= 3 for run in runs)


def test_one_seed_is_one_run():
    first, second = (simulate(value_barrier, BY_CHANNEL, ENDED, seed=7) for _ in range(2))
    assert first == second


def test_different_seeds_deliver_in_different_orders():
    rehearsal = rehearse(value_barrier, BY_CHANNEL, ENDED)
    assert len({rehearsal.run(seed).counts for seed in range(20)}) > 5


def test_a_fork_that_copies_a_sum_is_noticed():
    cumulative = Program(
        on(Value, update=lambda s, e: s + e.amount),
        on(Barrier, output=lambda s, e: s),
        depends(Barrier, Value, Barrier),
        init=0,
        fork=lambda s, left, right: (s, s),
        join=lambda a, b: a + b,
    )
    assert len(failing_seeds(cumulative, faults=NO_FAULTS)) == 60


def test_a_mailbox_that_does_not_wait_is_noticed(monkeypatch):
    monkeypatch.setattr(Mailbox, "_may_pass", lambda self, stream, key: True)
    assert failing_seeds()


def test_a_receiver_that_takes_a_message_twice_is_noticed(monkeypatch):
    class Forgetful(network.Network):
        def deliver(self):
            for counts in self._seen.values():
                counts[1] = 0
            return super().deliver()

    monkeypatch.setattr(simulator, "Network", Forgetful)
    assert failing_seeds(faults=Faults(repeat=0.3))


def test_a_channel_that_does_not_replay_is_noticed(monkeypatch):
    emit = simulator.Run.emit

    def emit_once(self, sender, emission, since):
        if self.crashes == 0:
            emit(self, sender, emission, since)

    monkeypatch.setattr(simulator.Run, "emit", emit_once)
    assert failing_seeds()


def test_a_snapshot_of_another_state_is_noticed(monkeypatch):
    keep = simulator.Run.keep
    monkeypatch.setattr(simulator.Run, "keep", lambda self, key, state: keep(self, key, 1 + state))
    assert failing_seeds()


def test_an_event_that_nobody_answers_for_goes_to_the_root():
    plan = Plan(
        PlanNode(Barrier, children=[PlanNode(take(Value, channel=s)) for s in ("a1", "elsewhere")])
    )
    assert failing_seeds(plan=plan) == []


def test_an_update_that_raises_is_rejected_once_whatever_is_replayed():
    def add(total, event):
        if event.amount % 7 == 0:
            raise ValueError(event.amount)
        return total + event.amount

    program = Program(
        on(Value, update=add),
        on(Barrier, output=lambda s, e: s),
        depends(Barrier, Value, Barrier),
        state=Sum(),
    )
    trial = prepare(program, BY_CHANNEL, ENDED)
    for seed in range(100):
        simulation, mismatch = trial.verify(seed)
        assert mismatch is None
        assert simulation.ledger.rejected == trial.answer.ledger.rejected == 3  # 7, 14, 1400


def test_without_a_heartbeat_nothing_comes_out():
    items = [Event(Value(1, 5), "a", 0), Event(Barrier(2), "b", 0)]
    channels = [Channel("a", unique_times=True), Channel("b", unique_times=True)]
    plan = Plan(PlanNode(Barrier, Value))
    silent = simulate(value_barrier, plan, items, channels)
    assert (silent.outputs, silent.ledger.pending) == ([], 1)
    heard = simulate(value_barrier, plan, [*items, Heartbeat(2, "a", 1)], channels)
    assert [output.value for output in heard.outputs] == [5]


def test_late_events_are_counted_and_do_not_reach_the_workers():
    items = [*ITEMS, Event(Value(3, 1000), "a1", 99), Heartbeat(FOREVER, "a1", 100)]
    trial = prepare(value_barrier, BY_CHANNEL, end_channels(items))
    for seed in range(50):
        simulation, mismatch = trial.verify(seed)
        assert mismatch is None
        assert simulation.ledger.late == 1


@pytest.mark.parametrize("lateness", [0, 3, 50])
def test_disorder_within_the_lateness_does_not_show(lateness):
    times = [4, 2, 3, 1, 7, 5, 6, 9, 8, 12, 10, 11]
    items = [
        *(Event(Value(t, t), "a1", n) for n, t in enumerate(times)),
        *(Event(Barrier(t), "b", t) for t in (3, 6, 9)),
    ]
    channels = [Channel("a1", lateness=lateness), Channel("b")]
    trial = prepare(value_barrier, BY_CHANNEL, end_channels(items), channels)
    for seed in range(50):
        assert trial.verify(seed)[1] is None
    assert trial.answer.ledger.late == (0 if lateness else 8)


def test_a_channel_that_has_not_come_far_is_waited_for_even_if_it_sends_nothing():
    items = [Event(Value(time, 1), "a", time) for time in range(1, 9)]
    items += [Event(Barrier(3), "b", 0), Event(Barrier(6), "b", 1), Event(Value(2, 5), "c", 0)]
    channels = tuple(Channel(name) for name in "abc")
    expected = run(value_barrier, items, channels)
    assert (expected.values, expected.ledger.pending) == ([], 10)
    for name, optimize in OPTIMIZERS.items():
        plan = optimize(value_barrier, Rates([Load(take(Value), 10), Load(take(Barrier), 1)]))
        simulation = simulate(value_barrier, plan, items, channels)
        assert (simulation.outputs, simulation.ledger) == ([], expected.ledger), name
