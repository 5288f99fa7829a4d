"""The persistent map: the state of programs with one entry per key."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from anabranch.model.values.keys import plain_key, plain_keys

K = TypeVar("K")
V = TypeVar("V")


class _Absent:
    """The old value of a key that an older version did not have."""


_ABSENT = _Absent()

_CHAIN = 1000
"""The number of linked versions after which a new version copies the entries."""


class Map(Mapping[K, V], Generic[K, V]):
    """An immutable map; `set` and `remove` return a new one.

    The newest version owns a plain dict, and an older version has only its difference to a newer one
    (Baker's rerooting). So a fold costs one dict assignment per change, not a copy, and an old version
    that is still referenced, such as a snapshot, stays readable. From time to time a new version copies
    the entries, so that a reference to an old version does not keep all later ones in memory.

    Iteration is in the order of the keys, not of insertion: in a map that was joined from several parts,
    insertion order is undefined. NaN is one key, and -0.0 is the key 0.0.

    >>> one = Map({"a": 1}); two = one.set("a", 2)
    >>> one["a"], two["a"]
    (1, 2)
    """

    __slots__ = ("_age", "_entries", "_key", "_newer", "_old")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._entries: dict[K, V] | None = plain_keys(dict(entries))
        self._newer: Map[K, V] | None = None
        self._key: K | None = None
        self._old: V | _Absent = _ABSENT
        self._age = 0

    def set(self, key: K, value: V) -> Map[K, V]:
        """Return this map with one entry added or replaced."""
        return self._follow(plain_key(key), value)

    def remove(self, key: K) -> Map[K, V]:
        """Return this map without the entry of `key`, if there is one."""
        return self._follow(plain_key(key), _ABSENT) if key in self else self

    def _follow(self, key: K, value: V | _Absent) -> Map[K, V]:
        entries = self._read()
        if self._age > max(_CHAIN, len(entries)):
            # One copy per as many changes as there are entries costs a constant per change.
            copied = dict(entries)
            _assign(copied, key, value)
            return Map(copied)
        newer: Map[K, V] = Map.__new__(Map)
        newer._age = self._age + 1
        newer._newer, newer._key, newer._old, newer._entries = None, None, _ABSENT, entries
        old: V | _Absent = entries.get(key, _ABSENT)
        self._entries, self._newer, self._key, self._old = None, newer, key, old
        _assign(entries, key, value)
        return newer

    def _read(self) -> dict[K, V]:
        if self._entries is None:
            self._reroot()
        assert self._entries is not None
        return self._entries

    def _reroot(self) -> None:
        # Find the version that owns the dict, then reverse the chain, one link at a time.
        chain: list[Map[K, V]] = [self]
        while chain[-1]._entries is None:
            newer = chain[-1]._newer
            assert newer is not None
            chain.append(newer)
        while len(chain) > 1:
            owner, older = chain.pop(), chain[-1]
            entries, key, old = owner._entries, older._key, older._old
            assert entries is not None
            owner._entries, owner._newer, owner._key = None, older, key
            owner._old = entries.get(key, _ABSENT)  # type: ignore[arg-type]
            _assign(entries, key, old)  # type: ignore[misc]  # key is set in every older version
            older._entries, older._newer = entries, None

    def __getitem__(self, key: K) -> V:
        return self._read()[plain_key(key)]

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        """Return the entry of `key`, or `default`."""
        return self._read().get(plain_key(key), default)

    def __contains__(self, key: object) -> bool:
        return plain_key(key) in self._read()

    def __iter__(self) -> Iterator[K]:
        return iter(_sort(self._read()))

    def entries(self) -> dict[K, V]:
        """Return a dict of the entries, unordered: cheaper than iteration, which sorts the keys."""
        return dict(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Map):
            return self is other or dict(self._read()) == dict(other._read())
        return self._read() == other if isinstance(other, dict) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, object]) -> Map[K, V]:
        # Entry by entry: versions share one dict, and `memo` would use one copy for all of them.
        return Map(
            {copy.deepcopy(k, memo): copy.deepcopy(v, memo) for k, v in self._read().items()}
        )

    def __reduce__(self) -> tuple[type[Map[K, V]], tuple[dict[K, V]]]:
        return Map, (dict(self._read()),)

    def __repr__(self) -> str:
        return f"Map({dict(self)!r})"


def _sort(keys: Iterable[K]) -> list[K]:
    found = list(keys)
    if not any(isinstance(key, frozenset) for key in found[:1]):
        try:
            return sorted(found)  # type: ignore[type-var]
        except (TypeError, ArithmeticError):
            pass  # Keys of several types, or without an order, such as a decimal NaN.
    return sorted(found, key=lambda key: (type(key).__name__, repr(key)))


def _assign(entries: dict[K, V], key: K, value: V | _Absent) -> None:
    if isinstance(value, _Absent):
        entries.pop(key, None)
    else:
        entries[key] = value
