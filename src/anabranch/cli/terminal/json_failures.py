"""Failures as JSON: the document that `--json` prints for a command that failed."""

from __future__ import annotations

from typing import Any

from anabranch.errors import AnabranchError


def describe_failure(error: AnabranchError, code: int) -> dict[str, Any]:
    """Return an error and the exit code as a JSON document.

    >>> describe_failure(AnabranchError("nothing to read", got="no file"), 2)
    {'error': {'type': 'AnabranchError', 'what': 'nothing to read', 'got': 'no file'}, 'exit_code': 2}
    """
    about: dict[str, Any] = {"type": type(error).__name__}
    for name in ("what", "where", "expected", "got", "cure"):
        if getattr(error, name) is not None:
            about[name] = str(getattr(error, name))
    notes = [note.strip() for note in getattr(error, "__notes__", ())]
    return {"error": about | ({"notes": notes} if notes else {}), "exit_code": code}
