"""The layout of a run in speculative mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout, choose_layout


def check_mode(mode: str) -> None:
    """Raise if a mode does not exist."""
    if mode not in ("settled", "speculative"):
        raise InputError(
            f"{mode!r} is not a mode", expected="settled, which is the default, or speculative"
        )


def choose_speculative_layout(
    program: Program, shards: int, *, hot_keys: Iterable[Any] = ()
) -> Layout:
    """Return the best layout that can retract outputs.

    Either every shard folds its events in order, without a root; or leaves fold in parallel as in a
    settled run, if the root needs only the deltas of pending segments.
    """
    hot_keys = tuple(hot_keys)
    layout = choose_layout(program, shards)
    if layout.way == "forked":
        refused = _refuse_segments(program, layout)
        if refused is None:
            why = "speculative: pending events fold in parallel too, and only events after a change are run again"
            layout = choose_layout(program, shards, hot_keys=hot_keys)
            return replace(layout, reasons=(*layout.reasons, why))
        return _wire_one(refused)
    if layout.way == "shared":
        return _wire_one("a change of the shared state changes all shards at once")
    if hot_keys:
        why = "speculative: a hot key is not spread, since outputs may be retracted"
        return replace(layout, reasons=(*layout.reasons, why))
    return layout


def _wire_one(why: str) -> Layout:
    reason = (
        "speculative: one shard folds in order what could be folded in parallel, to retract outputs; "
        f"{why}"
    )
    return Layout("sequential", 1, (), frozenset(), (reason,))


def _refuse_segments(program: Program, layout: Layout) -> str | None:
    """Return why the root needs more than the deltas of pending segments, or None."""
    if program.lanes is not None:
        return "in lanes, the order changes the last bit of a sum"
    for event_type in program.event_types:
        if event_type in layout.deferring:
            return f"outputs of {event_type.__name__} depend on the state"
    kept_by = {program.state_type(name).shape.by for name in layout.leaves.values()} - {None}
    for event_type in program.event_types:
        if event_type in layout.cuts and kept_by & set(program.initial.handlers[event_type].enters):
            return f"{event_type.__name__} waits for one entry only"
    return None
