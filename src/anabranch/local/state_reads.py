"""The state of an embedded run as Arrow tables, at its last committed batch, while it runs or after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import InputError
from anabranch.local.log_views import LogView, open_view
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.microbatch.inspect.state_exports import KEEP, publish_state
from anabranch.microbatch.inspect.state_tables import (
    describe_state,
    describe_store,
    make_schema,
    tabulate_store,
    unify_kinds,
)
from anabranch.microbatch.inspect.stored_state import Overview, read_overview, read_pending
from anabranch.paths import resolve_path
from anabranch.state.durable.kinds import UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa


class StateRead(NamedTuple):
    """The tables of a checkpoint: its state, channels, ledger and pending events, at one batch."""

    batch: int
    watermark: int
    tables: dict[str, pa.Table]


def read_state(checkpoint: str | Path) -> pa.Table:
    """Return the rows of the state of an embedded run, at its last committed batch; the run may be active."""
    with open_view(resolve_path(checkpoint, "checkpoint")) as view:
        return _read_rows(read_overview(view.stores), view)


def read_tables(checkpoint: str | Path) -> StateRead:
    """Return all tables of a checkpoint: state, channels, ledger and pending."""
    with open_view(resolve_path(checkpoint, "checkpoint")) as view:
        overview = read_overview(view.stores)
        tables = {
            "state": _read_rows(overview, view),
            "channels": _list_channels(overview),
            "ledger": _list_ledger(overview),
            "pending": _list_pending(overview, view),
        }
        return StateRead(view.commit.batch, _find_watermark(overview), tables)


def export_state(checkpoint: str | Path, output: str | Path, *, keep: int = KEEP) -> int:
    """Write the state of the last committed batch as Parquet, into `output/batch=N`; return the number.

    `output/latest` is a link to the newest one; `keep` of them are kept.
    """
    import pyarrow.parquet as pq

    with open_view(resolve_path(checkpoint, "checkpoint")) as view:
        overview = read_overview(view.stores)

        def write(draft: Path) -> int:
            pq.write_table(_read_rows(overview, view), draft / "part-00000.parquet")
            return _find_watermark(overview)

        publish_state(resolve_path(output, "output"), view.commit.batch, write, keep=keep)
        return view.commit.batch


def query_state(read: StateRead, sql: str, limit: int) -> tuple[list[str], list[list[Any]]]:
    """Return the columns of a result and its rows: at most one more than the limit. DuckDB runs the query."""
    if sql.strip().lower() == "select * from state":
        rows = read.tables["state"].slice(0, limit + 1)
        return rows.column_names, [list(row.values()) for row in rows.to_pylist()]
    try:
        import duckdb
    except ImportError:
        raise InputError(
            "SQL on the checkpoint of an embedded run needs DuckDB, which is not installed",
            expected="the package duckdb, or the whole state: select * from state",
            got=sql,
            cure="pip install duckdb; or `anabranch state export CHECKPOINT FOLDER`, and query the Parquet files",
        ) from None
    connection: Any = duckdb.connect(config={"enable_external_access": "false"})
    try:
        for name, table in read.tables.items():
            connection.register(name, table)
        found = connection.execute(sql)
        columns = [column[0] for column in found.description]
        return columns, [list(row) for row in found.fetchmany(limit + 1)]
    except duckdb.Error as error:
        tables = [f"{name}({', '.join(t.column_names)})" for name, t in read.tables.items()]
        raise InputError(
            "this query can't be answered",
            expected="; ".join(tables),
            got=str(error).splitlines()[0],
        ) from None
    finally:
        connection.close()


def _read_rows(overview: Overview, view: LogView) -> pa.Table:
    import pyarrow as pa

    description = overview.description
    kinds = describe_state(description) or unify_kinds(
        describe_store(description, address, store) for address, store in view.stores.items()
    )
    if kinds.entry == UNKNOWN:  # Without values, the types that the program declares.
        kinds = description.emitted.state
    tables = (tabulate_store(kinds, description, a, store) for a, store in view.stores.items())
    rows = [table for table in tables if len(table)]
    return pa.concat_tables(rows) if rows else make_schema(kinds).empty_table()


def _find_watermark(overview: Overview) -> int:
    return min(standing.watermark for standing in overview.standings.values())


def _list_channels(overview: Overview) -> pa.Table:
    import pyarrow as pa

    names = ("watermark", "largest", "last", "silence_ms", "waived", "joined")
    schema = pa.schema([("name", pa.string()), *((name, pa.int64()) for name in names)])
    rows = [
        {"name": channel} | {name: getattr(standing, name) for name in names}
        for channel, standing in sorted(overview.standings.items())
    ]
    return pa.Table.from_pylist(rows, schema)


def _list_ledger(overview: Overview) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([overview.ledger._asdict()])


def _list_pending(overview: Overview, view: LogView) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema(
        [("time", pa.int64()), ("type", pa.string()), ("channel", pa.string()), ("seq", pa.int64()),
         ("event", pa.string())]
    )  # fmt: skip
    rows = [
        {
            "time": event.time, "type": type(event.data).__name__, "channel": event.channel,
            "seq": event.seq, "event": encode_json(event.data),
        }
        for address, store in view.stores.items()
        if address.role == "shard"
        for event in read_pending(overview.description, address.number, store)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema)
