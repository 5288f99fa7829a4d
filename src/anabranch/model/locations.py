"""Locations: the file and line of the user's code that declares a part of a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from anabranch.errors import Location

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_EXAMPLES = os.path.join(_PACKAGE, "_examples")


def locate_caller() -> Location | None:
    """Return the innermost location on the current stack that is outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = file.startswith(_PACKAGE) and not file.startswith(_EXAMPLES)
        if file == "<string>":  # A dataclass's own __init__, unless the user runs `python -c`.
            ours = frame.f_globals.get("__name__", "").startswith("anabranch.")
        if not ours and not file.startswith("<frozen"):
            return Location(_shorten(file), frame.f_lineno)
        frame = frame.f_back
    return None


def locate_function(function: Callable[..., Any]) -> Location | None:
    """Return the location of a function's definition, or None if it has no code object."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return Location(_shorten(code.co_filename), code.co_firstlineno)


def _shorten(file: str) -> str:
    # A path relative to the working directory is shorter, and the same on another machine.
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative
