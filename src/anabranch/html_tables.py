"""Small HTML tables for notebooks, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

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
