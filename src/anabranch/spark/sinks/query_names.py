"""Names of queries in Spark's monitoring: by default, the name of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def choose_name(session: SparkSession, name: str | None, usual: str | None) -> str | None:
    """Return the name for a query: `name`, or that of the program.

    Spark allows one active query of a name. If `name` is taken, raise `InputError`. If the name of the
    program is taken, add a number: `balances`, `balances-2`, `balances-3`.
    """
    taken = _list_names(session)
    if name is not None:
        _check_name(name, taken)
        return name
    if usual is None or usual not in taken:
        return usual
    number = 2
    while f"{usual}-{number}" in taken:
        number += 1
    return f"{usual}-{number}"


def _check_name(name: str, taken: set[str]) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError(
            "name is not a name of a query",
            expected="a text such as 'balances', or None for the name of the program",
            got=repr(name),
        )
    if name in taken:
        raise InputError(
            f"a query with the name {name!r} is active in this session",
            expected="a name that no active query has",
            got=name,
            cure="stop that query first, or give this one another name",
        )


def _list_names(session: SparkSession) -> set[str]:
    names = (query.name for query in session.streams.active)
    return {name for name in names if name is not None}
