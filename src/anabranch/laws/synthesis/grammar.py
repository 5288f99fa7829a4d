"""The grammar of forks and joins that synthesis searches: small pieces, one per part of a state.

A piece is text, so that the tried and the printed functions are the same. It defines how a part is
cut in two, how two parts are joined, and the identity of that join, if there is one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import islice, product
from typing import Any

from anabranch.model.values.maps import Map

MAX_INNER = 40
"""The most joins of two entries of a map that are tried."""

NUMBERS = (int, float, Decimal, Fraction)


@dataclass(frozen=True)
class Piece:
    """A fork and join of one part of a state. Each function returns Python text."""

    name: str
    left: Callable[[str], str]
    right: Callable[[str], str]
    join: Callable[[str, str], str]
    zero: str | None = None


@dataclass(frozen=True)
class Slot:
    """A part of a state that needs a piece, and the pieces that may fit."""

    path: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class StateParts:
    """The structure of a state: a record of parts, or one slot."""

    slot: Slot | None
    maker: str = ""
    steps: tuple[str, ...] = ()
    parts: tuple[StateParts, ...] = ()

    def slots(self) -> tuple[Slot, ...]:
        """Return the slots from left to right."""
        if self.slot is not None:
            return (self.slot,)
        return tuple(slot for part in self.parts for slot in part.slots())

    def write(self, pieces: Iterator[Piece], leaf: Callable[..., str | None], *names: str) -> str:
        """Return the code of a value, put together from the code of each piece."""
        if self.slot is not None:
            return str(leaf(next(pieces), *names))
        inner = [
            part.write(pieces, leaf, *(name + step for name in names))
            for step, part in zip(self.steps, self.parts, strict=True)
        ]
        tail = "," if not self.maker and len(inner) == 1 else ""
        return f"{self.maker}({', '.join(inner)}{tail})"


@dataclass(frozen=True)
class Pair:
    """A fork and join as text, with a zero if there is one."""

    fork: str
    join: str
    zero: str | None = None

    @property
    def code(self) -> str:
        """Return the arguments to paste into a program."""
        lines = [f"fork={self.fork},", f"join={self.join},"]
        return "\n".join([*lines, *([f"zero={self.zero},"] if self.zero is not None else [])])

    def build(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Return the functions that the text defines."""
        # The text consists of the pieces below and of literals that were parsed back.
        return dict(eval(f"dict({self.code})", {"Map": Map, **names}))  # noqa: S307


def write_pair(layout: StateParts, pieces: Sequence[Piece], *, zero: bool) -> Pair:
    """Return a fork and join with one piece for each slot."""
    left = layout.write(iter(pieces), lambda piece, s: piece.left(s), "s")
    whole = layout.write(iter(pieces), lambda _, s: s, "s")
    right = layout.write(iter(pieces), lambda piece, s: piece.right(s), "s")
    join = layout.write(iter(pieces), lambda piece, a, b: piece.join(a, b), "a", "b")
    none = layout.write(iter(pieces), lambda piece: piece.zero) if zero else None
    sides = ["s" if side == whole else side for side in (left, right)]
    return Pair(f"lambda s, left, right: ({sides[0]}, {sides[1]})", f"lambda a, b: {join}", none)


def read_layout(
    values: Sequence[Any],
    constants: Sequence[int],
    keys: Iterable[str],
    path: str = "s",
    depth: int = 1,
) -> StateParts:
    """Return the structure of these states; the first is the initial state of a run."""
    kind = type(values[0])
    names = _list_fields(values)
    if names is None:
        pieces = list_pieces(values, constants, tuple(keys), depth)
        return StateParts(Slot(path, tuple(pieces)))
    plain = kind is tuple
    steps = tuple(f"[{name}]" if plain else f".{name}" for name in names)
    columns = [[v[n] if plain else getattr(v, n) for v in values] for n in names]
    parts = tuple(
        read_layout(column, constants, keys, path + step, depth)
        for step, column in zip(steps, columns, strict=True)
    )
    return StateParts(None, "" if plain else kind.__name__, steps, parts)


def _list_fields(values: Sequence[Any]) -> Sequence[Any] | None:
    """Return the names or positions of the parts of a record, None for any other value."""
    kind = type(values[0])
    if any(type(value) is not kind for value in values):
        return None
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    if kind is tuple and values[0] and len({len(value) for value in values}) == 1:
        return range(len(values[0]))
    return None


def list_pieces(
    values: Sequence[Any], constants: Sequence[int], keys: tuple[str, ...], depth: int = 1
) -> Iterator[Piece]:
    """Yield the pieces that may fit a part with these values, the simplest first."""
    kinds = {type(value) for value in values}
    some = kinds - {type(None)}
    if kinds == {bool}:
        yield from _list_bools()
    elif some and some <= set(NUMBERS):
        yield from _list_numbers(values[0], constants) if None not in values else _list_optional()
    elif kinds <= {frozenset, set}:
        empty = "frozenset()" if frozenset in kinds else "set()"
        yield _piece("union", empty, lambda a, b: f"{a} | {b}")
        yield _keep("intersection", lambda a, b: f"{a} & {b}")
    elif kinds <= {dict, Map}:
        yield from _list_maps(values, constants, keys, depth)
    elif kinds in ({tuple}, {list}):
        yield from _list_sequences("()" if kinds == {tuple} else "[]", constants)
    yield _keep("copy", lambda a, b: a)


