"""Inspection: what a query has folded, as a frame, key by key, over HTTP and in files, while it runs or after.

These are the public names; the modules behind them are loaded when they are called, as they need NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.paths import resolve_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from anabranch.spark.inspect.key_history import Change
    from anabranch.spark.inspect.parquet_exports import Export


def state(
    query: str | Path | StreamingQuery,
    *,
    batch: int | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the state of a query, or of a checkpoint, as a frame with a row for each key.

    It is that of one committed batch across all shards: the last one, or `batch`, as long as Spark keeps
    it. Columns are `key`, then the fields of an entry, or `value`; of windows by columns, `key`, `start`,
    `events` and their parts. A state without entries is one row. Of a program that folds leaves apart,
    it is the root's: what leaves have folded since the last marker is not in it.
    """
    from anabranch.spark.inspect.state_frames import StateView

    return StateView.open(query, batch, spark).state()


def history(
    query: str | Path | StreamingQuery, key: Any, *, spark: SparkSession | None = None
) -> list[Change]:
    """Return the batches in which the entry of a key changed, the first that is kept before them.

    A `Change` has a batch, its watermark and the value. None stands for the whole of a state without
    entries.
    """
    from anabranch.spark.inspect.key_history import find_history

    return find_history(query, key, spark=spark)


def serve(
    query: str | Path | StreamingQuery,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    allow_hosts: Iterable[str] = (),
    spark: SparkSession | None = None,
    tell: Callable[[str], Any] = lambda line: None,
) -> None:
    """Serve the state of a query, or of a checkpoint, over HTTP until Ctrl-C.

    The replica takes up each batch after it is committed: all shards of it at once. Only this machine can
    reach the server, unless `host` is another address of it: then requests need a token
    (`Authorization: Bearer TOKEN`), which is made and reported if none is given. Requests must name the
    server by its host, by `localhost` or by one of `allow_hosts`.
    """
    from anabranch.spark.inspect.follower import Follower
    from anabranch.spark.inspect.http_access import grant
    from anabranch.spark.inspect.http_server import Server

    access = grant(host, token, allow_hosts)
    follower = Follower(query, spark=spark)
    with Server(follower, host, port, access=access) as server:
        place = f"[{host}]" if ":" in host else host
        tell(f"serving batch {follower.current.batch} at http://{place}:{server.port}/state")
        if access.token is not None and token is None:
            tell(f"requests need the header Authorization: Bearer {access.token}")
        server.wait()


def export_view(
    query: str | Path | StreamingQuery,
    *,
    output: str | Path,
    keep: int = 2,
    spark: SparkSession | None = None,
) -> Export:
    """Publish the state of each batch of a query as Parquet, from now until the query has ended.

    The query does not wait for it: if batches are quicker than exports, some of them are left out, and
    the last one never is. Of a checkpoint, the last committed batch is published, and each that follows
    until `stop`.
    """
    from anabranch.spark.inspect.parquet_exports import Export
    from anabranch.spark.inspect.state_frames import find_session

    if keep < 1:
        raise InputError("at least one batch has to stay", expected="1 or more", got=str(keep))
    return Export(query, resolve_path(output, "output"), keep, spark or find_session())
