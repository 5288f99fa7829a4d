"""Run a program on a few events and print its outputs, here or on Spark.

An example ends with one call of `show`. Without arguments, it folds its events one after the other. With `--local` it
also runs on the embedded runtime, with `--master 'local[2]'` on Spark, and compares the rows with that fold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import AnabranchError, Stopped
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import Item
from anabranch.model.program import Program
from anabranch.reference.event_files import encode_item
from anabranch.reference.rows import write_rows
from anabranch.reference.sequential import Answer, Output, run
from anabranch.sources.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.spark.sinks.results import Result

__all__ = ["show"]

SHARDS = 4
FOUND, USAGE = 1, 2
_EMBEDDED = "the embedded runtime"

Line = Callable[[int, Any], str]
"""A function that returns the line for an output, from the time of its event and its value."""


class DifferenceError(AnabranchError, AssertionError):
    """An answer differs from that of the sequential fold: a defect, or a program that breaks its laws."""


class Rows(NamedTuple):
    """The answer of another runtime: the JSON of each output by its id, and the ledger."""

    outputs: dict[str, str]
    ledger: Ledger


def show(
    program: Program,
    events: Iterable[Item],
    *,
    channels: Sequence[Channel] = (),
    line: Line = "at {}: {}".format,
    arguments: Sequence[str] | None = None,
) -> None:
    """Print a line for each output of a program on a bounded input, and the ledger.

    `arguments` are those of the command line: none, `--local` for the embedded runtime, or `--master MASTER` for
    Spark; and `--shards N`.
    """
    asked = _read_arguments(program, arguments)
    items = end_channels(events, channels=channels)
    answer = run(program, items, channels)
    try:
        if asked.local:
            compare(answer, fold_embedded(program, items, channels, asked.shards), _EMBEDDED)
        if asked.master is not None:
            rows = fold_on_spark(program, items, channels, asked.master, asked.shards)
            compare(answer, rows)
    except DifferenceError as error:
        _leave(str(error), FOUND)
    except AnabranchError as error:
        _leave(str(error), USAGE)
    except Stopped as stopped:
        _leave("stopped", 128 + stopped.number)
    for output in answer.outputs:
        print(line(output.event.time, output.value))  # noqa: T201 - printing is its purpose
    print(answer.ledger)  # noqa: T201
    for name in [_EMBEDDED] * asked.local + ["Spark"] * (asked.master is not None):
        print(f"the same on {name}: {len(answer.outputs)} outputs, row by row")  # noqa: T201


def fold_embedded(
    program: Program, items: Iterable[Item], channels: Sequence[Channel], shards: int = SHARDS
) -> Rows:
    """Run a program on the embedded runtime over items in memory."""
    from anabranch.local.evaluation import evaluate

    items = list(items)
    with _write_items(items) as folder:
        source = _make_source(program, folder, items, channels)
        found = evaluate(program, source, shards=shards)
        rows = found.rows.select(["kind", "id", "value"]).to_pylist()
    outputs = {row["id"]: row["value"] for row in rows if row["kind"] == "output"}
    return Rows(outputs, found.ledger)


@contextmanager
def _write_items(items: Iterable[Item]) -> Iterator[str]:
    """Write items into a folder that is deleted at the end."""
    with TemporaryDirectory(prefix="anabranch-demo-") as folder:
        write_rows(f"{folder}/events.jsonl", map(encode_item, items), "jsonl")
        yield folder


def _make_source(
    program: Program, folder: str, items: Iterable[Item], channels: Sequence[Channel]
) -> Files:
    channels = channels or [Channel(name) for name in dict.fromkeys(item.channel for item in items)]
    return Files.of(program, folder, format="json", channels=channels, ended=True)


def fold_on_spark(
    program: Program,
    items: Iterable[Item],
    channels: Sequence[Channel],
    master: str = "local[2]",
    shards: int = SHARDS,
) -> Rows:
    """Run a program on Spark over items in memory; start a session if there is none."""
    from anabranch.spark.runs import run as run_query
    from anabranch.spark.session.signals import end_on_signals
    from anabranch.spark.session.startup import SHORT_LIVED, start_session
    from anabranch.spark.sinks.progress import explain_failure

    items = list(items)
    with _write_items(items) as folder, end_on_signals():
        settings: dict[str, Any] = {"spark.driver.extraJavaOptions": SHORT_LIVED}
        start_session(name="anabranch-demo", master=master, ui=False, **settings)
        source = _make_source(program, folder, items, channels)
        result = run_query(program, source, shards=shards)
        try:
            rows = result.rows.collect()
        except Exception as error:
            raise explain_failure(str(error)) from error
    return _read_rows(rows)


def stream_on_spark(
    program: Program,
    parts: Sequence[Iterable[Item]],
    channels: Sequence[Channel],
    shards: int = SHARDS,
    spark: SparkSession | None = None,
) -> Rows:
    """Run a program on Spark as a stream whose batches are the parts; start a session if there is none."""
    from anabranch.spark.runs import run as run_query
    from anabranch.spark.session.startup import SHORT_LIVED, start_session
    from anabranch.spark.sinks.directory import for_each_batch
    from anabranch.spark.sinks.progress import explain_failure

    if spark is None:
        settings: dict[str, Any] = {"spark.driver.extraJavaOptions": SHORT_LIVED}
        spark = start_session(name="anabranch-demo", **settings)
    parts = [list(part) for part in parts]
    names = dict.fromkeys(item.channel for part in parts for item in part)
    channels = channels or [Channel(name) for name in names]
    outputs: list[Any] = []
    ledger: list[Any] = []

    def take(batch: Result, _: int) -> None:
        found = batch.rows.collect()
        outputs.extend(row for row in found if row.kind == "output")
        # The ledger of a batch counts all events since the start.
        ledger[:] = [row for row in found if row.kind == "ledger"] or ledger

    with TemporaryDirectory(prefix="anabranch-demo-") as folder:
        for number, part in enumerate(parts):
            write_rows(f"{folder}/{number:06}.jsonl", map(encode_item, part), "jsonl")
        source = Files.of(program, folder, format="json", files_per_batch=1, channels=channels)
        result = run_query(program, source, spark=spark, shards=shards)
        query = for_each_batch(result, take, available_now=True)
        try:
            query.awaitTermination()
        except Exception as error:
            raise explain_failure(str(error)) from error
    return _read_rows([*outputs, *ledger])


def _read_rows(rows: Sequence[Any]) -> Rows:
    counts = [json.loads(row.value) for row in rows if row.kind == "ledger"]
    return Rows(
        {row.id: row.value for row in rows if row.kind == "output"},
        Ledger(*(sum(count[name] for count in counts) for name in Ledger._fields)),
    )


def compare(answer: Answer, rows: Rows, name: str = "Spark") -> None:
    """Raise `DifferenceError` if the rows differ from the answer in an output or in the ledger."""
    from anabranch.microbatch.exchange.result_rows import encode_json

    expected = {_identify(output): encode_json(output.value) for output in answer.outputs}
    if rows == (expected, answer.ledger):
        return
    ids = sorted(expected.keys() | rows.outputs.keys())
    place = next((name for name in ids if expected.get(name) != rows.outputs.get(name)), None)
    raise DifferenceError(
        f"the answer of {name} differs from that of the sequential fold",
        where="the ledger" if place is None else f"output {place}",
        expected=str(answer.ledger) if place is None else expected.get(place, "no output"),
        got=str(rows.ledger) if place is None else rows.outputs.get(place, "no output"),
        cure="anabranch check finds a law that the program breaks",
    )


def _identify(output: Output) -> str:
    from anabranch.microbatch.exchange.result_rows import identify

    return f"{identify(output.key)}#{output.index}"


def _read_arguments(program: Program, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__ or program.name)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--local", action="store_true", help="run on the embedded runtime too, and compare"
    )
    parser.add_argument(
        "--master", help="run on this Spark master too, such as local[2], and compare"
    )
    parser.add_argument(
        "--shards", type=int, default=SHARDS, help=f"number of shards (default {SHARDS})"
    )
    return parser.parse_args(arguments)


def _leave(text: str, code: int) -> None:
    sys.stderr.write(f"{text}\n")
    sys.exit(code)
