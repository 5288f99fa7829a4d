"""Partition keys: the key of each shard in Spark, chosen so that all partitions get equal shares.

Spark chooses the partition of a group by the hash of its key, so that of four shards numbered 0 to
3 one of two partitions would get three. So each shard has a key whose hash is its own number, modulo the
number of shards: then every number of partitions that divides the number of shards gets equally many.
"""

from __future__ import annotations

from functools import cache

_SEED = 42
_MASK = (1 << 32) - 1


@cache
def find_keys(shards: int) -> tuple[int, ...]:
    """Return the key of each shard.

    >>> find_keys(4)
    (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < shards:
        found.setdefault(hash_int(key) % shards, key)
        key += 1
    return tuple(found[number] for number in range(shards))


@cache
def find_numbers(shards: int) -> dict[int, int]:
    """Return the shard of each key."""
    return {key: number for number, key in enumerate(find_keys(shards))}


def hash_int(value: int) -> int:
    """Return Spark's hash of an int (Murmur3, 32 bits, signed), before any modulo."""
    mixed = value & _MASK
    mixed = mixed * 0xCC9E2D51 & _MASK
    mixed = (mixed << 15 | mixed >> 17) & _MASK
    mixed = mixed * 0x1B873593 & _MASK
    state = _SEED ^ mixed
    state = (state << 13 | state >> 19) & _MASK
    state = (state * 5 + 0xE6546B64) & _MASK
    state ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ state >> shift) * factor & _MASK
    return state - (1 << 32) if state >> 31 else state
