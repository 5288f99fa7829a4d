"""Sums: what Hadoop notes beside each file of a checkpoint on a local disk, in `.NAME.crc`.

It refuses to read a file whose sums are not right, wherever it comes to read it, and reads one without sums. A
file of sums is a magic word, how many bytes a sum is over, and a CRC-32 for each so many bytes.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_HEADER = struct.Struct(">4sI")
_MAGIC = b"crc\0"


def name_sums(file: Path) -> Path:
    """Return where the sums of a file are, if it has any."""
    return file.with_name(f".{file.name}.crc")


def sums_fit(file: Path) -> bool:
    """Say whether a file has no sums, or the right ones."""
    try:
        found = name_sums(file).read_bytes()
    except FileNotFoundError:
        return True
    try:
        magic, step = _HEADER.unpack_from(found)
    except struct.error:
        return False
    if magic != _MAGIC or not step:
        return False
    data = file.read_bytes()
    parts = (data[start : start + step] for start in range(0, len(data), step))
    return found[_HEADER.size :] == b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
