"""JSON objects of many texts at once, with the results of `parse_object` for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from anabranch.sources.text_lines import MOST_DEEP

_decode = msgspec.json.Decoder().decode


def parse_objects(texts: Iterable[Any], most: int) -> list[dict[str, Any] | None]:
    """Return the object of each text, or None for a text that must be parsed by itself.

    What this parser accepts, it parses as Python's does: it refuses more, such as NaN, and numbers and halves of
    surrogate pairs that Python accepts. `most` limits the bytes of a text.

    >>> parse_objects([b'{"time": 1}', "[1]", b"{"], 100)
    [{'time': 1}, None, None]
    """
    given = list(texts)
    try:
        found = list(map(_decode, given))
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        found = list(map(_try_object, given))
    if set(map(type, found)) - {dict}:
        found = [value if type(value) is dict else None for value in found]
    # Only a text of so many brackets can be too deep, or of so many bytes too long.
    longest = min(2 * MOST_DEEP, most // 4)
    if max(map(_measure, given), default=0) > longest:
        for place, text in enumerate(given):
            if _measure(text) > longest and not _is_fine(text, most):
                found[place] = None
    return found


def _measure(text: Any) -> int:
    return len(text) if isinstance(text, bytes | str) else 0


def _is_fine(text: Any, most: int) -> bool:
    if len(text) * (1 if isinstance(text, bytes) else 4) > most:
        return False
    opening = (b"[", b"{") if isinstance(text, bytes) else ("[", "{")
    brackets: int = sum(map(text.count, opening))
    return brackets <= MOST_DEEP


def _try_object(text: Any) -> Any:
    try:
        return _decode(text)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return None
