"""The barrier on Spark, which turns a speculative result into the settled one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.microbatch.exchange.packed_rows import PACK_SCHEMA
from anabranch.microbatch.exchange.result_rows import COLUMNS
from anabranch.spark.sinks.results import Result, pack_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def settle(result: Result, *, watermark: int | None = None) -> Result:
    """Return the settled result of a speculative one: without retractions and the outputs they withdraw.

    An output is emitted when the watermark has passed it: once, and in order. For a stream, the barrier is a
    stateful operator in the same query, with one task to keep the order. For a batch result, the outputs up
    to `watermark` are computed at once; the default is the watermark of its ledger. `settle_outputs` does the
    same for rows that `write_directory` has written.
    """
    rows = result.rows
    packs = (
        _settle_stream(rows) if result.is_streaming else pack_rows(_settle_rows(rows, watermark))
    )
    return result.with_packs(packs)


def settle_outputs(outputs: DataFrame, watermark: int) -> DataFrame:
    """Return the settled rows of speculative outputs, such as `read_outputs` returns, up to a watermark.

    `read_watermarks` returns the watermark of a published batch. Outputs can't have maps, because Spark can't
    compare them.
    """
    time, op = (f"_{name}" if f"_{name}" in outputs.columns else name for name in ("time", "op"))
    names = [f"`{name}`" for name in outputs.columns if name not in (op, "batch")]
    counted = outputs.groupBy(*names).agg({op: "sum"})
    standing = counted.selectExpr(*names, f"CAST(`sum({op})` AS INT) AS `{op}`")
    stamped = dict(outputs.dtypes)[time] == "timestamp"
    passed = f"unix_micros(`{time}`)" if stamped else f"`{time}`"
    return standing.where(f"`{op}` > 0 AND {passed} <= {watermark}").select(
        *(f"`{name}`" for name in outputs.columns if name != "batch")
    )


_NAMES = [column.split()[0] for column in COLUMNS.split(", ")]


def _settle_stream(rows: DataFrame) -> DataFrame:
    from anabranch.spark.operators.stateful_processor import BarrierProcessor

    # As strings: in pandas, an integer column with a null becomes a float column.
    texts = {name: f"CAST({name} AS STRING) AS {name}" for name in ("time", "seq", "distance")}
    columns = [texts.get(name, name) for name in _NAMES]
    grouped = rows.selectExpr("0 AS barrier", *columns).groupBy("barrier")
    return grouped.transformWithStateInPandas(BarrierProcessor(), PACK_SCHEMA, "append", "None")


def _settle_rows(rows: DataFrame, watermark: int | None) -> DataFrame:
    names = [name for name in _NAMES if name != "op"]
    outputs = rows.where("kind = 'output'").groupBy(*names).agg({"op": "sum"})
    standing = outputs.selectExpr(*names, "CAST(`sum(op)` AS INT) AS op").where("op > 0")
    if watermark is not None:
        settled = standing.where(f"time <= {watermark}")
    else:
        known = rows.where("kind = 'ledger'").selectExpr(f"max({_WATERMARK}) AS watermark")
        settled = standing.crossJoin(known).where("time <= watermark").drop("watermark")
    return rows.where("kind <> 'output'").unionByName(settled.select(*_NAMES)).select(*_NAMES)


_WATERMARK = "CAST(get_json_object(value, '$.watermark') AS BIGINT)"
