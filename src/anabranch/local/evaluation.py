"""Evaluation: a program on tables in memory, with its result as tables; no folder, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger
from anabranch.html_tables import MOST_ROWS, list_rows, show_line, show_rows
from anabranch.local.batch_fold import BatchFold, FileTask, Read, choose_cores, choose_shards
from anabranch.microbatch.exchange.event_columns import convert_events
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.file_rows import number_rows, take_in_blocks
from anabranch.microbatch.ingest.source_readings import make_reading
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.operators.group_operators import Message
from anabranch.microbatch.runs.file_batches import FileBatches
from anabranch.microbatch.runs.job_assembly import assemble_job, check_program, warn_of_row_path
from anabranch.microbatch.runs.published_batches import read_counts, sum_up
from anabranch.microbatch.runs.run_options import RunKeywords, RunOptions, read_options
from anabranch.model.events import EventType, field_names
from anabranch.model.program import Program
from anabranch.model.values.event_times import time_field
from anabranch.model.values.fields import field_defaults
from anabranch.sources.files import Files
from anabranch.sources.memory_tables import InMemory, to_arrow
from anabranch.sources.source_options import Source, list_sources

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Mapping[Any, Any] | Source | Iterable[Source]


@dataclass(frozen=True)
class Evaluation:
    """The result of a program on tables: `outputs`, `late`, `rejected` and `ledger`.

    Tables are of the kind of the input: Arrow, pandas or Polars. `docs/result-columns.md` lists their columns.
    """

    rows: pa.Table = field(repr=False)
    columns: OutputColumns
    convert: Callable[[pa.Table], Any] = field(repr=False, default=lambda table: table)

    @cached_property
    def outputs(self) -> Any:
        """Return the outputs in the total order of their events: id, time, op, and their fields."""
        return self.convert(self._take("output", self.columns.convert))

    @cached_property
    def late(self) -> Any:
        """Return the events that arrived too late, with their `distance` behind their channel's watermark."""
        return self.convert(self._take("late", self._convert("late")))

    @cached_property
    def rejected(self) -> Any:
        """Return the events that could not be used, with the `reason` and the `raw` input."""
        return self.convert(self._take("rejected", self._convert("rejected")))

    @cached_property
    def ledger(self) -> Ledger:
        """Return the counts of all events."""
        return sum_up(read_counts(self.rows))

    def _convert(self, kind: str) -> Callable[[pa.Table], pa.Table]:
        return partial(convert_events, kind, timestamped=self.columns.timestamped)

    def _take(self, kind: str, convert: Callable[[pa.Table], pa.Table]) -> pa.Table:
        import pyarrow.compute as pc

        return convert(self.rows.filter(pc.equal(self.rows.column("kind"), kind)))

    def _repr_html_(self) -> str:
        parts = [show_line("ledger", self.ledger)]
        for name in ("outputs", "late", "rejected"):
            table = getattr(self, name)
            rows = list_rows(table, MOST_ROWS)
            if rows or name == "outputs":
                parts.append(show_line(name, f"{len(table):,} rows") + show_rows(rows))
        return "".join(parts)


def evaluate(
    program: Program, tables: Tables, *, cores: int | None = None, **options: Unpack[RunKeywords]
) -> Evaluation:
    """Run a program on tables in memory, and return its outputs as a table.

    `tables` maps a channel's name, or an event type, to a table of Arrow, pandas or Polars, whose rows are in the
    order of arrival: `evaluate(program, {"bids": table})`. For lateness or other options of a source, pass
    sources: `evaluate(program, [InMemory(table, event=Bid, lateness="5 s")])`. The tables are the whole input, so that
    all events settle. `cores` is the number of threads (default: all cores); the other options are those of `run`.
    """
    check_program(program)
    sources = list_sources(list_tables(program, tables))
    chosen = read_options(options)
    number = choose_cores(cores)
    job = assemble_job(program, sources, chosen, choose_shards(number))
    if not job.ended:
        raise InputError(
            "evaluate needs the whole input",
            expected="tables, or Files(…, ended=True)",
            got="a folder that may get more files",
            cure="anabranch.run(program, sources, output=…) runs a program on a stream",
        )
    warn_of_row_path(job)
    tasks = list(list_tasks(job, sources, chosen, number))
    with ThreadPoolExecutor(number) if number > 1 else nullcontext() as pool:
        rows = BatchFold(job, pool=pool).run(tasks)
    return Evaluation(
        order_rows(rows),
        OutputColumns(program.output_types, timestamped=program.timestamped),
        _find_kind(tables),
    )


