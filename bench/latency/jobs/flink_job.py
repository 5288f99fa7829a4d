"""Flink from sockets: `sql`, and `python` functions; each as it comes, or tuned for latency.

The clock is read inside the job, before the sink: in the last projection, or in the timer.
"""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from answers import Task, keep, read_task
from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor
from pyflink.table import Schema, StreamTableEnvironment

SETTINGS = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": "5s",
    "taskmanager.memory.managed.size": "512m",
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
    "table.local-time-zone": "UTC",
}
TUNED = {
    "pipeline.auto-watermark-interval": "10 ms",
    "execution.buffer-timeout.interval": "5 ms",
    "python.fn-execution.bundle.time": "10",
}
ROWS = """
SELECT 0 AS k, t, rt, 0 AS mark, v FROM s0 UNION ALL
SELECT 0 AS k, t, rt, 0 AS mark, v FROM s1 UNION ALL
SELECT 0 AS k, t, rt, 1 AS mark, v FROM s2"""
SUMS = f"""
SELECT t, so_far - LAG(so_far, 1, CAST(0 AS BIGINT)) OVER (PARTITION BY k ORDER BY rt) AS total,
  CAST(CURRENT_ROW_TIMESTAMP() AS STRING) AS moment
FROM (
  SELECT k, t, rt, mark, SUM(v) OVER (
    PARTITION BY k ORDER BY rt ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far
  FROM ({ROWS})
) WHERE mark = 1"""  # noqa: S608 - our own text


def open_tables(task: Task) -> Any:
    """Return the environment of tables, with a view for each socket."""
    settings = Configuration()
    extra = TUNED if task.how.endswith("tuned") else {}
    checkpoints = {"execution.checkpointing.dir": (task.scratch / "checkpoints").as_uri()}
    for name, value in (SETTINGS | extra | checkpoints).items():
        settings.set_string(name, value)
    streams = StreamExecutionEnvironment.get_execution_environment(settings)
    tables = StreamTableEnvironment.create(streams)
    for number, port in enumerate(task.ports):
        java = streams._j_stream_execution_environment
        lines = DataStream(java.socketTextStream("127.0.0.1", port, "\n", 0))
        field = "CAST(SPLIT_INDEX(f0, ',', {}) AS BIGINT)"
        schema = (
            Schema.new_builder()
            .column("f0", "STRING")
            .column_by_expression("t", field.format(0))
            .column_by_expression("v", field.format(2))
            .column_by_expression("rt", f"TO_TIMESTAMP_LTZ({field.format(0)}, 3)")
            .watermark("rt", "rt")
            .build()
        )
        tables.create_temporary_view(f"s{number}", lines, schema)
    return tables


def run_sql(task: Task) -> Iterator[tuple[int, int, float]]:
    """Yield what the query wrote."""
    tables = open_tables(task)
    folder = task.scratch / "emitted"
    tables.execute_sql(
        "CREATE TABLE emitted (t BIGINT, total BIGINT, moment STRING) WITH ("
        f"'connector'='filesystem', 'path'='{folder.as_uri()}', 'format'='csv')"
    )
    tables.execute_sql(f"INSERT INTO emitted {SUMS}").wait()
    for file in folder.rglob("*"):
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            when, total, moment = line.replace('"', "").split(",")
            stamp = datetime.fromisoformat(moment.rstrip("Z")).replace(tzinfo=UTC).timestamp()
            yield int(when), int(total), stamp


class Segments(KeyedProcessFunction):
    """Values are buffered, barriers set timers."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", kind))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Buffer a value; let a barrier wait for the watermark."""
        if value[1]:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())
        else:
            self.values.add((ctx.timestamp(), value[2]))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Close the segment before a barrier."""
        total, later = 0, []
        for when, amount in self.values.get():
            if when < timestamp:
                total += amount
            else:
                later.append((when, amount))
        self.values.update(later)
        yield timestamp, total, time.time()


def run_python(task: Task) -> Iterator[tuple[int, int, float]]:
    """Yield the outputs of the functions."""
    tables = open_tables(task)
    rows = tables.to_data_stream(tables.sql_query(f"SELECT k, mark, v, rt FROM ({ROWS})"))  # noqa: S608 - our own text
    kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.DOUBLE()])
    result = rows.key_by(lambda row: row[0], Types.INT()).process(Segments(), kind)
    with result.execute_and_collect() as collected:
        for row in collected:
            yield row[0], row[1], row[2]


if __name__ == "__main__":
    the_task = read_task()
    keep(the_task, (run_sql if the_task.how.startswith("sql") else run_python)(the_task))
