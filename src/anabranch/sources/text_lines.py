"""Lines of text: line ends, the encoding, and JSON objects.

A line feed ends a line; a carriage return before it belongs to the line end. Other carriage returns do not.
Text is UTF-8. A byte order mark at the start of a file, or of a line of JSON, is skipped.
"""

from __future__ import annotations

import json
import re
from typing import Any

BOM = b"\xef\xbb\xbf"

MOST_DEEP = 200
"""Limit of the nesting of arrays and objects. Python's own limit depends on the caller's stack."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def trim_end(line: bytes) -> bytes:
    """Return a line without its line end."""
    return line.rstrip(b"\r\n")


def is_blank(text: str | bytes) -> bool:
    """Return whether a line of JSON is blank, and so skipped and not rejected."""
    if isinstance(text, bytes):
        return not text.removeprefix(BOM).strip()
    return not text.removeprefix("\ufeff").strip()


def show_bytes(data: bytes) -> str:
    r"""Return bytes as a text that can be encoded as UTF-8; an invalid byte is shown as `\xff`."""
    return data.decode("utf-8", "backslashreplace")


def describe_byte(error: UnicodeDecodeError) -> str:
    """Return the reason why bytes can't be decoded."""
    return f"not UTF-8: byte {error.start + 1} is {error.object[error.start]:#x}"


def parse_object(text: Any, most: int | None = None) -> dict[str, Any] | str:
    """Return the columns of a JSON object, or the reason why it can't be parsed; `most` limits its bytes.

    >>> parse_object(b'{"time": 1}'), parse_object("[1]")
    ({'time': 1}, 'not a JSON object but an array (each line is one object): [1]')
    """
    if not isinstance(text, str | bytes):
        return f"expected a JSON object, got {type(text).__name__}"
    if most is not None:
        size = len(text) if isinstance(text, bytes) or text.isascii() else len(_encode(text))
        if size > most:
            return f"the text takes {size:,} bytes; the limit is {most:,} (max_record_bytes)"
    try:
        # Python might decode bytes as UTF-16; lines of JSON are UTF-8.
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        decoded = decoded.removeprefix("\ufeff") if isinstance(text, str) else decoded
        if _is_deep(decoded):
            return f"not JSON: more than {MOST_DEEP} arrays and objects inside each other"
        columns = json.loads(decoded)
    except UnicodeDecodeError as error:
        return describe_byte(error)
    except (ValueError, RecursionError) as error:
        if decoded.strip() == "[":
            return "not JSON: an array begins here; each line is one object"
        return f"not JSON: {error}"
    if isinstance(columns, dict):
        return columns
    shown = decoded.strip()[:60]
    if isinstance(columns, list):
        return f"not a JSON object but an array (each line is one object): {shown}"
    return f"not a JSON object: {shown}"


def _is_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MOST_DEEP:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > MOST_DEEP:
                return True
        elif match[0] in "]}":
            depth -= 1
    return False


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
