"""Results as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.html_tables import MOST_ROWS, show_line, show_table

if TYPE_CHECKING:
    from anabranch.local.evaluation import Evaluation


def show_tables(result: Evaluation) -> str:
    """Return the ledger and the first rows of each table of a result as HTML."""
    parts = [show_line("ledger", result.ledger)]
    for name in ("outputs", "late", "rejected"):
        table = getattr(result, name)
        rows = list_rows(table, MOST_ROWS)
        if rows or name == "outputs":
            parts.append(show_line(name, f"{len(table):,} rows") + show_rows(rows))
    return "".join(parts)


def list_rows(table: Any, most: int) -> list[dict[str, Any]]:
    """Return the first rows of a table of Arrow, pandas or Polars."""
    first = table[:most]
    if hasattr(first, "to_pylist"):
        return list(first.to_pylist())
    if hasattr(first, "to_dicts"):
        return list(first.to_dicts())
    return list(first.to_dict("records"))


def show_rows(rows: list[dict[str, Any]]) -> str:
    """Return rows as an HTML table; nothing if there are none."""
    return show_table(map(str, rows[0]), [list(row.values()) for row in rows]) if rows else ""
