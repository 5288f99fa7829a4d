"""Hashes that are the same in every process, on every machine, in every release.

Python's own `hash` is salted per process; shards and lanes are stored in checkpoints and savepoints.
"""

from __future__ import annotations

import math
import numbers
import struct
import zlib
from collections.abc import Sequence
from typing import Any

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def hash_stably(value: Any) -> int:
    """Return a non-negative 32-bit hash; values that are equal as keys (1 and 1.0) have equal hashes.

    >>> hash_stably(1) == hash_stably(1.0) == hash_stably(True)
    True
    """
    if isinstance(value, int):
        return ((int(value) * _GOLDEN) & _MASK) >> 32
    if isinstance(value, str):
        return zlib.crc32(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return zlib.crc32(value)
    if isinstance(value, float):
        if value.is_integer():
            return hash_stably(int(value))
        # All NaNs are one key, whatever their bits.
        return zlib.crc32(struct.pack("<d", value if value == value else math.nan))  # noqa: PLR0124
    if isinstance(value, tuple):
        mixed = len(value)
        for part in value:
            mixed = (mixed * 31 + hash_stably(part)) & _MASK
        return hash_stably(mixed)
    if isinstance(value, frozenset):
        return hash_stably(tuple(sorted(map(hash_stably, value))))
    if isinstance(value, numbers.Integral):
        return hash_stably(int(value))
    if isinstance(value, numbers.Number) and not isinstance(value, complex):
        number: Any = value
        if float(number) == number:
            return hash_stably(float(number))
    return zlib.crc32(repr(value).encode())


def hash_texts(texts: Sequence[str]) -> list[int]:
    """Return `hash_stably` of each text, without a call of Python for each.

    >>> hash_texts(["a", "é"]) == [hash_stably("a"), hash_stably("é")]
    True
    """
    try:
        return list(map(zlib.crc32, map(str.encode, texts)))
    except UnicodeEncodeError:  # Half of a surrogate pair.
        return list(map(hash_stably, texts))


def hash_widely(value: Any) -> int:
    """Return a non-negative 63-bit hash with uniform distribution; equal keys have equal hashes.

    It costs more than `hash_stably`. Sketches need it, because they estimate from the hash values.

    >>> hash_widely(1) == hash_widely(1.0) != hash_widely("1")
    True
    """
    import hashlib  # Few programs need it, and the import takes time.

    digest = hashlib.blake2b(_spell(value), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _spell(value: Any) -> bytes:
    """Return unique bytes of a value that are no prefix of another value's bytes."""
    if isinstance(value, str):
        kind, text = b"s", value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        kind, text = b"b", value
    elif isinstance(value, tuple):
        kind, text = b"t", b"".join(map(_spell, value))
    elif isinstance(value, frozenset):
        kind, text = b"f", b"".join(sorted(map(_spell, value)))
    elif isinstance(value, numbers.Number) and not isinstance(value, complex):
        kind, text = b"n", _spell_number(value)
    else:
        kind, text = b"o", repr(value).encode("utf-8", "surrogatepass")
    return b"%s%d:%s" % (kind, len(text), text)


def _spell_number(number: Any) -> bytes:
    try:
        above, below = number.as_integer_ratio()
    except (AttributeError, OverflowError, ValueError):
        return repr(float(number)).encode()  # NaN and the infinities are no ratio.
    return b"%d/%d" % (above, below)
