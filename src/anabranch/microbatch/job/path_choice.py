"""The choice between the columnar path and the row path, and the messages about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from anabranch.errors import InputError, Location
from anabranch.model.locations import locate_function
from anabranch.model.program import Program

if TYPE_CHECKING:
    from anabranch.microbatch.job.column_plan import ColumnPlan

Columnar = Literal["auto", "require", "never"]
"""`auto`: the columnar path if possible; `require`: raise if it is not possible; `never`: the row path."""

CHOICES: tuple[Columnar, ...] = ("auto", "require", "never")


class Path(NamedTuple):
    """The plan of the columnar path; or None, and the reason for the row path."""

    plan: ColumnPlan | None
    reason: str | None = None


def plan_path(program: Program, plan: ColumnPlan | str, columnar: Columnar) -> Path:
    """Return the path of a run; raise if it is required to take the columnar path and can't."""
    if columnar not in CHOICES:
        raise InputError(
            f"{columnar!r} is not a choice of path",
            expected=f"columnar= one of {', '.join(map(repr, CHOICES))}",
            got=repr(columnar),
        )
    if columnar == "never":
        return Path(None)
    if not isinstance(plan, str):
        return Path(plan)
    if columnar == "require":
        raise InputError(
            f"{program.name} can't take the columnar path",
            where=locate_program(program),
            expected="a program and channels that fit columns",
            got=plan,
            cure='change that, or run with columnar="auto"',
        )
    return Path(None, plan)


def describe_row_path(program: Program, reason: str) -> str:
    """Return the line that reports why a program takes the row path."""
    where = locate_program(program)
    place = "" if where is None else f" ({where})"
    return f"{program.name} takes the row path: {reason}{place}"


def locate_program(program: Program) -> Location | None:
    """Return the source location of a program's first function, or of its state."""
    for state_type in program.state_types:
        for handler in state_type.handlers.values():
            for function in (handler.update, handler.output):
                found = None if function is None else locate_function(function)
                if found is not None and "anabranch/" not in found.file.replace("_examples", ""):
                    return found
    return None
