"""Flags that several verbs share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Target = Annotated[
    str,
    Parameter(help="The program: file.py:name, or package.module:name. One alone needs no name."),
]

Inputs = Annotated[
    tuple[str, ...],
    Parameter(
        consume_multiple=False,
        allow_leading_hyphen=True,  # For -, standard input.
        help="A file of events: .jsonl, .parquet, .csv, or - for JSON lines on standard input. "
        "May be given more than once. Without it, the list `events` beside the program is used.",
    ),
]

Json = Annotated[bool, Parameter(help="Print one JSON document and nothing else.")]
