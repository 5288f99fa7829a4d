"""Estimates of the width of a text without its font.

Widths are those of common sans-serif fonts, rounded up, so that a text that fits here fits there.
"""

from __future__ import annotations

_NARROW = frozenset("iljtfrI.,:;'|!()[]{}/ \u00b7\u2013-")
_WIDE = frozenset("mwMW@%\u2014\u2026\u00d7\u2195\u25c6<>+=")
_SLACK = 1.06


def estimate_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the approximate width of a text, in pixels, at a font size.

    >>> estimate_width("ill", 10) < estimate_width("mow", 10)
    True
    """
    em = sum(_estimate_character(character) for character in text)
    return em * size * _SLACK * (1.07 if bold else 1.0)


def _estimate_character(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.92
    if ord(character) > 0x2E80:  # Ideographs and emoji fill their square.
        return 1.05
    return 0.68 if character.isupper() else 0.57


def shorten(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Return a text cut to a width, with an ellipsis in place of the rest.

    >>> shorten("kitchen", 100, 12), shorten("a thermometer in the kitchen", 100, 12)
    ('kitchen', 'a thermomete…')
    """
    if estimate_width(text, size, bold=bold) <= width:
        return text
    kept = text
    while kept and estimate_width(kept + "…", size, bold=bold) > width:
        kept = kept[:-1]
    return kept.rstrip(" ,") + "…"
