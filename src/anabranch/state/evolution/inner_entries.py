"""Inner entries: flattening nested maps to their innermost entries, and the reverse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.model.values.maps import Map
from anabranch.state.evolution.verdicts import EvolutionError

Leaf = tuple[tuple[Any, ...], Any]
"""The keys of an entry, outermost first, and the entry."""


def flatten(state: Any, depth: int, *, ordered: bool) -> Iterable[Leaf]:
    """Return the innermost entries of nested maps, each with its keys.

    They are in the order of keys only if `ordered`, which costs a sort.
    """
    if depth == 0:
        return [((), state)]
    return [
        ((key, *path), leaf)
        for key, entry in (state if ordered else state.entries()).items()
        for path, leaf in flatten(entry, depth - 1, ordered=ordered)
    ]


def nest(leaves: list[Leaf], depth: int, join: Any) -> Any:
    """Undo `flatten`; entries with the same key are joined, in their order."""
    found: dict[tuple[Any, ...], Any] = {}
    for path, leaf in leaves:
        if path in found and join is None:
            raise EvolutionError(
                f"two entries get the same key {path[0] if len(path) == 1 else path!r}",
                expected="a different key for each entry, or a state with a join",
                got=f"{found[path]!r:.60} and {leaf!r:.60}",
                cure="another Rekey, or a join",
            )
        found[path] = join(found[path], leaf) if path in found else leaf
    return _nest(found, depth)


def _nest(leaves: dict[tuple[Any, ...], Any], depth: int) -> Any:
    if depth == 0:
        return leaves[()]
    if depth == 1:
        return Map({path[0]: leaf for path, leaf in leaves.items()})
    groups: dict[Any, dict[tuple[Any, ...], Any]] = {}
    for path, leaf in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = leaf
    return Map({key: _nest(group, depth - 1) for key, group in groups.items()})
