"""Flags that several verbs share."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from anabranch.errors import InputError

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

Lateness = Annotated[
    str | None,
    Parameter(
        help="How far an event may lie behind the largest time of its channel: '5 s' where times are "
        "datetimes, or an integer in the unit of your times; 0, the default, means in order. Or a share of events, such as 99%: then the "
        "distance is estimated from what came before."
    ),
]

Strict = Annotated[
    bool, Parameter(help="No two events of a channel have one time, so each moves its watermark.")
]


def check_inputs(inputs: tuple[str, ...]) -> None:
    """Refuse a file that is given twice: its events would be counted twice."""
    seen: dict[str, str] = {}
    for name in inputs:
        real = os.path.realpath(name)
        if real in seen:
            raise InputError(
                f"--input has one file twice: {name!r}",
                expected="each file once",
                got=f"{seen[real]} and {name}",
            )
        seen[real] = name
