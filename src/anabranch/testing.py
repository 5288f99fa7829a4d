"""Tests of programs: run one on a list of events on several runtimes, and compare with the reference."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

from anabranch.demo import DifferenceError, Rows, compare, stream_on_spark
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import Item
from anabranch.model.program import Program
from anabranch.plan.layout_plans import plan_layout
from anabranch.plan.layouts import choose_layout
from anabranch.program_runs import list_items
from anabranch.reference.event_files import encode_item
from anabranch.reference.rows import write_rows
from anabranch.reference.sequential import Answer, Output
from anabranch.reference.sequential import run as fold
from anabranch.sources.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.microbatch.job.path_choice import Columnar

__all__ = ["RUNTIMES", "DifferenceError", "Runtime", "check"]

Runtime = Literal["reference", "speculative", "simulated", "local", "spark"]
"""A runtime: one event after the other; speculative, with retractions; a plan under random schedules with
crashes; the embedded runtime, in random batches with a restart; Spark."""

RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)
"""All runtimes of `check`."""

HERE: tuple[Runtime, ...] = ("reference", "speculative", "simulated", "local")
"""The runtimes that need no Spark. Without PyArrow, `check` leaves out "local", unless it is asked for."""


def check(  # noqa: PLR0913 - what may differ between runs, each by its name
    program: Program,
    events: Iterable[Any],
    *,
    expected: Sequence[Any] | None = None,
    channels: Sequence[Channel] = (),
    on: Sequence[Runtime] = HERE,
    seed: int = 0,
    runs: int = 10,
    shards: int = 3,
    spark: SparkSession | None = None,
) -> Answer:
    """Run a program on events on every runtime in `on`, and return the reference's answer.

    `events` and `channels` are those of `anabranch.run`; the input has an end. `expected` are the values of the
    outputs, in order. Each runtime except Spark runs `runs` times, with seeds from `seed` on: a seed decides
    how channels are interleaved, where batches begin, and when nodes crash or runs restart. Spark runs once, as a stream of
    random batches, in `spark` or a local session.

    Raises `DifferenceError`, an `AssertionError`, with the first output that differs and the seed.
    """
    _check_arguments(on, runs, shards)
    if on is HERE and find_spec("pyarrow") is None:
        on = [runtime for runtime in HERE if runtime != "local"]
    items = _number(end_channels(list_items(program, events), channels=channels))
    answer = fold(program, items, channels)
    if expected is not None:
        _compare_values(program, list(expected), answer.values)
    trial = _Trial(program, items, channels, answer, seed, runs, shards, spark)
    for runtime in dict.fromkeys(on):
        trial.run(runtime)
    return answer


class _Trial:
    """A program, its input, and the answer that each runtime must give."""

    def __init__(
        self,
        program: Program,
        items: list[Item],
        channels: Sequence[Channel],
        answer: Answer,
        seed: int,
        runs: int,
        shards: int,
        spark: SparkSession | None,
    ) -> None:
        self.program, self.items, self.channels = program, items, channels
        self.answer, self.shards, self.spark = answer, shards, spark
        self.seed, self.seeds = seed, range(seed, seed + runs)

    def run(self, runtime: Runtime) -> None:
        """Run on one runtime; raise `DifferenceError` if its answer differs."""
        known: dict[Runtime, Callable[[], None]] = {
            "reference": self._run_reference,
            "speculative": self._run_speculative,
            "simulated": self._run_simulated,
            "local": self._run_local,
            "spark": self._run_spark,
        }
        known[runtime]()

    def _run_reference(self) -> None:
        """Run the reference with other interleavings of channels: the answer must not depend on them."""
        for seed in self.seeds:
            arrival = interleave(random.Random(seed), self.items)
            self._compare("reference", seed, fold(self.program, arrival, self.channels))

    def _run_speculative(self) -> None:
        from anabranch.reference.speculative import run as run_speculative

        for seed in self.seeds:
            rng = random.Random(seed)
            most = max(1, len(self.items) // rng.choice((2, 5, 20)))
            sizes = (rng.randint(1, most) for _ in iter(int, 1))
            arrival = interleave(rng, self.items)
            found = run_speculative(self.program, arrival, self.channels, sizes=sizes)
            self._compare("speculative", seed, found.answer)

    def _run_simulated(self) -> None:
        from anabranch.reference.verification import prepare

        forked, plan = plan_layout(self.program, choose_layout(self.program, self.shards))
        trial = prepare(forked, plan, self.items, self.channels)
        for seed in self.seeds:
            _, mismatch = trial.verify(seed)
            if mismatch is not None:
                raise DifferenceError(
                    f"{self.program.name} gives another answer in simulation",
                    where=f"plan {mismatch.plan!r}, seed={seed}",
                    expected="the answer of the reference",
                    got=mismatch.reason,
                    cure="anabranch check finds a law that the program breaks",
                )

    def _run_local(self) -> None:
        for seed in self.seeds:
            rows = self._stream_here(random.Random(seed))
            try:
                compare(self.answer, rows)
            except DifferenceError as error:
                raise DifferenceError(
                    f"{self.program.name} gives another answer on the runtime 'local'",
                    where=f"seed={seed}, {error.where}",
                    expected=error.expected,
                    got=error.got,
                    cure=error.cure,
                ) from None

    def _stream_here(self, rng: random.Random) -> Rows:
        """Run embedded, in random batches, with a restart; on the columnar path or on the row path."""
        from anabranch.local import Evaluation, run

        parts = self._divide(rng)
        if not parts:
            return Rows({}, self.answer.ledger)
        channels = self.channels or [Channel(name) for name in self._list_channels()]
        columnar: Columnar = rng.choice(("auto", "never"))
        outputs: dict[str, str] = {}
        ledgers: list[Ledger] = []

        def take(result: Evaluation, _: int) -> None:
            rows = result.rows.to_pylist()
            outputs.update({row["id"]: row["value"] for row in rows if row["kind"] == "output"})
            ledgers.append(result.ledger)

        with TemporaryDirectory(prefix="anabranch-check-") as home:
            folder = Path(home, "input")
            folder.mkdir()
            stop = rng.randint(1, len(parts))
            for number, part in enumerate(parts):
                write_rows(str(folder / f"{number:06}.jsonl"), map(encode_item, part), "jsonl")
                if number + 1 in (stop, len(parts)):
                    source = Files.of(
                        self.program, folder, format="json", files_per_batch=1, channels=channels
                    )
                    run(
                        self.program, source, checkpoint=Path(home, "checkpoint"), shards=self.shards,
                        for_each_batch=take, available_now=True, sync="system", columnar=columnar,
                        cores=rng.choice((1, 2)),
                    ).wait()  # fmt: skip
        return Rows(outputs, ledgers[-1])

    def _list_channels(self) -> list[str]:
        return list(dict.fromkeys(item.channel for item in self.items))

    def _divide(self, rng: random.Random) -> list[list[Item]]:
        """Return the items in up to three batches, each channel in its own order."""
        arrival = interleave(rng, self.items)
        ends = sorted(rng.randint(0, len(arrival)) for _ in range(2))
        parts = [arrival[a:b] for a, b in zip([0, *ends], [*ends, len(arrival)], strict=True)]
        return [part for part in parts if part]

    def _run_spark(self) -> None:
        parts = self._divide(random.Random(self.seed))
        rows = stream_on_spark(self.program, parts, self.channels, self.shards, self.spark)
        compare(self.answer, rows)

    def _compare(self, runtime: Runtime, seed: int, found: Answer) -> None:
        expected, got = ({o.id: o for o in answer.outputs} for answer in (self.answer, found))
        places = {**expected, **got}
        place = next((n for n in places if not _is_same(expected.get(n), got.get(n))), None)
        if place is None and found.ledger == self.answer.ledger:
            return
        ledgers = str(self.answer.ledger), str(found.ledger)
        outputs = "no output", "no output"
        if place is not None:
            outputs = _describe(expected.get(place)), _describe(got.get(place))
        wanted, other = ledgers if place is None else outputs
        raise DifferenceError(
            f"{self.program.name} gives another answer on the runtime {runtime!r}",
            where=f"seed={seed}, {'the ledger' if place is None else f'output {place}'}",
            expected=wanted,
            got=other,
            cure="anabranch check finds a law that the program breaks",
        )


def interleave(rng: random.Random, items: Sequence[Item]) -> list[Item]:
    """Return items in another order of arrival: each channel keeps its own order."""
    turns = list(items)
    rng.shuffle(turns)
    queues: dict[str, deque[Item]] = {}
    for item in items:
        queues.setdefault(item.channel, deque()).append(item)
    return [queues[item.channel].popleft() for item in turns]


def _number(items: list[Item]) -> list[Item]:
    """Return the items, with numbers for channels without `seq`, in the order of arrival."""
    numbered = {item.channel for item in items if item.seq is not None}
    counts: dict[str, int] = {}
    found: list[Item] = []
    for item in items:
        if item.channel not in numbered:
            counts[item.channel] = counts.get(item.channel, -1) + 1
            item = item._replace(seq=counts[item.channel])  # noqa: PLW2901
        found.append(item)
    return found


def _is_same(a: Output | None, b: Output | None) -> bool:
    return a is not None and b is not None and repr(a.value) == repr(b.value)


def _describe(output: Output | None) -> str:
    return "no output" if output is None else repr(output.value)


def _compare_values(program: Program, expected: list[Any], got: list[Any]) -> None:
    if expected == got:
        return
    pairs = zip(expected, got, strict=False)
    shorter = min(len(expected), len(got))
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), shorter)
    wanted, other = (
        repr(values[place]) if place < len(values) else f"no output {place}"
        for values in (expected, got)
    )
    raise DifferenceError(
        f"{program.name} gives other outputs than expected",
        where=f"output {place} of {len(got)}",
        expected=wanted,
        got=other,
        cure="correct the program, or what the test expects",
    )


def _check_arguments(on: Sequence[Runtime], runs: int, shards: int) -> None:
    if isinstance(on, str) or not {*on} <= {*RUNTIMES}:
        raise InputError(
            "a runtime of a check is unknown",
            expected=f"on=[…], some of {', '.join(map(repr, RUNTIMES))}",
            got=repr(on),
        )
    for name, value in (("runs", runs), ("shards", shards)):
        if type(value) is not int or value < 1:
            raise InputError(
                f"{name} is not a number of {name}", expected="1 or more", got=repr(value)
            )
