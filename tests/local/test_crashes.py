"""A crash at every durable effect of a run: the next run goes on, and nothing differs, byte by byte.

One run is recorded: the disk before each effect, and after each part of a write. From each of these states a new run
goes on to the end. It must leave the same published files and the same pages as the run that was not interrupted,
and that run must give the answer of the reference.
"""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import Event, Program
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.local import page_log
from anabranch.local.page_log import list_logs
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
from anabranch.sources.files import ROW_BITS
from examples.value_barrier import Barrier, Value, value_barrier
from tests.cross.programs import CHANNELS, Item, draw_rows, make_program, to_event
from tests.local.durable_effects import read_disk, record_effects, write_disk
from tests.local.whole_runs import Case, ParquetCase, read_batches, read_state
from tests.microbatch.programs import Limit, Reading, deferring
from tests.runtimes.stories import STORIES


def tell(name: str, **options) -> Case:
    story = STORIES[name]
    return Case(story.program, tuple(story.channels), list(story.items), options, seed=name)


def cross(case: str, layout: str, **options) -> Case:
    channels = tuple(Channel(name) for name in CHANNELS)
    rows = draw_rows(random.Random(f"{case} {layout}"), layout, 8)
    items = end_channels([to_event(row, layout) for row in rows], channels=channels)
    return Case(make_program(case, layout), channels, items, options, seed=layout)


def defer(**options) -> Case:
    channels = (Channel("a", lateness=2), Channel("limits"))
    readings = [Reading(time + time % 3, 0, time * 7 % 23) for time in range(24)]
    items = [Event(reading, "a", n) for n, reading in enumerate(readings)]
    items += [Event(Limit(time, 3 + time), "limits", n) for n, time in enumerate((4, 9, 9, 20))]
    return Case(
        deferring, channels, end_channels(items, channels=channels), options, seed="deferring"
    )


def fold_early(program: Program, make: dict[str, Any], **options) -> ParquetCase:
    """Return a case of four Parquet files in each of some folders, with events out of order and late ones."""
    rng = random.Random(program.name)
    channels = tuple(Channel(name, lateness=3) for name in make)
    items = []
    for name, event in make.items():
        for file in range(4):
            for row in range(9 if "b" not in name else 2):
                time = 10 * file + row - rng.randint(0, 5)
                seq = (file << ROW_BITS) + row
                items.append(Event(event(time, rng.randrange(3)), name, seq))
    return ParquetCase(program, channels, items, options | {"columnar": "require"})


def make_item(time: int, number: int) -> Item:
    return Item(time, number, number * 7 % 5)


CASES = {
    "early folds between markers": fold_early(
        value_barrier, {"a1": Value, "a2": Value, "b": lambda time, _: Barrier(time)}
    ),
    "early folds of windows": fold_early(
        make_program("Sum", "tumbling"), {"north": make_item, "south": make_item}
    ),
    "keyed, columns": cross("Sum", "keyed", shards=2, columnar="require"),
    "keyed, rows": cross("ListOf", "keyed", shards=2, columnar="never"),
    "forked, columns": cross("Sum", "forked", shards=2, columnar="require"),
    "forked keys, rows": cross("Median", "forked keys", shards=3, columnar="never", cores=2),
    "shared": cross("Sum", "shared", shards=2, columnar="never"),
    "sequential": cross("Value", "sequential", columnar="never", shards=1),
    "tumbling windows, columns": cross("Sum", "tumbling", shards=2, columnar="require"),
    "sessions, rows": cross("Median", "sessions", shards=2, columnar="never"),
    "deferred outputs": defer(shards=2, columnar="never"),
    "one shard with its root": defer(shards=1),
    "timers": tell("busy airports", shards=2),
    "late and rejected": tell("late and far ahead", shards=2),
    "functions that raise": tell("functions that raise", shards=3, columnar="never"),
    "speculative, keyed": cross("Sum", "keyed", shards=2, mode="speculative"),
    "speculative, forked": tell("late and far ahead", shards=2, mode="speculative"),
    "parquet": tell("fields of every type", shards=2, format="parquet"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_crash_at_any_durable_effect_changes_nothing(name, tmp_path):
    assert crash_everywhere(CASES[name], tmp_path) > 40


def test_a_crash_while_the_log_is_copied_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(page_log, "_GARBAGE_BYTES", 2000)
    case = replace(CASES["keyed, rows"], files=7)
    assert crash_everywhere(case, tmp_path) > 100
    assert max(list_logs(tmp_path / "home" / "checkpoint")) > 0


def crash_everywhere(case: Case, tmp_path: Path) -> int:
    """Crash a run at each of its effects, and go on; return how many there are."""
    inputs, home = tmp_path / "in", tmp_path / "home"
    home.mkdir()
    case.write(inputs)
    with record_effects(home) as moments:
        run = case.start(inputs, home)
        run.wait()
    assert can_look_ahead(run.job) == isinstance(case, ParquetCase)
    assert case.read(home) == case.expect()
    published, state = read_batches(home), read_state(home)
    kinds = Counter(moment.effect.split()[0] for moment in moments)
    assert {"append", "move", "mkdir", "write", "create"} <= kinds.keys()

    other = tmp_path / "other"
    for number, moment in enumerate(moments):
        write_disk(other, moment.disk)
        case.start(inputs, other).wait()
        where = f"crash {number}, before or in: {moment.effect}"
        assert read_batches(other) == published, where
        assert read_state(other) == state, where
        assert not [n for n in read_disk(other) if "/.batch=" in n or "checkpoint/.p" in n], where
    return len(moments)
