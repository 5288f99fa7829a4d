"""Flink: `sql`, which runs in the JVM alone, and `python`, functions of PyFlink's DataStream API.

Parallelism 2, a checkpoint every 5 s, state on the heap. Each channel has its own watermark, so Flink
orders by event time itself. A result that changes (W1, W3 and W6 in SQL) goes to a sink that drops it
while the clock runs; a second run, without a clock, writes it to files to be checked.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task, tell
from pyflink.common import Configuration, Time, Types
from pyflink.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows
from pyflink.table import StreamTableEnvironment

ALPHA = 0.1
COLUMNS = {
    "readings": "`time` BIGINT, `key` BIGINT, `value` DOUBLE",
    "values": "`time` BIGINT, `value` BIGINT",
    "barriers": "`time` BIGINT",
    "views": "`time` BIGINT, page BIGINT",
    "updates": "`time` BIGINT, page BIGINT, version BIGINT",
    "bids": "`time` BIGINT, auction BIGINT, price BIGINT",
}
EVENT_TIME = ", rt AS TO_TIMESTAMP_LTZ(`time`, 3), WATERMARK FOR rt AS rt"
FOLD = "SELECT `key`, MAX(`value`) AS top, COUNT(*) AS seen FROM readings GROUP BY `key`"
BARRIER = """
SELECT `time`, so_far - LAG(so_far, 1, CAST(0 AS BIGINT)) OVER (PARTITION BY k ORDER BY rt) AS total
FROM (
  SELECT k, `time`, rt, mark, SUM(`value`) OVER (
    PARTITION BY k ORDER BY rt ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far
  FROM (
    SELECT 0 AS k, `time`, rt, 0 AS mark, `value` FROM `values`
    UNION ALL SELECT 0 AS k, `time`, rt, 1 AS mark, CAST(0 AS BIGINT) AS `value` FROM `barriers`
  )
) WHERE mark = 1"""
PAGES = """
SELECT v.page, u.version, COUNT(*) AS seen
FROM `views` AS v JOIN `updates` FOR SYSTEM_TIME AS OF v.rt AS u ON v.page = u.page
GROUP BY v.page, u.version"""
WINDOWS = """
SELECT auction,
  CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_end) AS BIGINT) * 1000 AS `end`,
  total, seen
FROM (
  SELECT auction, window_end, SUM(price) AS total, COUNT(*) AS seen
  FROM TABLE(HOP(TABLE bids, DESCRIPTOR(rt), INTERVAL '{every}' SECOND(3), INTERVAL '{size}' SECOND(3)))
  GROUP BY auction, window_start, window_end
)"""
QUERIES = {
    "fold": (FOLD, "`key` BIGINT, top DOUBLE, seen BIGINT"),
    "barrier": (BARRIER, "`time` BIGINT, total BIGINT"),
    "pages": (PAGES, "page BIGINT, version BIGINT, seen BIGINT"),
    "windows": (WINDOWS, "auction BIGINT, `end` BIGINT, total BIGINT, seen BIGINT"),
}


def open_environment(task: Task) -> tuple[Any, Any]:
    """Return Flink's two environments, of streams and of tables, with every channel as a table."""
    settings = Configuration()
    checkpoints = (task.scratch / "checkpoints").as_uri()
    for name, value in {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "5s",
        "execution.checkpointing.dir": checkpoints,
        "taskmanager.memory.managed.size": "512m",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "table.local-time-zone": "UTC",
    }.items():
        settings.set_string(name, value)
    streams = StreamExecutionEnvironment.get_execution_environment(settings)
    tables = StreamTableEnvironment.create(streams)
    timed = task.kind != "fold"
    groups: dict[str, list[str]] = {}
    for channel in task.channels:
        name = channel.partition("-")[0]
        table = channel.replace("-", "_")
        key = ", PRIMARY KEY (page) NOT ENFORCED" if name == "updates" else ""
        place = (task.folder / "csv" / channel).as_uri()
        tables.execute_sql(
            f"CREATE TABLE `s_{table}` ({COLUMNS[name]}{EVENT_TIME if timed else ''}{key}) WITH "
            f"('connector'='filesystem', 'path'='{place}', 'format'='csv')"
        )
        groups.setdefault(name, []).append(f"SELECT * FROM `s_{table}`")  # noqa: S608 - our names
    for name, parts in groups.items():
        tables.execute_sql(f"CREATE TEMPORARY VIEW `{name}` AS " + " UNION ALL ".join(parts))
    return streams, tables


