"""SQL queries on the tables of a checkpoint at one batch."""

from __future__ import annotations

import re
from typing import Any

from anabranch.errors import InputError
from anabranch.model.values.fields import encode_value
from anabranch.spark.inspect.state_frames import StateView

VIEWS = ("state", "channels", "ledger", "pending")


def ask(view: StateView, sql: str, limit: int) -> tuple[list[str], list[list[Any]]]:
    """Return the columns of a result and its rows as JSON values: at most one more than the limit."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.logger import PySparkLogger

    used = [name for name in VIEWS if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
    frames = {name: getattr(view, name)() for name in used}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    # PySpark would print the whole plan beside the error.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    try:
        found = view.spark.sql(sql)
        columns = found.columns
        rows = found.limit(limit + 1).collect()
    except (AnalysisException, ParseException) as error:
        tables = [f"{name}({', '.join(frame.columns)})" for name, frame in frames.items()]
        raise InputError(
            "this query can't be answered",
            expected="; ".join(tables) or f"a query of {', '.join(VIEWS)}",
            got=_shorten(str(error)),
            cure="a name with a dot or a space is written in backticks: `value.key`",
        ) from None
    return columns, [[_plain(cell) for cell in row] for row in rows]


def _shorten(text: str) -> str:
    """Return the sentence of Spark's error that names the cause."""
    line = next(line for line in text.splitlines() if line.strip())
    return re.sub(r"^\[[\w.]+\] ", "", line.partition(" SQLSTATE: ")[0])


def _plain(cell: Any) -> Any:
    """Return a cell as a value that JSON can encode."""
    from pyspark.sql import Row

    if isinstance(cell, Row):
        return {name: _plain(part) for name, part in cell.asDict().items()}
    if isinstance(cell, list):
        return [_plain(part) for part in cell]
    if isinstance(cell, dict) and not all(isinstance(key, str) for key in cell):
        return [[_plain(key), _plain(part)] for key, part in cell.items()]
    if isinstance(cell, dict):
        return {key: _plain(part) for key, part in cell.items()}
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).hex()
    return encode_value(cell)
