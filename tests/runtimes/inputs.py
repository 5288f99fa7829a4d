"""Inputs drawn at random, and random ways to cut them into batches and tasks."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from anabranch import Event, Heartbeat, Program
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Item, field_types
from tests.microbatch.streams import Stream, to_row
from tests.microbatch.test_microbatches import Engine
from tests.runtimes.runtimes import Outcome, Place, read_emitted
from tests.vectors.flumina import Vector

# Few values, so that events meet: in a key, at a time, in a total.
VALUES = {
    int: st.integers(-3, 9) | st.sampled_from([1000, 10**12]),
    float: st.sampled_from([0.1, 0.2, 0.7, -1.5, 20.0, 1e17]),
    str: st.sampled_from(["a", "b", "kitchen", "é"]),
    bool: st.booleans(),
}
KEYS = st.integers(1, 3)
AMOUNTS = st.integers(0, 9) | st.sampled_from([1000, 10**12])


@st.composite
def draw_channels(draw, names: Sequence[str]) -> tuple[Channel, ...]:
    """Let channels be in order, strict, patient, wary of the future, or silent but for heartbeats."""
    promises = st.sampled_from(
        [
            {"lateness": 0},
            {"unique_times": True},
            {"lateness": 3},
            {"lateness": 30},
            {"lateness": 2, "max_ahead": 8},
            {"lateness": None},
        ]
    )
    return tuple(Channel(name, **draw(promises)) for name in names)


@st.composite
def draw_items(draw, program: Program, channels: Sequence[Channel]) -> list[Item]:
    """Draw what each channel brings, in its own sequence: out of order, late and ahead at times."""
    items: list[Item] = []
    for channel in channels:
        clock = draw(st.integers(-5, 5))
        steps = st.lists(
            st.tuples(st.sampled_from(program.inputs), st.integers(0, 3), st.integers(0, 9)),
            max_size=14,
        )
        for seq, (event_type, step, chance) in enumerate(draw(steps)):
            clock += step
            # One in ten lags behind, one in ten is a heartbeat, one in ten jumps ahead.
            if chance == 0:
                items.append(Heartbeat(clock - 1, channel.name, seq))
            else:
                time = clock + {1: -draw(st.integers(1, 6)), 2: 40}.get(chance, 0)
                items.append(Event(draw(draw_event(event_type, time)), channel.name, seq))
    if draw(st.integers(0, 4)) == 0:
        return items
    # The end of a channel that has brought nothing has no number of its own.
    return [
        item if item.seq is not None else item._replace(seq=0)
        for item in end_channels(items, channels=channels)
    ]


def draw_event(event_type: type, time: int) -> st.SearchStrategy[Any]:
    kinds = field_types(event_type)
    fields = {name: draw_field(name, kind) for name, kind in kinds.items() if name != "time"}
    return st.builds(lambda **values: event_type(time=time, **values), **fields)


def draw_field(name: str, kind: type) -> st.SearchStrategy[Any]:
    if kind is int and name in ("key", "page", "taxi", "view"):
        return KEYS
    # The laws of the example inc_dec hold for amounts that are not below zero.
    return AMOUNTS if name == "amount" else VALUES[kind]


def cut_rows(rng: random.Random, items: Sequence[Item], size: int) -> list[list[list[dict]]]:
    """Cut an input into batches of about `size` rows of each channel, and each batch into tasks.

    Within a batch rows go to tasks anyhow, and are in no order there: Spark promises none.
    """
    queues: dict[str, list[dict]] = {}
    for item in items:
        queues.setdefault(item.channel, []).append(row_of(item))
    batches = []
    while any(queues.values()):
        rows = []
        for name, queue in queues.items():
            many = rng.randint(0, 2 * size)
            rows += queue[:many]
            queues[name] = queue[many:]
        rng.shuffle(rows)
        ends = sorted(rng.sample(range(len(rows) + 1), min(len(rows), rng.randint(0, 3))))
        tasks = [
            rows[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True) if rows[a:b]
        ]
        if tasks:
            batches.append(tasks)
    return batches


def cut_one_by_one(rng: random.Random, items: Sequence[Item]) -> list[list[list[dict]]]:
    """Make every row a batch of its own; which channel is next is chance."""
    queues: dict[str, list[dict]] = {}
    for item in reversed(items):
        queues.setdefault(item.channel, []).append(row_of(item))
    batches = []
    while waiting := [queue for queue in queues.values() if queue]:
        batches.append([[rng.choice(waiting).pop()]])
    return batches


def row_of(item: Item) -> dict[str, Any]:
    return {"heartbeat": None, "time": None} | to_row(item)


def run_batches(
    program: Program,
    channels: Sequence[Channel],
    batches: list[list[list[dict]]],
    shards: int,
    records: Sequence[type] = (),
    *,
    numbered: bool = True,
) -> Outcome:
    """Run micro-batches without Spark; the books are balanced after each.

    A program whose start holds no record of a kind can't name it, so a test may.
    """
    machine = Engine(program, channels, shards, numbered=numbered)
    for record in records:
        machine.job.codec._learn(record)
    for tasks in batches:
        machine.batch(tasks)
    return read_emitted(machine.emitted, machine.ledger)


@dataclass(frozen=True)
class Shards:
    """Shards and a root in micro-batches cut at random, without Spark."""

    seed: str

    name = "shards"

    def run(self, story: Vector, place: Place) -> Iterator[Outcome]:
        rng = random.Random(self.seed)
        items = story.items
        numbered = Stream(story.program, story.channels, items).numbered
        if numbered:
            items = sorted(items, key=lambda item: (item.seq, isinstance(item, Heartbeat)))
        for shards in (1, 2, 7):
            batches = cut_rows(rng, items, max(1, len(items) // rng.choice((1, 3, 9))))
            yield run_batches(story.program, story.channels, batches, shards, numbered=numbered)