def run_sql(task: Task) -> None:
    """Run a query of Flink SQL."""
    query, columns = QUERIES[task.kind]
    if task.kind == "windows":
        query = query.format(**{name: task.manifest[name] // 1_000 for name in ("size", "every")})
    streams, tables = open_environment(task)
    ready = time.time()
    changes = task.kind in ("fold", "pages")
    folder = task.scratch / "emitted"
    connector = (
        "'connector'='blackhole'"
        if changes
        else f"'connector'='filesystem', 'path'='{folder.as_uri()}', 'format'='csv'"
    )
    tables.execute_sql(f"CREATE TABLE emitted ({columns}) WITH ({connector})")
    started = time.time()
    tables.execute_sql(f"INSERT INTO emitted {query}").wait()
    tell(task, total_s=time.time() - started, ready=ready)
    if changes:
        write_changes(streams, tables, query, folder)
    keep_rows(task, folder, changes=changes)


def write_changes(streams: Any, tables: Any, query: str, folder: Path) -> None:
    """Write every change of a result as a line, without Python in between."""
    from pyflink.common.serialization import Encoder
    from pyflink.datastream.connectors.file_system import FileSink

    stream = tables.to_changelog_stream(tables.sql_query(query))
    sink = FileSink.for_row_format(folder.as_uri(), Encoder.simple_string_encoder()).build()
    stream.sink_to(sink)
    streams.execute("check")


def keep_rows(task: Task, folder: Path, *, changes: bool) -> None:
    """Read what was written, and write the answer: the last row of each key."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    if task.kind == "windows":
        parts = [np.loadtxt(file, np.int64, delimiter=",", ndmin=2) for file in files]
        keep_windows(task, np.concatenate(parts))
        return
    last: dict[Any, tuple[Any, ...]] = {}
    names = 2 if task.kind == "pages" else 1
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                text = line.strip()
                if changes:
                    # +I[1, 0.5, 3] and +U[...] say a row; -U[...] takes the one before back.
                    if not text.startswith("+"):
                        continue
                    text = text[3:-1]
                row = tuple(float(part) for part in text.split(","))
                old = last.get(row[:names])
                # The files of a key are in order, and what is counted only grows.
                if old is None or row[-1] >= old[-1]:
                    last[row[:names]] = row
    columns = list(zip(*last.values(), strict=True))
    if task.kind == "fold":
        keep_sampled(task, key=columns[0], top=columns[1], seen=columns[2])
    elif task.kind == "barrier":
        keep_answer(task, time=columns[0], total=columns[1])
    else:
        keep_pages(task, *columns)


class Noting:
    """Note when the first element has come to Python."""

    def __init__(self, note: str) -> None:
        self.note = note
        self.is_first = True

    def arrive(self) -> None:
        """Note the time, once."""
        if self.is_first:
            self.is_first = False
            path = Path(self.note)
            if not path.exists():
                path.write_text(repr(time.time()), encoding="utf-8")


class Fold(Noting, KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        kind = Types.TUPLE([Types.DOUBLE(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("state", kind))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Keep the largest value and the count."""
        self.arrive()
        top, seen = self.state.value() or (value[1], 0)
        state = (max(top, value[1]), seen + 1)
        self.state.update(state)
        yield value[0], *state


class Smooth(Noting, KeyedProcessFunction):
    """Sort by event time: an element waits for its timer."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        waiting = MapStateDescriptor("waiting", Types.LONG(), Types.DOUBLE())
        self.waiting = runtime_context.get_map_state(waiting)
        self.average = runtime_context.get_state(ValueStateDescriptor("average", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Wait for the watermark."""
        self.arrive()
        self.waiting.put(ctx.timestamp(), value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Take the element of this time."""
        value, last = self.waiting.get(timestamp), self.average.value()
        self.waiting.remove(timestamp)
        average = value if last is None else ALPHA * value + (1 - ALPHA) * last
        self.average.update(average)
        yield ctx.get_current_key(), average


class Segments(Noting, KeyedProcessFunction):
    """Sum what lies between two markers: values are buffered, markers set timers."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", kind))
        self.version = runtime_context.get_state(ValueStateDescriptor("version", Types.LONG()))
        marks = MapStateDescriptor("marks", Types.LONG(), Types.LONG())
        self.marks = runtime_context.get_map_state(marks)

    def process_element(self, value: Any, ctx: Any) -> None:
        """Buffer a value; let a marker wait for the watermark."""
        self.arrive()
        _, amount, mark = value[0], value[1], value[2]
        if not mark:
            self.values.add((ctx.timestamp(), amount))
            return
        self.marks.put(ctx.timestamp(), amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Close the segment before a marker."""
        total, later = 0, []
        for when, amount in self.values.get():
            if when < timestamp:
                total += amount
            else:
                later.append((when, amount))
        self.values.update(later)
        version = self.version.value()
        self.version.update(self.marks.get(timestamp))
        self.marks.remove(timestamp)
        yield ctx.get_current_key(), timestamp, -1 if version is None else version, total


class Held(Noting, AggregateFunction):
    """The sum and the count of a window."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        self.arrive()
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class Ending(ProcessWindowFunction):
    """Say which window it was."""

    def process(self, key: int, context: Any, elements: Any) -> Iterator[tuple[Any, ...]]:
        for held in elements:
            yield key, context.window().end, *held


ROWS = {
    "fold": "SELECT `key`, `value` FROM readings",
    "ewma": "SELECT `key`, `value`, rt FROM readings",
    "barrier": "SELECT CAST(0 AS BIGINT) AS `key`, `value`, 0 AS mark, rt FROM `values` UNION ALL "
    "SELECT CAST(0 AS BIGINT) AS `key`, CAST(-1 AS BIGINT) AS `value`, 1 AS mark, rt FROM `barriers`",
    "pages": "SELECT page AS `key`, CAST(1 AS BIGINT) AS `value`, 0 AS mark, rt FROM `views` UNION ALL "
    "SELECT page AS `key`, version AS `value`, 1 AS mark, rt FROM `updates`",
    "windows": "SELECT auction AS `key`, price AS `value`, rt FROM bids",
}


def build(task: Task, keyed: Any, note: str) -> Any:
    """Return the stream of outputs."""
    four = Types.TUPLE([Types.LONG()] * 4)
    if task.kind == "windows":
        size, every = (Time.milliseconds(task.manifest[name]) for name in ("size", "every"))
        return keyed.window(SlidingEventTimeWindows.of(size, every)).aggregate(
            Held(note), Ending(), Types.TUPLE([Types.LONG()] * 2), four
        )
    function, kind = {
        "fold": (Fold, Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.LONG()])),
        "ewma": (Smooth, Types.TUPLE([Types.LONG(), Types.DOUBLE()])),
        "barrier": (Segments, four),
        "pages": (Segments, four),
    }[task.kind]
    return keyed.process(function(note), kind)


