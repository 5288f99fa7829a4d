"""Fingerprints of programs: the parts of a program that its state depends on."""

from __future__ import annotations

import platform
from typing import Any

from anabranch.model.events import EventType, field_names
from anabranch.model.program import Program
from anabranch.savepoints.codeprints import MECHANISM, hash_values


def fingerprint_program(program: Program) -> dict[str, str]:
    """Return the parts of a program that its state depends on, independent of the runtime."""
    return {
        "events": "; ".join(
            f"{t.__name__}({', '.join(field_names(t))})" for t in program.event_types
        ),
        "dependence": repr(program.dependence),
        "rank": ", ".join(event_type.__name__ for event_type in program.rank),
        "lanes": str(program.lanes),
        "windows": _describe_windows(program),
        "code": f"{_describe_python()} {_hash_code(program)}",
    }


def _describe_windows(program: Program) -> str:
    return str(getattr(_innermost(program), "meaning", ""))


def _innermost(program: Program) -> Any:
    shape: Any = program.initial.shape
    while shape.by is not None:
        shape = shape.inner
    return shape


def _describe_python() -> str:
    # Byte code differs between releases of Python, and descriptions between releases of Anabranch.
    return f"{'.'.join(platform.python_version_tuple()[:2])}/{MECHANISM}"


def _hash_code(program: Program) -> str:
    parts: list[Any] = []
    for state_type in program.state_types:
        parts.append(state_type.shape)
        for event_type in sorted(state_type.handlers, key=_name):
            handler = state_type.handlers[event_type]
            parts += [event_type.__name__, handler.update, handler.output, handler.due]
    for fork in program.forks:
        parts += [fork.fork, fork.join]
    return hash_values(*parts)


def _name(event_type: EventType) -> str:
    return event_type.__name__
