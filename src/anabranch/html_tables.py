"""Small HTML tables for notebooks, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MOST_ROWS = 10
"""Number of rows of a result that a notebook shows."""


def show_table(names: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as an HTML table.

    >>> show_table(["card"], [["<a>"]])
    '<table><thead><tr><th>card</th></tr></thead><tbody><tr><td>&lt;a&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def show_line(name: str, text: object) -> str:
    """Return a named text as an HTML paragraph.

    >>> show_line("ledger", "1 < 2")
    '<p><b>ledger</b>: 1 &lt; 2</p>'
    """
    return f"<p><b>{escape(name)}</b>: {escape(str(text))}</p>"


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
