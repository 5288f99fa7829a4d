"""Programs drawn at random live through random histories, and do what a dict would."""

import itertools
import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from anabranch import Event, Heartbeat, Map
from anabranch.eventtime.channels import Channel
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.savepoints import drafts
from anabranch.savepoints.objects import read_snapshot
from anabranch.state.aging import Aged
from tests.state.machine.model import FOREVER, Model, spell
from tests.state.machine.operations import ALL, FREE, OPERATIONS
from tests.state.machine.programs import STEPS, Most, Peek, Spec, evolve, make_program
from tests.state.machine.runtimes import OnSpark, Options, Reference, Shards

KEYS = st.sampled_from([0, 1, 1, 2])


@st.composite
def specs(draw) -> Spec:
    form = draw(st.sampled_from(["keyed", "keyed", "free", "whole", "shared"]))
    if form != "shared" and draw(st.integers(0, 3)) == 0:
        field = draw(st.sampled_from(["count", "total", "top"]))
        return Spec(form, (("only", field),), bare=True)
    known = FREE if form in ("free", "whole") else ALL
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    options: dict[str, Any] = {"drains": draw(st.booleans())}
    if form in ("keyed", "shared"):
        options["alarms"] = draw(st.booleans())
        if draw(st.sampled_from([True, True, False])):
            options["ttl"] = draw(st.integers(1, 4))
            options["refresh"] = draw(st.sampled_from(["writes", "reads"]))
        elif "chain" in chosen:  # What may be cut can't be sparse.
            options["sparse"] = draw(st.booleans())
    return Spec(form, tuple((f"a_{name}", name) for name in chosen), **options)


options = st.builds(
    Options, st.sampled_from([1, 2, 3, 5]), st.sampled_from([(), (1,), (0, 2)]), st.booleans()
)


events = st.fixed_dictionaries(
    {
        "channel": st.sampled_from("ab"),
        "ahead": st.sampled_from([0, 1, 1, 1, 2, 3, -1, -2, -4]),
        "key": KEYS,
        "amount": st.integers(-2, 7),
        "event_type": st.sampled_from(["put", "put", "put", "peek", "most"]),
    }
)