def list_tables(program: Program, tables: Tables) -> list[Source]:
    """Return the sources of tables by channel or event type."""
    if not isinstance(tables, Mapping):
        return list_sources(tables)
    found: list[Source] = []
    for key, value in tables.items():
        if isinstance(value, Source):
            found.append(value)
            continue
        if isinstance(key, type):
            found.append(InMemory(value, event=key))
            continue
        table = to_arrow(value)
        found.append(InMemory(table, channel=str(key), event=_find_event_type(program, key, table)))
    return found


def _find_event_type(program: Program, name: str, table: pa.Table) -> EventType:
    """Return the one event type that has the name of a table, or exactly its columns, or whose fields it has."""
    if len(program.inputs) == 1:
        return program.inputs[0]
    columns = {*table.column_names}
    named = [t for t in program.inputs if t.__name__ == name]
    exact = [t for t in program.inputs if {*field_names(t)} == columns]
    fitting = [t for t in program.inputs if _list_needed(t) <= columns]
    for found in (named, exact, fitting):
        if len(found) == 1:
            return found[0]
    known = ", ".join(t.__name__ for t in program.inputs)
    raise InputError(
        f"the event type of the table {name!r} is not clear",
        where=f"program {program.name}",
        expected=f"columns of exactly one of {known}",
        got=f"columns {', '.join(table.column_names)}",
        cure=f"name it: {{{program.inputs[0].__name__}: table}}, or InMemory(table, event=…)",
    )


def _list_needed(event_type: EventType) -> set[str]:
    defaults = field_defaults(event_type)
    return {n for n in field_names(event_type) if n not in defaults or n == time_field(event_type)}


def list_tasks(job: Job, sources: Iterable[Source], options: RunOptions, cores: int) -> list[Read]:
    """Return the tasks that read all rows of bounded sources."""
    batches = FileBatches(job, cores)
    start = batches.begin()
    parts = batches.divide(start, batches.advance(start, whole=True))
    tasks = list_tables_tasks(job, sources, options)
    return [*tasks, *(FileTask(job, part) for part in parts)]


def list_tables_tasks(job: Job, sources: Iterable[Source], options: RunOptions) -> list[Read]:
    """Return the tasks that read the tables in memory; raise `InputError` on a source that needs Spark."""
    tasks: list[Read] = []
    for source in sources:
        if isinstance(source, InMemory):
            tasks.append(partial(_read_table, job, source, options.max_record_bytes))
        elif not isinstance(source, Files):
            raise InputError(
                f"{type(source).__name__} can't be read without Spark",
                expected="Files(…) or InMemory(…)",
                got=type(source).__name__,
                cure="anabranch.spark.run(program, …)",
            )
    return tasks


def _read_table(job: Job, source: InMemory, max_bytes: int) -> Iterable[Message]:
    reading = number_rows(make_reading(source, job.program, max_bytes))
    batches = source.number_rows().combine_chunks().to_batches()
    take = take_in_blocks if job.columns is None else take_in_columns
    return take(job, reading, batches)


def order_rows(tables: list[pa.Table]) -> pa.Table:
    """Return result rows as one table; the outputs are in the total order of their events."""
    import pyarrow as pa

    from anabranch.microbatch.exchange.packed_rows import make_table
    from anabranch.microbatch.speculative.row_barrier import read_id

    table = pa.concat_tables(tables) if tables else make_table([])
    ids, kinds = table.column("id").to_pylist(), table.column("kind").to_pylist()
    outputs = [place for place, kind in enumerate(kinds) if kind == "output"]
    outputs.sort(key=lambda place: read_id(ids[place]))
    others = [place for place, kind in enumerate(kinds) if kind != "output"]
    return table.take(pa.array([*outputs, *others], pa.int64()))


def _find_kind(tables: Any) -> Callable[[pa.Table], Any]:
    """Return the conversion of Arrow tables to the kind of the first input."""
    values = list(tables.values()) if isinstance(tables, Mapping) else []
    kind = type(values[0]).__module__.partition(".")[0] if values else ""
    if kind == "pandas":
        return lambda table: table.to_pandas()
    if kind == "polars":
        import polars as pl

        return lambda table: pl.from_arrow(table)  # noqa: PLW0108 - its own function has more arguments
    return lambda table: table
