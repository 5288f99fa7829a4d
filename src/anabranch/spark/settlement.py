"""The barrier on Spark: turns a speculative frame into the settled one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.microbatch.exchange.result_rows import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_LEDGER = (
    "a frame without ledger rows does not say how far time has come: settle(frame, frontier)"
)


def settle(frame: DataFrame, frontier: int | None = None) -> DataFrame:
    """Return the settled frame of a speculative one: what was taken back is never seen.

    An output leaves when the frontier has passed it, once, and in order. A stream's barrier is an
    operator with state in the same query, and one task for the sake of order. Of a frame that is no
    stream, such as what a sink has written, the outputs up to `frontier` are worked out at once. It
    may be left out if the frame has its ledger rows; a folder has none, but `read_frontiers` tells.
    """
    rows = frame.select(*_NAMES)
    return _settle_stream(rows) if frame.isStreaming else _settle_rows(rows, frontier)


_NAMES = [column.split()[0] for column in COLUMNS.split(", ")]


def _settle_stream(rows: DataFrame) -> DataFrame:
    from anabranch.microbatch.operators.group_operators import BarrierOperator
    from anabranch.spark.operators.stateful_processor import ShardProcessor

    # As texts: in pandas, an integer column with a gap in it is one of floats.
    texts = {"time": "CAST(time AS STRING) AS time", "seq": "CAST(seq AS STRING) AS seq"}
    columns = [texts.get(name, name) for name in _NAMES]
    grouped = rows.selectExpr("0 AS barrier", *columns).groupBy("barrier")
    return grouped.transformWithStateInPandas(
        ShardProcessor(BarrierOperator), COLUMNS, "append", "None"
    )


def _settle_rows(rows: DataFrame, frontier: int | None) -> DataFrame:
    outputs = rows.where("kind = 'output'").groupBy(*_NAMES[:-1]).agg({"op": "sum"})
    standing = outputs.selectExpr(*_NAMES[:-1], "CAST(`sum(op)` AS INT) AS op").where("op > 0")
    if frontier is not None:
        settled = standing.where(f"time <= {frontier}")
    else:
        known = rows.where("kind = 'ledger'").selectExpr(
            f"coalesce(max({_FRONTIER}), CAST(raise_error('{NO_LEDGER}') AS BIGINT)) AS frontier"
        )
        settled = standing.crossJoin(known).where("time <= frontier").drop("frontier")
    return rows.where("kind <> 'output'").unionByName(settled.select(*_NAMES))


_FRONTIER = "CAST(get_json_object(value, '$.frontier') AS BIGINT)"
