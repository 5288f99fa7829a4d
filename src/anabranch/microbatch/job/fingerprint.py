"""Fingerprints: the program and settings that made a checkpoint; a restart with others is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.errors import AnabranchError
from anabranch.eventtime.channels import Channel
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout
from anabranch.savepoints.program_fingerprint import fingerprint_program

_CHANNEL = "channel "
"""The prefix of the name of a channel's part."""


class ChangedProgramError(AnabranchError, ValueError):
    """A query was restarted on a checkpoint that was made by another program, or with other settings."""


def fingerprint(
    program: Program, layout: Layout, channels: Mapping[str, Channel]
) -> dict[str, str]:
    """Return the properties that a state depends on, part by part."""
    parts = fingerprint_program(program)
    code = parts.pop("code")
    return {
        **parts,
        "shards": str(layout.shards),
        "way": f"{layout.way} {', '.join(layout.keys)}".strip(),
        "hot_keys": ", ".join(sorted(map(repr, layout.hot_keys))),
        **{name_part(name): _describe_channel(channels[name]) for name in sorted(channels)},
        "code": code,
    }


def name_part(channel: str) -> str:
    """Return the name of the part of a fingerprint that describes a channel."""
    return f"{_CHANNEL}{channel!r}"


def find_added(stored: Mapping[str, str], channels: Iterable[str]) -> list[str]:
    """Return the channels that were added to a state; none if an earlier version did not record them."""
    if not any(part.startswith(_CHANNEL) for part in stored):
        return []
    return sorted(name for name in channels if name_part(name) not in stored)


def check_fingerprint(stored: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Raise if a state was made by another program or other settings; the error names the changes.

    Channels may be added: they join at the watermark of the state.
    """
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
    gone = [part for part in stored if part.startswith(_CHANNEL) and part not in current]
    if gone and any(part.startswith(_CHANNEL) for part in current):
        declared = [part for part in current if part.startswith(_CHANNEL)]
        raise ChangedProgramError(
            f"this checkpoint was made with {', '.join(gone)}, which no source declares now",
            expected="; ".join(stored[part] for part in gone),
            got=", ".join(declared),
            cure="declare it again. End a channel without more events with a heartbeat at the end of time, "
            "or exclude it with idle_after_s=",
        )


def _find_cure(changed: list[str]) -> str:
    if changed == ["shards"]:
        return "restart with the settings that made it, or run anabranch rescale first"
    if changed == ["frames"]:
        return (
            "give as many frames as before, in the same order. Files and channels in a channel_column= can "
            "be added at a restart; for a frame, make a savepoint, and restore it with the new frame after "
            "the others"
        )
    if "mode" in changed:
        return "restart with the settings that made it, or start a new checkpoint"
    return (
        "restart with the program and settings that made it, start a new checkpoint, or keep the state: "
        "anabranch savepoint create, and restore it with the new ones"
    )


def _describe_channel(channel: Channel) -> str:
    # idle_after_s may change from run to run: the resulting watermarks are recorded.
    names = ["name", "lateness", "unique_times", "max_ahead"]
    names += ["order"] if channel.in_arrival_order else []
    values = [getattr(channel, name) for name in names]
    return f"Channel({', '.join(f'{n}={v!r}' for n, v in zip(names, values, strict=True))})"


def _only_python_changed(name: str, stored: Mapping[str, str], current: str) -> bool:
    # Byte code differs between releases of Python, and its description between versions of this library;
    # then there is nothing to compare.
    return name == "code" and stored[name].split()[0] != current.split(maxsplit=1)[0]
