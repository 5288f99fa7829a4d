"""Fingerprints: what a checkpoint was made by, so that a restart with something else is refused."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors import AnabranchError
from anabranch.eventtime.channels import Source
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout
from anabranch.savepoints.program_fingerprint import fingerprint_program


class ChangedProgramError(AnabranchError, ValueError):
    """A query was restarted on a checkpoint that another program, or other settings, had made."""


def fingerprint(program: Program, wiring: Layout, sources: Mapping[str, Source]) -> dict[str, str]:
    """Return what a state depends on, part by part."""
    parts = fingerprint_program(program)
    code = parts.pop("code")
    return {
        **parts,
        "shards": str(wiring.shards),
        "way": f"{wiring.way} {', '.join(wiring.keys)}".strip(),
        "hot": ", ".join(sorted(map(repr, wiring.hot))),
        "sources": "; ".join(_describe_source(sources[name]) for name in sorted(sources)),
        "code": code,
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
            cure=_find_cure(changed),
        )


def _find_cure(changed: list[str]) -> str:
    if changed == ["shards"]:
        return "restart with what made it, or run anabranch rescale first"
    if "mode" in changed:
        return "restart with what made it, or start a new checkpoint"
    return (
        "restart with what made it, start a new checkpoint, or take the state along: "
        "anabranch savepoint create, and restore with what is new"
    )


def _describe_source(source: Source) -> str:
    # When a source counts as idle may change from run to run: what was decided by it is recorded.
    names = ["name", "lateness", "strict", "ahead"]
    names += ["in_turn"] if source.in_turn else []
    told = [getattr(source, name) for name in names]
    return f"Source({', '.join(f'{n}={v!r}' for n, v in zip(names, told, strict=True))})"


def _only_python_changed(name: str, stored: Mapping[str, str], current: str) -> bool:
    # Byte code differs between releases of Python, and how it is described between ours; then there is
    # nothing to compare.
    return name == "code" and stored[name].split()[0] != current.split(maxsplit=1)[0]
