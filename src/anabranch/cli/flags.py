"""Flags that several commands share."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from anabranch.errors import InputError

Target = Annotated[
    str,
    Parameter(
        help="Program: file.py:name or package.module:name (name optional if there is one program)."
    ),
]

Inputs = Annotated[
    tuple[str, ...],
    Parameter(
        consume_multiple=False,
        allow_leading_hyphen=True,  # For -, standard input.
        help="File of events (.jsonl, .parquet, .arrow, .csv), folder of such files, or - for JSON lines on "
        "standard input (default: the list `events` beside the program). May be repeated.",
    ),
]

Json = Annotated[bool, Parameter(help="Print one JSON document and nothing else.")]

Lateness = Annotated[
    str | None,
    Parameter(
        help="How far an event may be behind the largest time of its channel (default 0: in order): "
        "'5 s' where times are datetimes, or else an integer in the unit of the times. Or a share of "
        "events, such as 99%: then the distance is estimated from earlier events."
    ),
]

Strict = Annotated[
    bool, Parameter(help="Times never repeat within a channel, so each event moves its watermark.")
]


def check_inputs(inputs: tuple[str, ...]) -> None:
    """Raise `InputError` for a file that is given twice: its events would be counted twice."""
    seen: dict[str, str] = {}
    for name in inputs:
        real = os.path.realpath(name)
        if real in seen:
            raise InputError(
                f"--input has the same file twice: {name!r}",
                expected="each file once",
                got=f"{seen[real]} and {name}",
            )
        seen[real] = name
