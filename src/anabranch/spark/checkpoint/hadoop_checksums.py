"""Checksums that Hadoop writes beside each file of a checkpoint on a local disk, in `.NAME.crc`.

Hadoop does not read a file whose checksums are wrong, but reads a file without checksums. A file of checksums
is a magic word, the number of bytes per checksum, and a CRC-32 for each block of so many bytes.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_HEADER = struct.Struct(">4sI")
_MAGIC = b"crc\0"


def name_sums(file: Path) -> Path:
    """Return the path of a file's checksums, which need not exist."""
    return file.with_name(f".{file.name}.crc")


def sums_fit(file: Path) -> bool:
    """Return whether a file has no checksums, or the right ones."""
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