def _piece(name: str, empty: str, join: Callable[[str, str], str]) -> Piece:
    """Return a piece that keeps everything on the left, and starts the right from an empty value."""
    return Piece(name, lambda s: s, lambda _: empty, join, empty)


def _keep(name: str, join: Callable[[str, str], str], zero: str | None = None) -> Piece:
    """Return a piece that gives both sides the whole value."""
    return Piece(name, lambda s: s, lambda s: s, join, zero)


def _list_bools() -> Iterator[Piece]:
    yield _piece("or", "False", lambda a, b: f"({a} or {b})")
    yield _piece("and", "True", lambda a, b: f"({a} and {b})")
    yield _piece("xor", "False", lambda a, b: f"({a} != {b})")


def _list_numbers(start: Any, constants: Sequence[int]) -> Iterator[Piece]:
    first = write_literal(start)
    nothing = {int: "0", float: "0.0"}.get(type(start), f"{type(start).__name__}(0)")
    yield _piece("sum", nothing, lambda a, b: f"{a} + {b}")
    yield _keep("max", lambda a, b: f"max({a}, {b})", first)
    yield _keep("min", lambda a, b: f"min({a}, {b})", first)
    if first is not None and start != 0:
        yield _piece("sum from the start", first, lambda a, b: f"{a} + {b} - {first}")
    yield _piece("product", "1", lambda a, b: f"{a} * {b}")
    if type(start) is int:
        yield _piece("bitwise or", "0", lambda a, b: f"({a} | {b})")
        yield _piece("bitwise xor", "0", lambda a, b: f"({a} ^ {b})")
    for modulus in [value for value in constants if value > 1][:3]:
        yield _piece(f"sum modulo {modulus}", "0", _join_modulo(modulus))


def _join_modulo(modulus: int) -> Callable[[str, str], str]:
    return lambda a, b: f"({a} + {b}) % {modulus}"


def _list_optional() -> Iterator[Piece]:
    for name in ("max", "min"):
        yield _keep(name, _join_present(f"{name}({{a}}, {{b}})"), "None")
    yield _piece("sum", "None", _join_present("{a} + {b}"))
    yield _piece("the one that is not None", "None", _join_present("{a}"))


def _join_present(both: str) -> Callable[[str, str], str]:
    def join(a: str, b: str) -> str:
        return f"({b} if {a} is None else {a} if {b} is None else {both.format(a=a, b=b)})"

    return join


def _list_sequences(empty: str, constants: Sequence[int]) -> Iterator[Piece]:
    make = "tuple" if empty == "()" else "list"
    yield _piece("concatenation", empty, lambda a, b: f"{a} + {b}")
    yield _piece("sorted", empty, lambda a, b: f"{make}(sorted({a} + {b}))")
    for size in [value for value in constants if 0 < value <= 100][:3]:
        for order in (", reverse=True", ""):
            yield _piece(f"best {size}", empty, _join_best(make, size, order))


def _join_best(make: str, size: int, order: str) -> Callable[[str, str], str]:
    return lambda a, b: f"{make}(sorted({a} + {b}{order})[:{size}])"


def _list_maps(
    values: Sequence[Any], constants: Sequence[int], keys: tuple[str, ...], depth: int
) -> Iterator[Piece]:
    wrap = "Map({})" if isinstance(values[0], Map) else "{}"
    entries = [entry for value in values for entry in value.values()]
    if not entries:
        return
    layout = read_layout(entries, constants, (), "entry", depth + 1)
    choices = product(*(slot.pieces for slot in layout.slots()))
    for pieces in islice(choices, MAX_INNER):
        name = "by key, " + ", ".join(piece.name for piece in pieces)
        join = _join_maps(layout, pieces, wrap, f"k{depth}" if depth > 1 else "k")
        yield _piece(name, wrap.format("{}") if wrap == "{}" else "Map()", join)
        for field in keys:
            yield _cut_by_key(name, field, wrap, join)


def _join_maps(
    layout: StateParts, pieces: Sequence[Piece], wrap: str, key: str
) -> Callable[[str, str], str]:
    def join(a: str, b: str) -> str:
        both = layout.write(
            iter(pieces), lambda piece, x, y: piece.join(x, y), f"{a}[{key}]", f"{b}[{key}]"
        )
        shared = f"{{{key}: {both} for {key} in {a}.keys() & {b}.keys()}}"
        return wrap.replace("{}", f"{{**{a}, **{b}, **{shared}}}")

    return join


def _cut_by_key(name: str, field: str, wrap: str, join: Callable[[str, str], str]) -> Piece:
    def side(test: str) -> Callable[[str], str]:
        def cut(s: str) -> str:
            entries = f"{{k: v for k, v in {s}.items() if {test}left.has_value({field!r}, k)}}"
            return wrap.replace("{}", entries)

        return cut

    return Piece(f"{name}, cut by {field}", side(""), side("not "), join, wrap.replace("{}", "{}"))


def write_literal(value: Any) -> str | None:
    """Return Python text for a value, if its repr can be parsed back without any name."""
    try:
        again = eval(repr(value), {"__builtins__": {}})  # noqa: S307 - a repr, without any name
    except Exception:  # noqa: BLE001 - whatever a repr may raise when read
        return None
    return repr(value) if type(again) is type(value) and again == value else None
