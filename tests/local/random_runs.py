"""Random programs, inputs, batches, crashes and cores, each from a seed: against the reference and plain Python.

`python -m tests.local.random_runs 7` runs seed 7 again and prints what it is; `make soak` runs many.
"""

import random
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from anabranch import Program
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Item, Malformed
from tests.cross.oracle import Row
from tests.cross.programs import (
    CASES,
    CHANNELS,
    LAYOUTS,
    draw_rows,
    expect,
    make_program,
    read_output,
    sort_outputs,
    to_event,
)
from tests.cross.test_states import COLUMN_GAPS, GAPS, NO_ZERO
from tests.local.durable_effects import Crash, crash_at
from tests.local.whole_runs import Case
from tests.microbatch.streams import read_published

PAIRS = [
    (case, layout)
    for case in CASES
    for layout in LAYOUTS
    if (case, layout) not in GAPS or GAPS[case, layout] == NO_ZERO
]
COMPILED = [
    pair
    for pair in PAIRS
    if pair[0] in ("Count", "Sum", "Max", "Mean", "Struct") and pair not in COLUMN_GAPS
]
"""Programs on the columnar path. They are few, because each has to be compiled."""

EFFECTS = 110
"""About how many durable effects a run has: a crash at a later one does not happen."""


class Trial(NamedTuple):
    """A seed: what runs, and the effects at which it crashes, one for each life but the last."""

    case: str
    layout: str
    run: Case
    rows: list[Row]
    crashes: list[int]

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.run.options.items())
        return (
            f"{self.case}, {self.layout}, {len(self.run.items)} items in {self.run.files} files, "
            f"{options}, crashes at effects {self.crashes}"
        )


class Verdicts(NamedTuple):
    """Rows by what becomes of them, in plain Python."""

    processed: list[Row]
    late: list[tuple[str, int]]


@cache
def build(case: str, layout: str) -> Program:
    """Return one program for all seeds, so that its functions are compiled once."""
    return make_program(case, layout)


def draw(seed: int) -> Trial:
    """Return the trial of a seed."""
    rng = random.Random(seed)
    columnar = rng.random() < 0.2
    case, layout = rng.choice(COMPILED if columnar else PAIRS)
    lateness = rng.choice((0, 0, 1, 4))
    channels = tuple(Channel(name, lateness=lateness) for name in CHANNELS)
    rows = disturb(rng, draw_rows(rng, layout, rng.randint(1, 9)), lateness)
    items: list[Item] = [to_event(row, layout) for row in rows]
    items += list(spoil(rng, rows))
    options: dict[str, Any] = {"shards": rng.choice((1, 2, 3)), "cores": rng.choice((1, 1, 2))}
    options["columnar"] = "require" if columnar else "never"
    if not columnar and rng.random() < 0.2:
        options["mode"] = "speculative"
    crashes = [rng.randrange(EFFECTS) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    ended = [
        i if i.seq is not None else i._replace(seq=99)
        for i in end_channels(items, channels=channels)
    ]
    run = Case(build(case, layout), channels, ended, options, rng.randint(1, 3), str(seed))
    return Trial(case, layout, run, rows, crashes)


def disturb(rng: random.Random, rows: list[Row], lateness: int) -> list[Row]:
    """Let rows of a channel overtake each other: most by no more than its lateness, some by more."""
    found = []
    for channel in CHANNELS:
        mine = [row for row in rows if row.channel == channel]
        delays = [rng.randint(0, lateness) + 7 * (rng.random() < 0.05) for _ in mine]
        order = sorted(range(len(mine)), key=lambda n: (mine[n].time + delays[n], n))
        found += [mine[n]._replace(seq=2 * seq) for seq, n in enumerate(order)]
    return found


def spoil(rng: random.Random, rows: list[Row]) -> list[Malformed]:
    """Return rows of no use, each beside a good one."""
    found = []
    for row in rows:
        if rng.random() < 0.04:
            raw = {"channel": row.channel, "seq": row.seq + 1, "type": "Item", "time": row.time}
            raw |= {"key": 1, "value": "lots"}
            reason = "field 'value' of Item: expected int, got \"lots\" (text)"
            found.append(Malformed(raw, reason, row.channel, row.seq + 1))
    return found


def judge(rows: list[Row], lateness: int) -> Verdicts:
    """Return which rows are late: those that lie more than the lateness behind their channel's largest time."""
    processed, late = [], []
    largest: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: (row.channel, row.seq)):
        top = largest.setdefault(row.channel, row.time)
        if row.time < top - lateness:
            late.append((row.channel, row.seq))
        else:
            processed.append(row)
        largest[row.channel] = max(top, row.time)
    return Verdicts(processed, late)


def try_seed(seed: int, folder: Path) -> Counter[str]:
    """Run a seed in an empty folder; raise `AssertionError` on a difference; return what was tried."""
    trial = draw(seed)
    rng = random.Random(f"{seed} crashes")
    inputs, home = folder / "in", folder / "home"
    home.mkdir()
    trial.run.write(inputs)
    tried = Counter(seeds=1)
    for number in trial.crashes:
        try:
            with crash_at(home, number, rng):
                trial.run.start(inputs, home).wait()
        except Crash:
            tried["crashes"] += 1
    trial.run.start(inputs, home).wait()
    check(trial, home)
    return tried


def check(trial: Trial, home: Path) -> None:
    """Compare what was published with the reference, and with plain Python."""
    found = trial.run.read(home)
    assert found == trial.run.expect(), "differs from the reference"
    processed, late = judge(trial.rows, trial.run.channels[0].lateness or 0)
    assert [(channel, seq) for channel, seq, _ in found.late] == sorted(late), "late"
    ledger = found.ledger
    spoilt = sum(isinstance(item, Malformed) for item in trial.run.items)
    counted = (ledger.processed, ledger.late, ledger.rejected)
    assert counted == (len(processed), len(late), spoilt), "ledger"
    standing = set(found.outputs)
    published = read_published(home / "out", trial.run.program)
    outputs = {row.id: row for row in published if (row.id, row.value) in standing}
    values = [
        read_output(trial.case, trial.layout, row.time, row.channel, row.seq, row.value)
        for row in outputs.values()
    ]
    assert sort_outputs(values) == expect(trial.case, trial.layout, processed), "plain Python"


def try_in_scratch(seed: int) -> Counter[str]:
    """Run a seed in a folder that is removed; name the seed if it fails."""
    fast = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        try:
            return try_seed(seed, Path(folder))
        except Exception as error:
            error.add_note(f"seed {seed}: {draw(seed)}")
            error.add_note(f"replay: python -m tests.local.random_runs {seed}")
            raise


if __name__ == "__main__":
    for text in sys.argv[1:]:
        print(f"seed {text}: {draw(int(text))}")  # noqa: T201
        print(dict(try_in_scratch(int(text))))  # noqa: T201
