"""Fingerprints: what a checkpoint was made by, so that a restart with something else is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Mapping
from types import CodeType
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.eventtime.sources import Source
from anabranch.model.events import Tag, field_names
from anabranch.model.program import Program
from anabranch.plan.wiring import Wiring


class ChangedProgramError(AnabranchError, ValueError):
    """A query was restarted on a checkpoint that another program, or other settings, had made."""


def fingerprint(program: Program, wiring: Wiring, sources: Mapping[str, Source]) -> dict[str, str]:
    """Return what a state depends on, part by part."""
    return {
        "events": "; ".join(f"{t.__name__}({', '.join(field_names(t))})" for t in program.tags),
        "dependence": repr(program.dependence),
        "rank": ", ".join(tag.__name__ for tag in program.rank),
        "lanes": str(program.lanes),
        "windows": _describe_windows(program),
        "shards": str(wiring.shards),
        "way": f"{wiring.way} {', '.join(wiring.keys)}".strip(),
        "hot": ", ".join(sorted(map(repr, wiring.hot))),
        "sources": "; ".join(_describe_source(sources[name]) for name in sorted(sources)),
        "code": f"{_python()} {_hash_code(program)}",
    }


def check_fingerprint(stored: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Refuse to go on with a state that something else has made; say what changed."""
    changed = [
        name
        for name, value in current.items()
        if name in stored
        and stored[name] != value
        and not _only_python_changed(name, stored, value)
    ]
    if changed:
        raise ChangedProgramError(
            f"this checkpoint was made with other {', '.join(changed)}",
            expected="; ".join(f"{name}: {stored[name]}" for name in changed),
            got="; ".join(f"{name}: {current[name]}" for name in changed),
            cure="restart with what made it, or start a new checkpoint",
        )


def _describe_windows(program: Program) -> str:
    return str(getattr(_innermost(program), "meaning", ""))


def _innermost(program: Program) -> Any:
    shape: Any = program.initial.shape
    while shape.by is not None:
        shape = shape.inner
    return shape


def _describe_source(source: Source) -> str:
    # When a source counts as idle may change from run to run: what was decided by it is recorded.
    names = ["name", "lateness", "strict", "ahead"]
    names += ["in_turn"] if source.in_turn else []
    told = [getattr(source, name) for name in names]
    return f"Source({', '.join(f'{n}={v!r}' for n, v in zip(names, told, strict=True))})"


def _only_python_changed(name: str, stored: Mapping[str, str], current: str) -> bool:
    # Byte code differs between releases of Python; then there is nothing to compare.
    return name == "code" and stored[name].split()[0] != current.split(maxsplit=1)[0]


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
    # Not the repr of a function: it names a place in memory.
    return _describe(part) if callable(part) else repr(part)


def _name(tag: Tag) -> str:
    return tag.__name__
