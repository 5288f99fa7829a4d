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


def choose_speculative_layout(
    program: Program, shards: int, hot_keys: Iterable[Any] = ()
) -> Layout:
    """Choose the best way in which what was said can be taken back.

    Either every shard folds its events in order, without a root; or leaves fold apart as they do in a
    settled run, if the deltas of pending segments are all that a root has to know.
    """
    hot_keys = tuple(hot_keys)
    layout = choose_layout(program, shards)
    if layout.way == "forked":
        refused = _refuse_segments(program, layout)
        if refused is None:
            why = "speculative: pending events fold apart too, and only what follows a change is run again"
            layout = choose_layout(program, shards, hot_keys)
            return replace(layout, reasons=(*layout.reasons, why))
        return _wire_one(refused)
    if layout.way == "shared":
        return _wire_one("what all see changes everywhere at once")
    if hot_keys:
        why = "speculative: a hot key is not spread, since what is said may be taken back"
        return replace(layout, reasons=(*layout.reasons, why))
    return layout


def _wire_one(why: str) -> Layout:
    reason = (
        "speculative: one shard folds in order what would fold apart, to take back what it said; "
        f"{why}"
    )
    return Layout("sequential", 1, (), frozenset(), (reason,))


def _refuse_segments(program: Program, layout: Layout) -> str | None:
    """Say why the deltas of pending segments are not all that a root has to know, or None."""
    if program.lanes is not None:
        return "in lanes, order shows in the last bit"
    for event_type in program.event_types:
        if event_type in layout.deferring:
            return f"what {event_type.__name__} says depends on the state"
    kept_by = {program.state_type(name).shape.by for name in layout.leaves.values()} - {None}
    for event_type in program.event_types:
        if event_type in layout.cuts and kept_by & set(program.initial.handlers[event_type].enters):
            return f"{event_type.__name__} waits for one entry only"
    return None
