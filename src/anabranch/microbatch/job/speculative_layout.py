"""The layout of a run in speculative mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout, choose_layout


def check_mode(mode: str) -> None:
    """Refuse what is no mode."""
    if mode not in ("settled", "speculative"):
        raise InputError(
            f"{mode!r} is no mode", expected="settled, which is the default, or speculative"
        )


def choose_speculative_layout(program: Program, shards: int, hot: Iterable[Any] = ()) -> Layout:
    """Choose the best way in which what was said can be taken back.

    Either every shard folds its events in order, without a root; or leaves fold apart as they do in a
    settled run, if the deltas of pending segments are all that a root has to know.
    """
    hot = tuple(hot)
    wiring = choose_layout(program, shards)
    if wiring.way == "forked":
        refused = _refuse_segments(program, wiring)
        if refused is None:
            why = "speculative: pending events fold apart too, and only what follows a change is run again"
            wiring = choose_layout(program, shards, hot)
            return replace(wiring, reasons=(*wiring.reasons, why))
        return _wire_one(refused)
    if wiring.way == "shared":
        return _wire_one("what all see changes everywhere at once")
    if hot:
        why = "speculative: a hot key is not spread, since what is said may be taken back"
        return replace(wiring, reasons=(*wiring.reasons, why))
    return wiring


def _wire_one(why: str) -> Layout:
    reason = (
        "speculative: one shard folds in order what would fold apart, to take back what it said; "
        f"{why}"
    )
    return Layout("sequential", 1, (), frozenset(), (reason,))


def _refuse_segments(program: Program, wiring: Layout) -> str | None:
    """Say why the deltas of pending segments are not all that a root has to know, or None."""
    if program.lanes is not None:
        return "in lanes, order shows in the last bit"
    for tag in program.tags:
        if tag in wiring.speaking:
            return f"what {tag.__name__} says depends on the state"
    kept_by = {program.state_type(name).shape.by for name in wiring.leaves.values()} - {None}
    for tag in program.tags:
        if tag in wiring.cuts and kept_by & set(program.initial.handlers[tag].enters):
            return f"{tag.__name__} waits for one entry only"
    return None
