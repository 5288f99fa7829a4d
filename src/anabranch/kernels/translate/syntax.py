"""Syntax: find the syntax tree of a function object in its source file.

One line may contain several lambdas, and a file may have changed since it was loaded. So the file
is compiled again, and only code that is equal to the function's own, down to the columns of each
instruction, counts as its source.
"""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

Definition = ast.FunctionDef | ast.Lambda


class Uncompilable(Exception):  # noqa: N818 - it is a verdict on a program, not a failure of ours
    """The reason why a function stays interpreted, with its file and line."""

    def __init__(self, why: str, file: str, line: int) -> None:
        super().__init__(f"{os.path.basename(file)}:{line} {why}")
        self.why = why
        self.file = file
        self.line = line


@dataclass(frozen=True)
class _Read:
    """The current contents of a file: its functions, and the code objects compiled from it."""

    definitions: tuple[Definition, ...]
    codes: tuple[CodeType, ...]


def find_definition(function: FunctionType) -> Definition:
    """Return the syntax tree of a function, with the line numbers of its file."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    name = getattr(function, "__name__", "function")
    shown = "a lambda" if name == "<lambda>" else name
    if not text:
        raise Uncompilable(f"has no source file for {shown}", code.co_filename, code.co_firstlineno)
    read = _read_file(text)
    if read is None or not any(code == other for other in read.codes):
        raise Uncompilable(
            f"has changed since {shown} was loaded", code.co_filename, code.co_firstlineno
        )
    spots = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column)
        and (line, column) != (end_line, end_column)
    ]
    fitting = [d for d in read.definitions if _names_fit(d, code) and _contains(d, spots)]
    if not fitting:
        raise Uncompilable(
            f"does not show the source of {shown}", code.co_filename, code.co_firstlineno
        )
    # Of nested functions that contain every instruction, the innermost is the right one.
    return max(fitting, key=lambda d: (d.lineno, d.col_offset))


@lru_cache(maxsize=64)
def _read_file(text: str) -> _Read | None:
    try:
        tree = ast.parse(text)
        whole = compile(text, "<again>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    definitions = tuple(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda))
    codes = [whole]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    return _Read(definitions, tuple(codes))


def _names_fit(definition: Definition, code: CodeType) -> bool:
    args = definition.args
    plain = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    name = "<lambda>" if isinstance(definition, ast.Lambda) else definition.name
    first = min([definition.lineno, *(d.lineno for d in _decorators(definition))])
    count = code.co_argcount + code.co_kwonlyargcount
    return (
        name == code.co_name
        and first == code.co_firstlineno
        and plain == list(code.co_varnames[:count])
    )


def _decorators(definition: Definition) -> list[ast.expr]:
    return definition.decorator_list if isinstance(definition, ast.FunctionDef) else []


def _contains(definition: Definition, spots: Sequence[tuple[Any, ...]]) -> bool:
    start = (definition.lineno, definition.col_offset)
    end = (definition.end_lineno or 0, definition.end_col_offset or 0)
    return all(start <= spot[:2] and spot[2:] <= end for spot in spots)