def run_python(task: Task) -> None:
    """Run functions of the DataStream API; what they say is collected."""
    _, tables = open_environment(task)
    ready = time.time()
    note = task.scratch / "first.txt"
    rows = tables.to_data_stream(tables.sql_query(ROWS[task.kind]))
    result = build(task, rows.key_by(lambda row: row[0], Types.LONG()), str(note))
    started = time.time()
    first = None
    emitted = []
    with result.execute_and_collect() as collected:
        for row in collected:
            first = first or time.time()
            emitted.append(tuple(row))
    ended = time.time()
    arrived = float(note.read_text(encoding="utf-8"))
    tell(
        task,
        total_s=ended - started,
        steady_s=ended - arrived,
        steady_events=task.events,
        ready=ready,
        first=first,
    )
    keep_emitted(task, emitted)


def keep_windows(task: Task, rows: Any) -> None:
    """Write the results of all windows, a row for each."""
    names = ("auction", "end", "total", "seen")
    keep_answer(task, **{name: rows[:, place] for place, name in enumerate(names)})


def keep_emitted(task: Task, emitted: list[tuple[Any, ...]]) -> None:
    """Write the answer."""
    if task.kind == "barrier":
        keep_answer(task, time=[row[1] for row in emitted], total=[row[3] for row in emitted])
    elif task.kind == "pages":
        keep_pages(task, *([row[place] for row in emitted] for place in (0, 2, 3)))
    elif task.kind == "windows":
        keep_windows(task, np.array(emitted, np.int64))
    else:
        columns = list(zip(*{row[0]: row for row in emitted}.values(), strict=True))
        names = ("key", "top", "seen") if task.kind == "fold" else ("key", "average")
        keep_sampled(task, **dict(zip(names, columns, strict=True)))


if __name__ == "__main__":
    the_task = read_task()
    (run_sql if the_task.how == "sql" else run_python)(the_task)
