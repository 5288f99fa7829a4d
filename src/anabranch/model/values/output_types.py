"""Output types: the types of a program's outputs, declared or read from annotations.

Types are declared with `Program(..., outputs=Alert)`, or inferred if every output function has a return
annotation that names one: `-> Alert`, `-> Alert | None`, `-> list[Alert]`, `-> Iterator[Alert]`. Otherwise
the types are unknown, and outputs are written as JSON. An event with an output of another type is rejected.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from anabranch.errors import Location, OutputTypeError, ProgramError
from anabranch.model.locations import locate_function
from anabranch.model.values.fields import Unfit
from anabranch.model.values.type_checks import make_check, show
from anabranch.model.values.value_types import (
    JSON,
    UnsupportedTypeError,
    ValueType,
    read_type,
)

_MANY = (list, Iterator, Iterable, Generator)
"""Return annotations of functions that return several outputs at once."""


@dataclass(frozen=True)
class OutputTypes:
    """The types of a program's outputs; empty if they are unknown."""

    types: tuple[ValueType, ...] = ()
    declared: bool = field(default=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.types)

    def __str__(self) -> str:
        return " or ".join(map(str, self.types)) or "anything"

    @cached_property
    def _checks(self) -> tuple[Callable[[Any], None], ...]:
        return tuple(map(make_check, self.types))

    def find(self, value: Any) -> int:
        """Return the index of the type of a value, or raise `Unfit`."""
        reasons = []
        for number, check in enumerate(self._checks):
            try:
                check(value)
            except Unfit as error:
                reasons.append((type(value) is self.types[number].cls, str(error)))
            else:
                return number
        # For a record of the right class with a wrong field, the reason names the field.
        close = [reason for same, reason in reasons if same]
        raise Unfit(
            close[0] if close else reasons[0][1] if len(reasons) == 1 else self._refuse(value)
        )

    def _refuse(self, value: Any) -> str:
        return f"expected {self}, got {show(value)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputTypes, (self.types, self.declared)


UNKNOWN = OutputTypes()
"""Outputs of unknown types."""


@dataclass(frozen=True)
class OutputCheck:
    """The check of one handler's outputs; errors name the location of its function."""

    types: OutputTypes
    where: Location | None

    def check(self, outputs: tuple[Any, ...]) -> None:
        """Raise `OutputTypeError` if an output has none of the program's types."""
        for value in outputs:
            try:
                self.types.find(value)
            except Unfit as error:
                raise OutputTypeError(
                    f"an output is not of its declared type: {error}"
                    if self.types.declared
                    else f"an output is not of its annotated type: {error}",
                    where=self.where,
                ) from None


def find_output_types(
    outputs: Any, functions: Iterable[Callable[..., Any]], where: Location | None
) -> OutputTypes:
    """Return the declared output types, or those in the annotations of all output functions."""
    if isinstance(outputs, OutputTypes):
        return outputs
    if outputs is None:
        return _infer(functions)
    listed = outputs if isinstance(outputs, tuple) else (outputs,)
    if not listed:
        raise ProgramError(
            "the tuple of output types is empty",
            where=where,
            expected="outputs=Alert, or outputs=(Alert, Total)",
            got="outputs=()",
            cure="leave out outputs= if the types are unknown",
        )
    return OutputTypes(check_types([_read_declared(one, where) for one in listed], where), True)


def make_output_check(types_: OutputTypes, function: Any, where: Location | None) -> OutputCheck:
    """Return the check of the outputs of one function."""
    return OutputCheck(types_, locate_function(_find_code(function)) or where)


def find_return_type(function: Callable[..., Any]) -> ValueType | None:
    """Return the annotated return type of a function, without None; None if it can't be read."""
    found = [read_type(one) for one in _list_returned(function, many=False) or ()]
    known = len(found) == 1 and found[0].kind != JSON
    return found[0] if known else None


def check_types(found: list[ValueType], where: Location | None) -> tuple[ValueType, ...]:
    """Return the types; raise if two columns would have the same name, which in Spark is case-insensitive."""
    names = [one.name for one in found] if len(found) > 1 else []
    for names_ in (names, *(one.field_names for one in _list_records(found))):
        folded = [name.casefold() for name in names_]
        twice = next((n for n, f in zip(names_, folded, strict=True) if folded.count(f) > 1), None)
        if twice is not None:
            raise ProgramError(
                f"two columns of the outputs would be called {twice!r}",
                where=where,
                expected="names that differ in more than upper and lower case",
                got=", ".join(names_),
            )
    nested = found if len(found) > 1 else [part for one in found for _, part in one.parts]
    for record in _list_records(nested):
        if not record.parts:
            raise ProgramError(
                f"{record.name} has no fields, and Parquet has no columns without any",
                where=where,
                expected="a type with at least one field",
            )
    return tuple(found)


def _list_records(found: Iterable[ValueType]) -> Iterator[ValueType]:
    for one in found:
        if one.has_fields:
            yield one
        yield from _list_records(part for _, part in one.parts)


def _read_declared(outputs: Any, where: Location | None) -> ValueType:
    if isinstance(outputs, ValueType):
        return outputs
    try:
        found = read_type(outputs, strict=True)
    except UnsupportedTypeError as error:
        raise ProgramError(
            f"outputs={getattr(outputs, '__name__', outputs)} can't be written into columns",
            where=where,
            expected="a NamedTuple, a dataclass, or a type such as int, str, list[int] "
            "(docs/result-columns.md has all)",
            got=str(error),
            cure="annotate it as Any to write it as JSON",
        ) from None
    if found.optional and found.kind != JSON:
        raise ProgramError(
            f"outputs={outputs} includes None, which is not an output",
            where=where,
            expected="the type of an output",
            got=str(outputs),
        )
    return found


def _infer(functions: Iterable[Callable[..., Any]]) -> OutputTypes:
    found: dict[ValueType, None] = {}
    for function in functions:
        returned = _list_returned(function)
        if returned is None:
            return OutputTypes()
        found.update(dict.fromkeys(map(read_type, returned)))
    if any(one.kind == JSON or one.optional for one in found):
        return OutputTypes()
    try:
        return OutputTypes(check_types(list(found), None))
    except ProgramError:
        return OutputTypes()


def _list_returned(function: Callable[..., Any], *, many: bool = True) -> list[Any] | None:
    """Return the output types in a function's return annotation, or None if there are none."""
    annotation = _read_return(function)
    if annotation is None:
        return None
    found = []
    for choice in _list_choices(annotation):
        if many and get_origin(choice) in _MANY and get_args(choice):
            found += _list_choices(get_args(choice)[0])
        elif many and choice in _MANY:
            return None
        else:
            found.append(choice)
    return [one for one in found if one is not types.NoneType]


def _list_choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return list(get_args(annotation))
    return [annotation]


def _read_return(function: Callable[..., Any]) -> Any:
    code = _find_code(function)
    if "return" not in getattr(code, "__annotations__", {}):
        return None
    # A class that is local to the enclosing function is in the closure, if the function uses it.
    free = getattr(getattr(code, "__code__", None), "co_freevars", ())
    cells = getattr(code, "__closure__", None) or ()
    known = {}
    for name, cell in zip(free, cells, strict=False):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # A cell that is still empty.
            continue
    try:
        found = get_type_hints(code, localns=known).get("return")
    except Exception:  # noqa: BLE001 - an annotation may be any expression
        return None
    return types.NoneType if found is None else None if isinstance(found, TypeVar) else found


def _find_code(function: Any) -> Any:
    """Return the function below partial applications, methods and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__code__") and not isinstance(function, type):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - its code is wanted
    return function
