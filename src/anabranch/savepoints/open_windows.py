"""Open windows: whether a program can continue the open windows of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from anabranch.model.program import Program
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state.evolution.verdicts import AUTOMATIC, REFUSED, SAME, Verdict

_FOLDS = "Several("
_RETRACTING = " retracting "


class _Meaning(NamedTuple):
    """The description of a windowing: the text before its aggregates, the aggregates, and the text after."""

    before: str
    folds: dict[str, str]
    after: str


def judge_windows(fingerprint: Mapping[str, str], program: Program) -> list[Verdict]:
    """Return the verdicts on open windows, given the fingerprint of the program that made them.

    New aggregates start with the events from now on. `anabranch state diff` and a restore both use this.
    """
    old, new = fingerprint.get("windows", ""), fingerprint_program(program)["windows"]
    if old == new:
        return [Verdict(SAME, "windows", old)] if old else []
    was, now = _read(old), _read(new)
    alike = was is not None and now is not None and _is_grown(was, now)
    if not alike or _RETRACTING in new:
        what = f"were {old or 'none'}, and are {new or 'none'}"
        cure = "keep the windows as they were, or start again"
        return [Verdict(REFUSED, "windows", what, cure)]
    assert was is not None
    assert now is not None
    added = [name for name in now.folds if name not in was.folds]
    if fingerprint.get("state") == "in columns":
        what = "is new, and open windows are kept in columns, which do not have it"
        cure = "aggregate it in a separate program, or start again"
        return [Verdict(REFUSED, f"windows, {name}", what, cure) for name in added]
    what = "is new: in open windows it starts with the events from now on"
    return [Verdict(AUTOMATIC, f"windows, {name}", what) for name in added]


def _is_grown(was: _Meaning, now: _Meaning) -> bool:
    """Return whether windows are the same as before, with all previous aggregates and perhaps more."""
    kept = {name: fold for name, fold in now.folds.items() if name in was.folds}
    return (was.before, was.after) == (now.before, now.after) and kept == was.folds


def _read(meaning: str) -> _Meaning | None:
    """Parse a text of `Panes.meaning`; return None if the fold is a user's own."""
    before, found, rest = meaning.partition(_FOLDS)
    if not found:
        return None
    folds: dict[str, str] = {}
    for part, end in _split(rest):
        name, _, fold = part.strip().partition("=")
        folds[name] = fold
        if end is not None:
            return _Meaning(before, folds, rest[end:])
    return None


def _split(text: str) -> list[tuple[str, int | None]]:
    """Return the parts between commas, up to the closing bracket; the last one with its end."""
    parts: list[tuple[str, int | None]] = []
    depth, start, quote = 0, 0, ""
    place = 0
    while place < len(text):
        sign = text[place]
        if quote:
            place += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}" and depth:
            depth -= 1
        elif sign == ")":
            return [*parts, (text[start:place], place + 1)]
        elif sign == "," and not depth:
            parts.append((text[start:place], None))
            start = place + 1
        place += 1
    return parts
