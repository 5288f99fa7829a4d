"""Inspection of a query's state while it runs or after: as a frame, by key, over HTTP and in files.

These are the public functions. They import the modules that implement them when they are called, because
those need NumPy.
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

    The state is that of one committed batch across all shards: the last one, or `batch`, as long as Spark
    keeps it. The columns are `key`, then the fields of an entry, or `value`. For windows on the columnar
    path, they are `key`, `start`, `events` and the parts of the aggregates. A state without entries is one
    row. In the forked layout, the state is that of the root: it does not include the deltas since the last
    marker.
    """
    from anabranch.spark.inspect.state_frames import StateView

    return StateView.open(query, batch, spark).state()


def history(
    query: str | Path | StreamingQuery, key: Any, *, spark: SparkSession | None = None
) -> list[Change]:
    """Return the entry of a key in the first batch that Spark keeps, and in each batch that changed it.

    A `Change` has the number of a batch, its watermark and the value. For a state without entries, `key` is
    None and the value is the whole state.
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
    show: Callable[[str], Any] = lambda line: None,
) -> None:
    """Serve the state of a query, or of a checkpoint, over HTTP until Ctrl-C.

    The server answers from a replica, which applies each batch after it is committed, all shards at once.
    With the default `host`, only this machine can reach the server. With another address, requests need a
    token (`Authorization: Bearer TOKEN`), which is generated if `token` is not given. The `Host` of a request
    must be `host`, `localhost` or one of `allow_hosts`. `show` is called with the address, and with a
    generated token.
    """
    from anabranch.spark.inspect.follower import Follower
    from anabranch.spark.inspect.http_access import grant
    from anabranch.spark.inspect.http_server import Server

    access = grant(host, token, allow_hosts)
    follower = Follower(query, spark=spark)
    with Server(follower, host, port, access=access) as server:
        place = f"[{host}]" if ":" in host else host
        show(f"serving batch {follower.current.batch} at http://{place}:{server.port}/state")
        if access.token is not None and token is None:
            show(f"requests need the header Authorization: Bearer {access.token}")
        server.wait()


def export_view(
    query: str | Path | StreamingQuery,
    *,
    output: str | Path,
    keep: int = 2,
    spark: SparkSession | None = None,
) -> Export:
    """Start to publish the state of each batch of a query as Parquet, until the query has ended.

    The query does not wait for exports: if batches are faster, some of them are skipped, but never the last
    one. The newest `keep` batches are kept. If `query` is the path of a checkpoint, the last committed batch
    is published, and each later one until `stop` of the returned `Export` is called.
    """
    from anabranch.spark.inspect.parquet_exports import Export
    from anabranch.spark.inspect.state_frames import find_session

    if keep < 1:
        raise InputError("at least one batch must be kept", expected="1 or more", got=str(keep))
    return Export(query, resolve_path(output, "output"), keep, spark or find_session())
