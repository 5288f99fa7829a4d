"""`anabranch state query`, `history`, `export` and `serve`: read the state of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from anabranch.cli.flags import Json
from anabranch.cli.terminal.screen import GOOD, Screen, count_things
from anabranch.errors import InputError
from anabranch.eventtime.held_back import name_time
from anabranch.local.checkpoints import is_checkpoint
from anabranch.model.shapes import MISSING
from anabranch.model.values.fields import encode_value
from anabranch.spark.inspect.http_access import TOKEN_VARIABLE, grant

Checkpoint = Annotated[str, Parameter(help="Checkpoint of a run, which may be active.")]
Master = Annotated[str, Parameter(help="Spark master (default local[2], which needs no cluster).")]
LIMIT = 100


def query(
    checkpoint: Checkpoint,
    sql: Annotated[
        str,
        Parameter(
            help="Query in SQL (of Spark; for an embedded run, of DuckDB) on the tables state, channels, "
            "ledger and pending (default select * from state)."
        ),
    ] = "select * from state",
    /,
    *,
    batch: Annotated[
        int | None, Parameter(help="Committed batch to read (default: the last one).")
    ] = None,
    limit: Annotated[int, Parameter(help="Maximum number of rows to print (default 100).")] = LIMIT,
    master: Master = "local[2]",
    json: Json = False,
) -> int:
    """Query the state of a checkpoint with SQL, at one committed batch, also during its run."""
    screen = Screen(quiet=json)
    if is_checkpoint(Path(checkpoint)):
        number, watermark, columns, rows = _query_embedded(checkpoint, sql, batch, limit)
    else:
        from anabranch.spark.inspect.sql_queries import ask
        from anabranch.spark.inspect.state_frames import StateView

        _check_checkpoint(checkpoint)
        with screen.wait("reading the state"):
            view = StateView.open(checkpoint, batch, _start(master))
            columns, rows = ask(view, sql, limit)
        number, watermark = view.batch, view.watermark
    shown, more = rows[:limit], len(rows) > limit
    if json:
        named = [dict(zip(columns, row, strict=True)) for row in shown]
        screen.print_json({"batch": number, "watermark": watermark, "rows": named, "more": more})
        return GOOD
    screen.show_table(_align(columns, shown), [[_show(cell) for cell in row] for row in shown])
    count = f"the first {limit:,} rows" if more else count_things(len(shown), "row")
    screen.write(f"\n  {count}, at batch {number}, watermark {name_time(watermark)}")
    return GOOD


def _query_embedded(
    checkpoint: str, sql: str, batch: int | None, limit: int
) -> tuple[int, int, list[str], list[list[Any]]]:
    from anabranch.local.state_reads import query_state, read_tables

    read = read_tables(checkpoint)
    if batch not in (None, read.batch):
        raise InputError(
            "the checkpoint of an embedded run has only its last batch",
            expected=f"--batch {read.batch}, or no --batch",
            got=f"--batch {batch}",
        )
    columns, rows = query_state(read, sql, limit)
    return (
        read.batch,
        read.watermark,
        columns,
        [[encode_value(cell) for cell in row] for row in rows],
    )


def history(
    checkpoint: Checkpoint,
    key: Annotated[str, Parameter(help="Key: a text, a number, or any other value as JSON.")],
    /,
    *,
    master: Master = "local[2]",
    json: Json = False,
) -> int:
    """Show the values of one key, batch by batch, for the batches that Spark has kept."""
    from anabranch.microbatch.inspect.replica import read_key
    from anabranch.spark.inspect.key_history import find_history
    from anabranch.spark.inspect.state_frames import StateView

    screen = Screen(quiet=json)
    _check_checkpoint(checkpoint)
    with screen.wait("reading the batches"):
        session = _start(master)
        description = StateView.open(checkpoint, None, session).overview.description
        try:
            found = read_key(description, key)
        except ValueError as error:
            raise InputError(str(error), got=key) from None
        changes = find_history(checkpoint, found, spark=session)
    if json:
        screen.print_json(
            [
                {"batch": batch, "watermark": watermark}
                | ({"removed": True} if value is MISSING else {"value": encode_value(value)})
                for batch, watermark, value in changes
            ]
        )
        return GOOD
    if not changes:
        screen.write(f"  {key} has no entry in the batches that are kept")
        return GOOD
    rows = [
        (c.batch, name_time(c.watermark), "removed" if c.value is MISSING else _show(c.value))
        for c in changes
    ]
    screen.show_table((">batch", ">watermark", "value"), rows)
    return GOOD


def serve(
    checkpoint: Checkpoint,
    /,
    *,
    host: Annotated[
        str,
        Parameter(help="Address to listen at (default 127.0.0.1: only this machine reaches it)."),
    ] = "127.0.0.1",
    port: Annotated[
        int, Parameter(help="Port to listen at (default 8080; 0: any free port).")
    ] = 8080,
    token: Annotated[
        str | None,
        Parameter(
            help="Token that requests must send (default: none on this machine, else a new one). "
            f"Prefer the variable {TOKEN_VARIABLE}, which process lists don't show.",
            env_var=TOKEN_VARIABLE,
        ),
    ] = None,
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(help="Another host name that requests may use. May be repeated."),
    ] = (),
    master: Master = "local[2]",
) -> int:
    """Serve lookups of single keys over HTTP, updated after each batch, until Ctrl-C."""
    from anabranch.spark.inspect import http_server  # noqa: F401 - refused without its packages
    from anabranch.spark.inspect.live_state import serve as serve_state

    screen = Screen()
    _check_checkpoint(checkpoint)
    # Refuse wrong values before Spark starts.
    grant(host, token, allow_host)
    with screen.wait("reading the state"):
        session = _start(master)
    serve_state(
        checkpoint, host=host, port=port, token=token, allow_hosts=allow_host, spark=session,
        show=screen.write,
    )  # fmt: skip
    return GOOD


def export(
    checkpoint: Checkpoint,
    folder: Annotated[
        str,
        Parameter(help="Folder to write: FOLDER/batch=N, and FOLDER/latest, a link to the newest."),
    ],
    /,
    *,
    follow: Annotated[bool, Parameter(help="Continue with each batch, until Ctrl-C.")] = False,
    keep: Annotated[int, Parameter(help="Number of batches to keep (default 2).")] = 2,
    master: Master = "local[2]",
) -> int:
    """Write the state of the last batch as Parquet, or of each batch as it is committed."""
    import time

    screen = Screen()
    if is_checkpoint(Path(checkpoint)):
        _export_embedded(checkpoint, folder, keep, follow=follow)
        screen.write(f"  {folder}/latest has the state of the last batch")
        return GOOD
    from anabranch.spark.inspect.live_state import export_view

    _check_checkpoint(checkpoint)
    with screen.wait("reading the state"):
        running = export_view(checkpoint, output=folder, keep=keep, spark=_start(master))
    try:
        while follow and running.is_alive:
            time.sleep(0.2)
    finally:
        running.stop()
    screen.write(f"  {folder}/latest has the state of the last batch")
    return GOOD


def _export_embedded(checkpoint: str, folder: str, keep: int, *, follow: bool) -> None:
    import time

    from anabranch.local.state_reads import export_state

    export_state(checkpoint, folder, keep=keep)
    while follow:
        time.sleep(0.2)
        export_state(checkpoint, folder, keep=keep)


def _check_checkpoint(checkpoint: str) -> None:
    """Raise `InputError` for a folder that is not a checkpoint of Spark, before Spark starts."""
    if is_checkpoint(Path(checkpoint)):
        raise InputError(
            f"{checkpoint} is the checkpoint of an embedded run, which has only its last batch",
            expected="the checkpoint of a run on Spark",
            got="pages-NNNNNN.log",
            cure="`anabranch state query` and `state export` read it; `anabranch move` moves it to Spark",
        )
    from anabranch.spark.checkpoint.state_values import find_batch

    find_batch(checkpoint)


def _start(master: str) -> Any:
    from anabranch.spark.session.startup import start_session

    return start_session(name="anabranch", master=master, ui=False)


def _show(cell: Any) -> str:
    from anabranch.microbatch.exchange.result_rows import encode_json

    if cell is None:
        return ""
    return cell if isinstance(cell, str) else encode_json(cell)


def _align(columns: list[str], rows: list[list[Any]]) -> list[str]:
    """Return the names of columns, with `>` before those of numbers."""
    return [
        f">{name}"
        if rows and all(isinstance(row[place], int | float | None) for row in rows)
        else name
        for place, name in enumerate(columns)
    ]
