"""Compare the windows of two programs: whether one can go on with those that the other has left open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from anabranch.model.program import Program
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state.evolution.verdicts import AUTOMATIC, REFUSED, SAME, Verdict

_FOLDS = "Several("
_RETRACTING = " retracting "


class _Meaning(NamedTuple):
    """What windows mean, with what they fold apart: how they are cut before it, how they are read after."""

    before: str
    folds: dict[str, str]
    after: str


def judge_windows(fingerprint: Mapping[str, str], program: Program) -> list[Verdict]:
    """Return what becomes of windows that are open, by the fingerprint of what made them.

    Aggregates that are new begin with what comes from now on. `anabranch state diff` and a restore both
    ask here.
    """
    old, new = fingerprint.get("windows", ""), fingerprint_program(program)["windows"]
    if old == new:
        return [Verdict(SAME, "windows", old)] if old else []
    was, now = _read(old), _read(new)
    alike = was is not None and now is not None and _is_grown(was, now)
    if not alike or _RETRACTING in new:
        what = f"were {old or 'none'}, and are {new or 'none'}"
        cure = "go on with the windows that are open, or start anew"
        return [Verdict(REFUSED, "windows", what, cure)]
    assert was is not None
    assert now is not None
    added = [name for name in now.folds if name not in was.folds]
    if fingerprint.get("state") == "in columns":
        what = "is new, and windows that are open are kept in columns, which hold none of it"
        cure = "aggregate it in a program of its own, or start anew"
        return [Verdict(REFUSED, f"windows, {name}", what, cure) for name in added]
    what = "is new: in a window that is open it begins with what comes from now on"
    return [Verdict(AUTOMATIC, f"windows, {name}", what) for name in added]


def _is_grown(was: _Meaning, now: _Meaning) -> bool:
    """Say whether windows are cut and read as before, and fold what they did, and more."""
    kept = {name: fold for name, fold in now.folds.items() if name in was.folds}
    return (was.before, was.after) == (now.before, now.after) and kept == was.folds


def _read(meaning: str) -> _Meaning | None:
    """Take a text apart that `Panes.meaning` made; None if windows hold a fold of a user's own."""
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
    """Return what commas separate, up to the bracket that closes; with the last, where it ended."""
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
