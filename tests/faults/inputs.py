"""Inputs long enough to be interrupted, and queries that run on them."""

import json
import random
from itertools import pairwise
from pathlib import Path

from anabranch import Event
from anabranch.eventtime.channels import end_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.reference.sequential import run as fold
from tests.microbatch.streams import Story, outputs_of, read_published


class LongStory(Story):
    """An example on a longer input, in which some events are late where a channel allows it."""

    def __init__(self, name: str, length: int, seed: int) -> None:
        super().__init__(name)
        rng = random.Random(f"{name} {seed}")
        make = {"value_barrier": self._value_barrier, "key_counter": self._key_counter}[name]
        counts: dict[str, int] = {}
        events = []
        for time in range(1, length + 1):
            channel, data = make(rng, time)
            events.append(Event(data, channel, counts.get(channel, 0)))
            counts[channel] = counts.get(channel, 0) + 1
        self.items = end_channels(events, channels=self.channels)
        self.answer = fold(self.program, self.items, self.channels)

    def _value_barrier(self, rng, time):
        if time % 4 == 0:
            return "b", self.program.event_type("Barrier")(time)
        return rng.choice(["a1", "a2"]), self.program.event_type("Value")(time, rng.randint(-9, 9))

    def _key_counter(self, rng, time):
        key = rng.randint(1, 5)
        if rng.random() < 0.3:
            return "reads", self.program.event_type("Read")(time, key)
        behind = 9 if time > 20 and rng.random() < 0.1 else 0
        return rng.choice(["a", "b"]), self.program.event_type("Inc")(time - behind, key)

    def slices(self, number: int) -> list[list]:
        """Cut the input into parts of about one size, in the order of arrival."""
        ends = [len(self.items) * n // number for n in range(number + 1)]
        return [self.items[a:b] for a, b in pairwise(ends)]


def start(spark, story: Story, home: Path, checkpoint: Path, out: Path, *, columns: bool = True):
    """Start, or restart, a story's query: one file a batch, until all files are read."""
    from anabranch.spark.runs import run
    from anabranch.spark.sinks.directory import write_directory

    frame = spark.readStream.schema(story.schema).option("maxFilesPerTrigger", 1)
    sources = story.source(frame.json(str(home / "in")))
    result = run(story.program, sources, shards=2, columnar="auto" if columns else "never")
    return write_directory(result, output=out, checkpoint=checkpoint, available_now=True)


def published(out: Path) -> list[int]:
    """Return the numbers of the batches that can be seen."""
    return sorted(int(path.name.partition("=")[2]) for path in out.glob("batch=*"))


def check_answer(spark, story: Story, out: Path) -> None:
    """Hold what was published against the fold: nothing twice, nothing missing, all counted."""
    rows = read_published(out, story.program)
    outputs = outputs_of(rows)
    assert len({name for name, _ in outputs}) == len(outputs), "an output was published twice"
    assert outputs == story.expected()
    late = sorted((row.channel, row.seq) for row in rows if row.kind == "late")
    assert late == sorted((late.event.channel, late.event.seq) for late in story.answer.late)
    for batch in published(out):
        ledger = Ledger(**json.loads((out / f"batch={batch}" / "_ledger.json").read_text()))
        assert ledger.balanced, f"batch {batch}: {ledger}"
    assert ledger == story.answer.ledger
