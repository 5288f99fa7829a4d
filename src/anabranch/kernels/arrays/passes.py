"""Compiled passes over columns that NumPy has no fast function for: order, radix sort, grouping.

Only `ordering` imports this module, and only where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio (Knuth).

_GIVEN = types.Array(types.int64, 1, "C", readonly=True)
_UINT64S = types.Array(types.uint64, 1, "C")
_INT64S = types.Array(types.int64, 1, "C")
_PAIR = types.Tuple((_INT64S, _INT64S))


@njit(types.int64(_GIVEN, _GIVEN, _GIVEN, _GIVEN), cache=True)
def count_descents(time: Any, rank: Any, channel: Any, seq: Any) -> int:
    """Return the number of events that are less than the event in front of them."""
    descents = 0
    for i in range(1, len(time)):
        if time[i] > time[i - 1]:
            continue
        if time[i] < time[i - 1]:
            descents += 1
        elif rank[i] != rank[i - 1]:
            descents += rank[i] < rank[i - 1]
        elif channel[i] != channel[i - 1]:
            descents += channel[i] < channel[i - 1]
        else:
            descents += seq[i] < seq[i - 1]
    return descents


@njit(types.boolean(_GIVEN, _GIVEN, types.int64, types.int64), cache=True)
def rises_within(channel: Any, seq: Any, low: int, count: int) -> bool:
    """Return whether the sequence of each channel never falls, whatever lies between its events."""
    last = np.full(count, np.iinfo(np.int64).min, np.int64)
    for i in range(len(seq)):
        if seq[i] < last[channel[i] - low]:
            return False
        last[channel[i] - low] = seq[i]
    return True


@njit(_UINT64S(_UINT64S, types.int64, types.int64), cache=True)
def radix_sort(keys: Any, low: int, high: int) -> Any:
    """Return keys sorted by their bits from `low` to `high`; `keys` is overwritten."""
    near, far = keys, np.empty_like(keys)
    starts = np.empty(_DIGITS, np.int64)
    mask = np.uint64(_DIGITS - 1)
    for bottom in range(low, high, _DIGIT_BITS):
        shift = np.uint64(bottom)
        starts[:] = 0
        for i in range(len(near)):
            starts[np.int64((near[i] >> shift) & mask)] += 1
        total = 0
        for digit in range(_DIGITS):
            count = starts[digit]
            starts[digit] = total
            total += count
        for i in range(len(near)):
            key = near[i]
            bucket = np.int64((key >> shift) & mask)
            far[starts[bucket]] = key
            starts[bucket] += 1
        near, far = far, near
    return near


@njit(_PAIR(_GIVEN, types.int64), cache=True)
def group_codes(codes: Any, limit: int) -> Any:
    """Assign numbers to codes below a limit in the order of their first occurrence."""
    slots = np.empty(len(codes), np.int64)
    table = np.full(limit, -1, np.int64)
    firsts = np.empty(min(limit, len(codes)), np.int64)
    count = 0
    for i in range(len(codes)):
        slot = table[codes[i]]
        if slot < 0:
            slot = count
            table[codes[i]] = slot
            firsts[slot] = i
            count += 1
        slots[i] = slot
    return slots, firsts[:count].copy()


@njit(_PAIR(_GIVEN, _INT64S, types.int64, types.int64), cache=True)
def _widen(keys: Any, firsts: Any, count: int, bits: int) -> Any:
    table = np.full(2 << bits, -1, np.int64)
    wider = np.empty(1 << bits, np.int64)
    wider[:count] = firsts[:count]
    for slot in range(count):
        key = keys[firsts[slot]]
        place = np.int64((np.uint64(key) * _SPREAD) >> np.uint64(64 - bits))
        while table[2 * place + 1] >= 0:
            place = (place + 1) & ((1 << bits) - 1)
        table[2 * place] = key
        table[2 * place + 1] = slot
    return table, wider


@njit(_PAIR(_GIVEN), cache=True)
def group_keys(keys: Any) -> Any:
    """Assign numbers to keys in the order of their first occurrence, by open addressing."""
    slots = np.empty(len(keys), np.int64)
    bits = 10
    # A key and its slot are side by side, in one cache line.
    table = np.full(2 << bits, -1, np.int64)
    firsts = np.empty(1 << bits, np.int64)
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        mask = (1 << bits) - 1
        place = np.int64((np.uint64(key) * _SPREAD) >> np.uint64(64 - bits))
        while table[2 * place + 1] >= 0 and table[2 * place] != key:
            place = (place + 1) & mask
        slot = table[2 * place + 1]
        if slot < 0:
            slot = count
            table[2 * place] = key
            table[2 * place + 1] = slot
            firsts[slot] = i
            count += 1
            if 2 * count > mask:
                bits += 2
                table, firsts = _widen(keys, firsts, count, bits)
        slots[i] = slot
    return slots, firsts[:count].copy()
