"""Stories of channels: what each brings, batch by batch, and how far the program has come with it.

A step `batch` says what the channels bring, in their own sequence: a number is an event at that time,
`{beat: 9}` a heartbeat. With `after_s`, so many seconds lie between it and the batch before. A step
`idle` says what is promised on behalf of silent channels: shards must decide so by the clock, and the
reference and the simulator, which have none, are told. A step `expect` looks back on everything:
`watermark`, `channels` (the watermark of each), `said` (the times of processed events, in order), `late`
(channel, time, distance), `pending` (how many), `delay` (of each), `held_back_by`.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from anabranch import Event, Heartbeat, Program, depends, on
from anabranch.eventtime.channels import NEVER, Channel, end_channels
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.held_back import ChannelStatus, find_holders
from anabranch.eventtime.idleness import record
from anabranch.microbatch.ingest.channel_verdicts import describe_standings
from anabranch.plan.tree import Plan, PlanNode
from anabranch.reference.sequential import run
from anabranch.reference.simulator import simulate
from tests.microbatch.test_microbatches import Engine, to_row
from tests.transcripts.stories import FOLDER, StoryError, read_stories

STORIES = list(read_stories(FOLDER / "watermarks.yaml"))


class Tick(NamedTuple):
    time: int


PROGRAM = Program(
    on(Tick, update=lambda count, tick: count + 1, output=lambda count, tick: tick.time),
    depends(Tick, Tick),
    init=0,
    name="ticks",
)

Facts = dict[str, Any]


def read_channels(story: Mapping[str, Any]) -> list[Channel]:
    """Return the channels of a story, each as it is declared."""

    def read(name: str, told: dict[str, Any]) -> Channel:
        options = dict(told)
        if "estimated" in options:
            options["lateness"] = Estimated(**options.pop("estimated"))
        return Channel(name, **options)

    return [read(name, told or {}) for name, told in story["channels"].items()]


class Log:
    """What the channels have brought so far, and what was promised on their behalf."""

    def __init__(self, story: Mapping[str, Any]) -> None:
        self.channels = read_channels(story)
        self.items: list[Any] = []
        self.counts = dict.fromkeys((channel.name for channel in self.channels), 0)

    def bring(self, told: Mapping[str, list[Any]]) -> list[Any]:
        """Number what a batch brings, and return it."""
        brought = []
        for name, items in told.items():
            for one in items:
                seq = self.counts[name]
                self.counts[name] += 1
                beat = isinstance(one, dict)
                brought.append(
                    Heartbeat(one["beat"], name, seq) if beat else Event(Tick(one), name, seq)
                )
        self.items += brought
        return brought

    def waive(self, told: Mapping[str, int]) -> None:
        """Take a decision of somebody with a clock as data."""
        last = {name: count - 1 if count else None for name, count in self.counts.items()}
        self.items += record((name, promise, last[name]) for name, promise in told.items())


def tell_by_reference(story: Mapping[str, Any]) -> list[Facts]:
    """Return what the fold says at each place where a story looks back."""
    log, facts = Log(story), []
    for step in story["steps"]:
        if "batch" in step:
            log.bring(step["batch"])
        elif "idle" in step:
            log.waive(step["idle"])
        else:
            answer = run(PROGRAM, log.items, log.channels)
            facts.append({
                "watermark": answer.watermark,
                "channels": answer.watermarks,
                "emitted": answer.values,
                "late": [[x.event.channel, x.event.time, x.distance] for x in answer.late],
                "pending": answer.ledger.pending,
            })  # fmt: skip
    return facts


def tell_by_simulator(story: Mapping[str, Any], seed: int) -> list[Facts]:
    """Return what the simulator says at each place where a story looks back: what is late.

    It rehearses inputs that end; what it says of those must be what the fold says.
    """
    log, facts = Log(story), []
    for step in story["steps"]:
        if "batch" in step:
            log.bring(step["batch"])
        elif "idle" in step:
            log.waive(step["idle"])
        else:
            bounded = end_channels(log.items, channels=log.channels)
            done = simulate(PROGRAM, Plan(PlanNode(Tick)), bounded, log.channels, seed=seed)
            answer = run(PROGRAM, bounded, log.channels)
            emitted = [output.value for output in sorted(done.outputs, key=lambda o: o.key)]
            if (emitted, done.ledger) != (answer.values, answer.ledger):
                raise StoryError(f"The simulator says {emitted}, and the fold {answer.values}")
            facts.append({"late": [[x.event.channel, x.event.time, x.distance] for x in done.late]})
    return facts


def tell_by_shards(story: Mapping[str, Any], *, columns: bool) -> list[Facts]:
    """Return what a shard says at each place where a story looks back; check who it says is idle."""
    log, facts = Log(story), []
    engine = Engine(PROGRAM, log.channels, 1, columns=columns)
    clock_ms = 0
    waived: dict[str, int] = {}
    for step in story["steps"]:
        if "batch" in step:
            clock_ms += 1000 * step.get("after_s", 0)
            engine.batch([[to_row(item) for item in log.bring(step["batch"])]], clock_ms)
            before, waived = waived, _list_waived(engine)
            new = {name: time for name, time in waived.items() if before.get(name) != time}
        elif "idle" in step:
            if new != step["idle"]:
                raise StoryError(f"Idle are {new}, not {step['idle']}")
            new = {}
        else:
            if new:
                raise StoryError(f"Nobody tells that idle are {new}")
            facts.append(_look_at(engine, log))
    return facts


def _list_waived(engine: Engine) -> dict[str, int]:
    return {name: s.waived for name, s in engine.standings.items() if s.waived > NEVER}


def _look_at(engine: Engine, log: Log) -> Facts:
    about = describe_standings({s.name: s for s in log.channels}, engine.standings)
    statuses = {
        name: ChannelStatus(standing.watermark, **about[name])
        for name, standing in engine.standings.items()
    }
    late = [emitted for emitted in engine.emitted if emitted.kind == "late"]
    return {
        "watermark": engine.watermark,
        "channels": {name: status.watermark for name, status in statuses.items()},
        "emitted": [
            json.loads(emitted.value) for emitted in engine.emitted if emitted.kind == "output"
        ],
        "late": [[s.channel, s.time, int(s.reason.split()[0])] for s in late],
        "pending": engine.ledger.pending,
        "delay": {name: status.delay for name, status in statuses.items()},
        "held_back_by": find_holders(engine.watermark, statuses),
    }


def check_story(story: Mapping[str, Any], facts: list[Facts]) -> None:
    """Hold what a runtime says against a story; raise a StoryError where they differ."""
    places = [step["expect"] for step in story["steps"] if "expect" in step]
    assert len(places) == len(facts) > 0
    for number, (wanted, found) in enumerate(zip(places, facts, strict=True), 1):
        for name, told in wanted.items():
            if name not in found:
                continue
            value = found[name]
            if isinstance(told, dict):
                value = {key: value[key] for key in told}
            elif name == "late":
                told, value = sorted(told), sorted(value)  # noqa: PLW2901
            if _name(value) != told:
                raise StoryError(f"At place {number}, {name} is {_name(value)}, not {told}")


def _name(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _name(one) for key, one in value.items()}
    return None if value == NEVER else value
