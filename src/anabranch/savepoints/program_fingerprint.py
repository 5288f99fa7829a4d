"""Fingerprints of programs: what a state was made by, part by part."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from types import CodeType
from typing import Any

from anabranch.model.events import Tag, field_names
from anabranch.model.program import Program


def fingerprint_program(program: Program) -> dict[str, str]:
    """Return what a program's state depends on, whatever runs it."""
    return {
        "events": "; ".join(f"{t.__name__}({', '.join(field_names(t))})" for t in program.tags),
        "dependence": repr(program.dependence),
        "rank": ", ".join(tag.__name__ for tag in program.rank),
        "lanes": str(program.lanes),
        "windows": _describe_windows(program),
        "code": f"{_python()} {_hash_code(program)}",
    }


def _describe_windows(program: Program) -> str:
    return str(getattr(_innermost(program), "meaning", ""))


def _innermost(program: Program) -> Any:
    shape: Any = program.initial.shape
    while shape.by is not None:
        shape = shape.inner
    return shape


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _hash_code(program: Program) -> str:
    digest = hashlib.sha256()
    for state_type in program.state_types:
        for tag in sorted(state_type.handlers, key=_name):
            handler = state_type.handlers[tag]
            for function in (handler.update, handler.output, handler.due):
                digest.update(_describe(function).encode())
    for function in getattr(_innermost(program), "functions", ()):
        digest.update(_describe(function).encode())
    for fork in program.forks:
        for half in (fork.fork, fork.join):
            digest.update(_describe(half).encode())
    return digest.hexdigest()[:16]


def _describe(function: Any) -> str:
    """Return what a function does: its code, and what the object holds that it is a method of."""
    text = _describe_code(getattr(function, "__code__", None))
    owner = getattr(function, "__self__", None)
    return text + _describe_part(owner) if dataclasses.is_dataclass(owner) else text


def _describe_code(code: Any) -> str:
    if not isinstance(code, CodeType):
        return "-"
    constants = [_describe_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _describe_part(part: Any) -> str:
    if isinstance(part, type):
        return part.__name__
    if dataclasses.is_dataclass(part):
        values = [_describe_part(getattr(part, f.name)) for f in dataclasses.fields(part)]
        return f"{type(part).__name__}({', '.join(values)})"
    # Not the repr of a function, nor that of a plain object: they name a place in memory.
    if callable(part):
        return _describe(part)
    plain = "__repr__" not in {name for kind in type(part).__mro__[:-1] for name in vars(kind)}
    return _describe_object(part) if plain else repr(part)


def _describe_object(part: Any) -> str:
    """Return what a plain object is: its class, what that class says and does, and what it holds."""
    kind = type(part)
    told = {name: value for name, value in vars(kind).items() if not name.startswith("__")}
    told |= getattr(part, "__dict__", {})
    parts = [f"{name}={_describe_part(told[name])}" for name in sorted(told)]
    return f"{kind.__name__}({', '.join(parts)})"


def _name(tag: Tag) -> str:
    return tag.__name__
