"""Preview sinks: they have no checkpoint, and read the input from its beginning at each start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from anabranch.spark.sinks.directory import choose_trigger, for_each_batch, start_writer
from anabranch.spark.sinks.results import Result

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

MOST_OUTPUTS = 20
"""The number of outputs of a batch that are printed."""


def write_memory(
    result: Result,
    name: str,
    *,
    available_now: bool = False,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a query that keeps all outputs in the driver's memory, as the table `name`.

    `spark.table(name)` reads the table, also while the query runs. The query has no checkpoint, because Spark
    can't continue a table in memory: each start reads the input from its beginning.
    """
    writer = start_writer(result.outputs, choose_trigger(trigger, available_now=available_now))
    return writer.format("memory").queryName(name).start()


def write_console(
    result: Result,
    *,
    show: Callable[[str], Any] = print,
    most: int = MOST_OUTPUTS,
    name: str | None = None,
    available_now: bool = False,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a query that prints the outputs of each batch, and the counts of late and rejected events.

    `show` is called with the text of each batch (default: `print`), which has at most `most` outputs. `name`
    is the name of the query in Spark's monitoring (default: the program's name).
    """

    def show_batch(batch: Result, number: int) -> None:
        counts = {row.kind: row["count"] for row in batch.rows.groupBy("kind").count().collect()}
        outputs = batch.rows.where("kind = 'output'").orderBy("time", "id").limit(most).collect()
        rows = [(row.time, row.type, row.channel, json.loads(row.value)) for row in outputs]
        show(describe_outputs(number, rows, counts))

    return for_each_batch(
        result, show_batch, name=name, available_now=available_now, trigger=trigger
    )


def describe_outputs(
    batch: int, rows: Iterable[tuple[int, str, str, Any]], counts: dict[str, int]
) -> str:
    """Return the outputs of a batch as a text table.

    >>> print(describe_outputs(3, [(5, "Read", "reads", [7, 3])], {"output": 2, "late": 1}))
    batch 3  2 outputs, 1 late, 0 rejected
      time  type  channel  output
         5  Read  reads    [7, 3]
      … and 1 more
    """
    outputs = counts.get("output", 0)
    rest = f"{counts.get('late', 0):,} late, {counts.get('rejected', 0):,} rejected"
    lines = [f"batch {batch}  {outputs:,} output{'' if outputs == 1 else 's'}, {rest}"]
    table = [("time", "type", "channel", "output"), *(tuple(map(str, row)) for row in rows)]
    if len(table) > 1:
        first, second, third = (max(len(row[place]) for row in table) for place in range(3))
        lines += [f"  {a:>{first}}  {b:<{second}}  {c:<{third}}  {d}" for a, b, c, d in table]
    if outputs >= len(table):
        lines.append(f"  … and {outputs - len(table) + 1:,} more")
    return "\n".join(lines)
