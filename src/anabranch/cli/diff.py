"""`anabranch diff`: compare two files of outputs, up to the order that does not matter."""

from __future__ import annotations

import json as encoding
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from anabranch.cli.flags import Json
from anabranch.cli.target_module import load_program
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen, count_things
from anabranch.equivalence import Arrival, Difference, Side, compare, depends_fully, depends_never
from anabranch.errors import InputError
from anabranch.model.events import Event
from anabranch.model.program import Program
from anabranch.model.values.fields import encode_value
from anabranch.paths import strip_scheme
from anabranch.reference.event_files import decode_event
from anabranch.reference.rows import STANDARD, read_rows


class OutputRow(NamedTuple):
    """A row of a file of outputs: the text that is compared, and the event that decides its order."""

    text: str
    row: Mapping[str, Any]
    event: Event | None = None

    def __repr__(self) -> str:
        return encoding.dumps(self.row, ensure_ascii=False, default=str)


class RowOrder(NamedTuple):
    """Which rows must keep their order: a relation, its name, and buckets for a faster comparison."""

    name: str
    depends: Callable[[OutputRow, OutputRow], bool]
    bucket: Callable[[OutputRow], Hashable] | None = None


def diff(
    left: Annotated[str, Parameter(help="File with the expected outputs (.jsonl or .parquet).")],
    right: Annotated[str, Parameter(help="File with the outputs to compare.")],
    /,
    *,
    target: Annotated[
        str | None,
        Parameter(
            help="Program (file.py:name). Two outputs must keep their order if the events that caused "
            "them depend on each other in this program."
        ),
    ] = None,
    key: Annotated[
        str | None,
        Parameter(
            help="Outputs with equal values of this field must keep their order, such as event.page."
        ),
    ] = None,
    ordered: Annotated[
        bool, Parameter(help="All outputs must keep their order (default).")
    ] = False,
    unordered: Annotated[
        bool, Parameter(help="Ignore the order; compare only the rows and their counts.")
    ] = False,
    json: Json = False,
) -> int:
    """Compare two files of outputs, up to the order that does not matter."""
    screen = Screen(quiet=json)
    if sum((target is not None, key is not None, ordered, unordered)) > 1:
        raise InputError(
            "the order is given twice",
            expected="one of --target, --key, --ordered and --unordered",
        )
    _check_files(left, right)
    program = load_program(target) if target is not None else None
    expected, got = _read(left, program), _read(right, program)
    if not (_have_events(expected) and _have_events(got)):
        expected, got = _drop_events(expected), _drop_events(got)
    order = _choose_order(program, key, unordered=unordered)
    difference = compare(expected, got, order.depends, same=_equal_text, bucket=order.bucket)
    lengths = [len(expected), len(got)]
    if json:
        screen.print_json(_describe(order, lengths, difference))
    elif difference is None:
        screen.write(f"equivalent: {count_things(lengths[0], 'output')}, {order.name}")
    else:
        _show(screen, (left, right), difference)
        if order.depends is depends_fully and not ordered:
            screen.print(
                "\nCompared in full order. If some outputs may be reordered, give "
                "--target, --key or --unordered."
            )
    return GOOD if difference is None else FOUND


def _check_files(*places: str) -> None:
    """Raise `InputError` for a folder: its files have no defined order."""
    for place in places:
        if place != STANDARD and Path(strip_scheme(place, "input")).is_dir():
            raise InputError(
                f"{place!r} is a folder, and diff compares two files",
                expected="a file of outputs: JSON lines or Parquet",
                got="a folder",
                cure="name a file in it; for the outputs of a run on Spark, use anabranch run … --json, "
                "or read them as one table and write them to a file",
            )


def _read(file: str, program: Program | None) -> list[OutputRow]:
    found = []
    for row in read_rows(file):
        if isinstance(row.columns, str):
            raise InputError(
                "a row is not an output", where=f"{file}:{row.number}", got=row.columns
            )
        event = decode_event(program, row.columns) if program is not None else None
        found.append(_make_row(row.columns, event))
    return found