class Machine(RuleBasedStateMachine):
    """A run, its model, and the savepoints that were made on the way."""

    savepoints = Bundle("savepoints")

    def __init__(self, runtime: Any, folder: Path) -> None:
        super().__init__()
        self.runtime_type = runtime
        self.folder = folder
        self.made = 0
        self.sound = False

    @initialize(
        spec=specs(), chosen=options, lateness=st.sampled_from([(0, 0), (2, 0), (3, 1), (0, None)])
    )
    def begin(self, spec: Spec, chosen: Options, lateness: tuple[int, int | None]) -> None:
        self.lateness = dict(zip("ab", lateness, strict=True))
        self.channels = tuple(Channel(name, lateness=late) for name, late in self.lateness.items())
        self.model = Model(spec, self.lateness)
        self.clocks, self.last = dict.fromkeys("ab", 10), dict.fromkeys("ab", -1)
        self.coming: list[Any] = [Heartbeat(0, name, self.count(name)) for name in "ab"]
        self.lost = 0
        self.settle(spec, chosen)
        self.sound = True

    def settle(self, spec: Spec, chosen: Options) -> None:
        """Have the runtime run a program, from its start."""
        hot_keys = chosen.hot_keys if spec.can_be_hot and not chosen.columns else ()
        where = self.folder / f"run{self.made}"
        self.made += 1
        self.run = self.runtime_type(
            make_program(spec), self.channels, chosen._replace(hot_keys=hot_keys), where
        )

    @rule(several=st.lists(events, min_size=5, max_size=20))
    def send_several(self, several: list[dict[str, Any]]) -> None:
        for one in several:
            self.send(**one)

    def send(self, channel: str, ahead: int, key: int, amount: int, event_type: str) -> None:
        time = self.clocks[channel] + ahead
        self.clocks[channel] = max(time, self.clocks[channel])
        spec = self.model.spec
        if event_type == "most" and spec.form == "shared":
            data: Any = Most(time, amount)
        else:
            data = Peek(time, key) if event_type == "peek" else spec.put(time, key, amount)
            if spec.wide and event_type == "put":
                data = data._replace(weight=amount % 3)
        self.coming.append(Event(data, channel, self.count(channel)))

    @rule(channel=st.sampled_from("ab"), ahead=st.integers(0, 5))
    def beat(self, channel: str, ahead: int) -> None:
        self.clocks[channel] += ahead
        self.coming.append(Heartbeat(self.clocks[channel], channel, self.count(channel)))

    def count(self, channel: str) -> int:
        self.last[channel] += 1
        return self.last[channel]

    @rule()
    def cut(self) -> None:
        """End a batch: it says what the model says."""
        self.sound = False  # Until it has been seen to be.
        items, self.coming, self.lost = self.coming, [], 0
        before = self.model.copy()
        self.model.take(items)
        emitted = self.run.take(items)
        assert order(emitted.outputs) == order(self.model.emitted[len(before.emitted) :])
        assert emitted.late == sorted(self.model.late[len(before.late) :])
        assert emitted.rejected == self.model.rejected - before.rejected
        assert emitted.ledger == self.model.ledger
        self.sound = True

    @precondition(lambda self: len(self.coming) > self.lost)
    @rule()
    def crash(self) -> None:
        """Lose a batch that has been worked at; the next one brings it again, and perhaps more."""
        self.lost = len(self.coming)
        self.run.crash(self.coming)

    @rule(target=savepoints)
    def save(self) -> Any:
        self.cut()
        return self.keep()

    def keep(self) -> Any:
        """Make a savepoint, and hold what is in it against the model."""
        self.sound = False
        place = self.folder / f"savepoint{self.made}"
        self.made += 1
        self.run.save(place)
        self.check(place)
        self.sound = True
        return place, self.model.copy(), dict(self.clocks), dict(self.last)

    def check(self, place: Path) -> None:
        program, model = self.run.program, self.model
        held = read_snapshot(place, program)
        state = join_deltas(program, held.state, held.deltas)
        assert show(model.spec, state) == model.show()
        assert sorted(map(spell, held.pending)) == sorted(map(spell, model.pending))
        assert tuple(held.ledger) == model.ledger
        assert {name: one.watermark for name, one in held.standings.items()} == model.watermarks

    @rule(savepoint=savepoints, chosen=options)
    def go_back(self, savepoint: Any, chosen: Options) -> None:
        self.restore(savepoint, chosen, savepoint[1].spec)

    @rule(target=savepoints, chosen=options)
    def rescale(self, chosen: Options) -> Any:
        self.cut()
        savepoint = self.keep()
        self.restore(savepoint, chosen, self.model.spec)
        return savepoint

    @rule(target=savepoints, savepoint=savepoints, chosen=options, step=st.sampled_from(STEPS))
    def change(self, savepoint: Any, chosen: Options, step: str) -> Any:
        self.made += 1
        spec = evolve(savepoint[1].spec, step, self.made)
        if spec is savepoint[1].spec:
            return multiple()
        self.restore(savepoint, chosen, spec)
        return self.keep()

    def restore(self, savepoint: Any, chosen: Options, spec: Spec) -> None:
        self.sound = False
        place, model, clocks, last = savepoint
        self.model, self.clocks, self.last = model.copy(), dict(clocks), dict(last)
        if spec is not self.model.spec:
            self.model.evolve(spec)
        self.coming, self.lost = [], 0
        self.settle(spec, chosen)
        self.run.restore(place)
        self.sound = True

    def teardown(self) -> None:
        """Let the input end, and remove what was written."""
        try:
            if self.sound:
                self.coming += [Heartbeat(FOREVER, name, self.count(name)) for name in "ab"]
                self.cut()
                self.keep()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def order(outputs: list[Any]) -> list[str]:
    return sorted(json.dumps(output) for output in outputs)


def show(spec: Spec, state: Any) -> Any:
    """Return a state of the library in plain values."""
    if spec.form == "shared":
        return state.common, show_entries(spec, state.each)
    return show_entry(spec, state) if spec.form == "whole" else show_entries(spec, state)


def show_entries(spec: Spec, entries: Any) -> dict[Any, Any]:
    return {key: show_entry(spec, entry) for key, entry in Map(entries).entries().items()}


def show_entry(spec: Spec, entry: Any) -> tuple[Any, dict[str, Any]]:
    refreshed = entry.refreshed if isinstance(entry, Aged) else None
    state = entry.state if isinstance(entry, Aged) else entry
    fields = {"only": state} if spec.bare else state._asdict()
    told = {name: OPERATIONS[op].show(fields[name]) for name, op in spec.fields}
    return refreshed, told | ({"last": fields["last"]} if spec.alarms else {})


def drive(runtime: Any, folder: Path, examples: int, steps: int) -> None:
    numbers = itertools.count()
    # Nobody pulls the plug here, and waiting for the disk takes longer than all the rest.
    with patch.object(drafts, "sync"):
        run_state_machine_as_test(
            lambda: Machine(runtime, folder / str(next(numbers))),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.reuse, Phase.generate, Phase.shrink),
                report_multiple_bugs=False,
            ),
        )


@pytest.mark.timeout(900)  # A failure is made smaller for minutes.
def test_the_reference_does_what_a_dict_does(tmp_path):
    drive(Reference, tmp_path, 60, 30)


@pytest.mark.timeout(900)
def test_shards_do_what_a_dict_does(tmp_path):
    drive(Shards, tmp_path, 50, 30)


@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.environ.get("ANABRANCH_MACHINE") != "spark", reason="takes minutes: nightly")
def test_spark_does_what_a_dict_does(spark, tmp_path):
    drive(partial(OnSpark, spark), tmp_path, int(os.environ.get("ANABRANCH_EXAMPLES", "10")), 12)