def _have_events(rows: list[OutputRow]) -> bool:
    return all("event" in row.row for row in rows)


def _drop_events(rows: list[OutputRow]) -> list[OutputRow]:
    """Return rows that are compared without the event, which only the reference writes with an output."""
    return [_make_row({k: v for k, v in one.row.items() if k != "event"}) for one in rows]


def _make_row(columns: Mapping[str, Any], event: Event | None = None) -> OutputRow:
    text = encoding.dumps(columns, ensure_ascii=False, sort_keys=True, default=encode_value)
    return OutputRow(text, columns, event)


def _choose_order(program: Program | None, key: str | None, *, unordered: bool) -> RowOrder:
    if program is not None:
        dependence = program.dependence

        def depend(a: OutputRow, b: OutputRow) -> bool:
            return a.event == b.event or dependence.depend(a.event, b.event)

        return RowOrder(f"up to the dependence of {program.name}", depend)
    if key is not None:

        def key_of(output: OutputRow) -> str:
            return _find_key(output.row, key)

        return RowOrder(f"ordered by equal {key}", lambda a, b: key_of(a) == key_of(b), key_of)
    if unordered:
        return RowOrder("in any order", depends_never, lambda output: output.text)
    return RowOrder("in the same order", depends_fully)


def _equal_text(a: OutputRow, b: OutputRow) -> bool:
    # Compare texts, not values: a NaN equals itself as text, and 1 differs from 1.0.
    return a.text == b.text


def _find_key(row: Mapping[str, Any], key: str) -> str:
    for place in ((), ("event",), ("value",)):
        found: Any = row
        for name in (*place, *key.split(".")):
            found = found.get(name, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT:
            return encoding.dumps(found, sort_keys=True, default=encode_value)
    raise InputError(
        f"an output has no field {key!r}",
        expected=f"one of {', '.join(_list_keys(row))}",
        got=encoding.dumps(row, default=str)[:100],
    )


_ABSENT = object()


def _list_keys(row: Mapping[str, Any]) -> list[str]:
    inner = row.get("event")
    return [*row, *(f"event.{name}" for name in (inner if isinstance(inner, Mapping) else ()))]


def _show(screen: Screen, files: tuple[str, str], difference: Difference[OutputRow]) -> None:
    names = dict(zip(Side, files, strict=True))
    side = difference.side
    if difference.ended:
        screen.print(f"[bold red]different[/]: {names[side]} ended, and outputs are missing\n")
    else:
        screen.print(f"[bold red]different[/]: {names[side]} differs from {names[side.other]}\n")
    width = max(map(len, files)) + 8
    for arrival in difference.expected:
        screen.write(f"  expected  {_place(names, arrival):<{width}}{arrival.item}", style="green")
    if difference.came is not None:
        got = difference.came
        screen.write(f"  got       {_place(names, got):<{width}}{got.item}", style="red")
    else:
        screen.write("  got       nothing", style="red")
    screen.write(
        f"\n  without a counterpart: {difference.left_unmatched} in {files[0]}, "
        f"{difference.right_unmatched} in {files[1]}" + ("" if difference.ended else ", so far")
    )


def _place(names: Mapping[Side, str], arrival: Arrival[OutputRow]) -> str:
    return f"{names[arrival.side]}, {arrival.position + 1}:"


def _describe(
    order: RowOrder, lengths: list[int], difference: Difference[OutputRow] | None
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "equivalent": difference is None,
        "order": order.name,
        "counts": {"left": lengths[0], "right": lengths[1]},
    }
    if difference is not None:
        document["difference"] = {
            "side": difference.side.value,
            "ended": difference.ended,
            "expected": [_describe_arrival(arrival) for arrival in difference.expected],
            "came": _describe_arrival(difference.came) if difference.came else None,
            "unmatched": {"left": difference.left_unmatched, "right": difference.right_unmatched},
        }
    return document


def _describe_arrival(arrival: Arrival[OutputRow]) -> dict[str, Any]:
    return {
        "side": arrival.side.value,
        "position": arrival.position,
        "output": arrival.item.row,
    }
