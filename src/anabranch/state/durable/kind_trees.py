"""Kind trees: descriptions of values with all their parts, and the least kind that covers two of them.

A kind has enough information to write values as columns and to read them back exactly. Values that fit no
column are `ANY`, bytes of the codec. `UNKNOWN` is the kind without values so far: of an empty list's items,
or of a state whose program does not declare its content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.errors import AnabranchError

VERSION = 1
"""The version of the JSON form of kinds and schemas."""


class KindError(AnabranchError, ValueError):
    """A stored description of values can't be read."""


@dataclass(frozen=True)
class Plain:
    """A kind without parts, identified by its name."""

    name: str


BOOL, INT, BIGINT, FLOAT = Plain("bool"), Plain("int"), Plain("bigint"), Plain("float")
STR, BYTES, NONE, FRACTION = Plain("str"), Plain("bytes"), Plain("none"), Plain("fraction")
DATE, TIME, TIMEDELTA, UUID = Plain("date"), Plain("time"), Plain("timedelta"), Plain("uuid")
NUMBER = Plain("number")
"""A number of any kind: the kind of a state that starts from a number, such as a sum."""
ANY = Plain("any")
"""Any value that the codec can write."""
UNKNOWN = Plain("unknown")
"""No values yet, so it may become any kind."""

_PLAIN = (BOOL, INT, BIGINT, FLOAT, STR, BYTES, NONE, FRACTION, DATE, TIME, TIMEDELTA, UUID, NUMBER)
_PLAINS = {kind.name: kind for kind in (*_PLAIN, ANY, UNKNOWN)}


@dataclass(frozen=True)
class DecimalKind:
    """Decimals, all with the exponent `-scale` and at most 38 digits; any decimals if `scale` is None."""

    scale: int | None = None


@dataclass(frozen=True)
class DatetimeKind:
    """Datetimes, all of one zone: "" for none, "+02:00", or a name; of any zone if it is None."""

    zone: str | None = None


@dataclass(frozen=True)
class EnumKind:
    """Members of an enum of the program, by their names."""

    name: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """A `NamedTuple` or dataclass of the program; fields in order."""

    name: str
    fields: tuple[tuple[str, Kind], ...]

    def get(self, field: str) -> Kind | None:
        """Return the kind of a field, or None if there is no such field."""
        return dict(self.fields).get(field)


@dataclass(frozen=True)
class Fixed:
    """Tuples of one length, with a kind for each item."""

    items: tuple[Kind, ...]


@dataclass(frozen=True)
class Sequence:
    """Lists, tuples, sets or frozensets (`of`), all of whose items are of one kind."""

    of: str
    item: Kind


@dataclass(frozen=True)
class Mapped:
    """Dicts or `Map`s (`of`)."""

    of: str
    key: Kind
    value: Kind


@dataclass(frozen=True)
class Array:
    """NumPy arrays of one dtype and any shape."""

    dtype: str


@dataclass(frozen=True)
class Option:
    """A value of a kind, or None."""

    kind: Kind


Kind = (
    Plain
    | DecimalKind
    | DatetimeKind
    | EnumKind
    | Record
    | Fixed
    | Sequence
    | Mapped
    | Array
    | Option
)


def make_optional(kind: Kind) -> Kind:
    """Return the kind that also covers None."""
    if kind in (ANY, NONE) or isinstance(kind, Option):
        return kind
    return NONE if kind == UNKNOWN else Option(kind)


def unify_all(kinds: Iterable[Kind]) -> Kind:
    """Return the least kind that covers all kinds; UNKNOWN if there are none."""
    whole: Kind = UNKNOWN
    for kind in kinds:
        whole = unify(whole, kind)
    return whole


def unify(a: Kind, b: Kind) -> Kind:
    """Return the least kind that covers all values of two kinds: ANY if no column can."""
    if b in (a, UNKNOWN):
        return a
    if a == UNKNOWN:
        return b
    if NONE in (a, b) or isinstance(a, Option) or isinstance(b, Option):
        return make_optional(unify(_strip(a), _strip(b)))
    return _unify_alike(a, b)


def _strip(kind: Kind) -> Kind:
    if kind == NONE:
        return UNKNOWN
    return kind.kind if isinstance(kind, Option) else kind


def _unify_alike(a: Kind, b: Kind) -> Kind:
    match a, b:
        case (DecimalKind(), DecimalKind()):
            return DecimalKind()
        case (DatetimeKind(), DatetimeKind()):
            return DatetimeKind()
        case (EnumKind(), EnumKind()) if a.name == b.name:
            return EnumKind(a.name, (*a.members, *(m for m in b.members if m not in a.members)))
        case (Record(), Record()) if a.name == b.name and _names(a) == _names(b):
            pairs = zip(a.fields, b.fields, strict=True)
            return Record(a.name, tuple((name, unify(x, y)) for (name, x), (_, y) in pairs))
        case (Fixed(), Fixed()) if len(a.items) == len(b.items):
            return Fixed(tuple(map(unify, a.items, b.items)))
        case (Sequence(), Sequence()) if a.of == b.of:
            return Sequence(a.of, unify(a.item, b.item))
        case (Mapped(), Mapped()) if a.of == b.of:
            return Mapped(a.of, unify(a.key, b.key), unify(a.value, b.value))
    if {a, b} == {INT, BIGINT}:
        return BIGINT
    if NUMBER in (a, b) and all(is_number(kind) for kind in (a, b)):
        return NUMBER
    if isinstance(a, Fixed) or isinstance(b, Fixed):
        return _unify_tuples(a, b)
    return ANY


def _unify_tuples(a: Kind, b: Kind) -> Kind:
    items: list[Kind] = []
    for kind in (a, b):
        if isinstance(kind, Fixed):
            items += kind.items
        elif isinstance(kind, Sequence) and kind.of == "tuple":
            items.append(kind.item)
        else:
            return ANY
    return Sequence("tuple", unify_all(items))


def align(found: Kind, emitted: Kind) -> Kind:
    """Return a kind that was found, with sequences for tuples that a program declares of any length."""
    match found, emitted:
        case (Fixed(items), Sequence("tuple", item)):
            return align(Sequence("tuple", unify_all(items)), Sequence("tuple", item))
        case (Option(inner), Option(other)):
            return Option(align(inner, other))
        case (_, Option(other)):
            return align(found, other)
        case (Record(name, fields), Record()):
            pairs = ((field, align(kind, emitted.get(field) or kind)) for field, kind in fields)
            return Record(name, tuple(pairs))
        case (Fixed(items), Fixed(others)) if len(items) == len(others):
            return Fixed(tuple(map(align, items, others)))
        case (Sequence(of, inner), Sequence(_, other)):
            return Sequence(of, align(inner, other))
        case (Mapped(of, key, value), Mapped(_, a, b)):
            return Mapped(of, align(key, a), align(value, b))
    return found


def is_number(kind: Kind) -> bool:
    """Return whether a kind is of numbers that can be added to each other."""
    return kind in (INT, BIGINT, FLOAT, FRACTION, NUMBER) or isinstance(kind, DecimalKind)


def _names(record: Record) -> list[str]:
    return [name for name, _ in record.fields]


def write_kind(kind: Kind) -> Any:
    """Return a kind as JSON: a name, or a list that begins with one."""
    match kind:
        case Plain(name):
            return name
        case DecimalKind(scale):
            return ["decimal", scale]
        case DatetimeKind(zone):
            return ["datetime", zone]
        case EnumKind(name, members):
            return ["enum", name, list(members)]
        case Record(name, fields):
            return ["record", name, [[field, write_kind(inner)] for field, inner in fields]]
        case Fixed(items):
            return ["tuple", [write_kind(item) for item in items]]
        case Sequence(of, item):
            return ["sequence", of, write_kind(item)]
        case Mapped(of, key, value):
            return ["mapping", of, write_kind(key), write_kind(value)]
        case Array(dtype):
            return ["array", dtype]
        case Option(inner):
            return ["option", write_kind(inner)]


def read_kind(data: Any) -> Kind:
    """Return the kind in JSON values; raise if they are not a kind."""
    try:
        return _read(data)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, KindError):
            raise
        raise _unreadable(data) from error


def _read(data: Any) -> Kind:
    if isinstance(data, str):
        return _PLAINS[data]
    match data:
        case ["decimal", int() | None as scale]:
            return DecimalKind(scale)
        case ["datetime", str() | None as zone]:
            return DatetimeKind(zone)
        case ["enum", str(name), [*members]]:
            return EnumKind(name, tuple(map(_text, members)))
        case ["record", str(name), [*fields]]:
            return Record(name, tuple((_text(field), _read(kind)) for field, kind in fields))
        case ["tuple", [*items]]:
            return Fixed(tuple(map(_read, items)))
        case ["sequence", "list" | "tuple" | "set" | "frozenset" as of, item]:
            return Sequence(of, _read(item))
        case ["mapping", "dict" | "Map" as of, key, value]:
            return Mapped(of, _read(key), _read(value))
        case ["array", str(dtype)]:
            return Array(dtype)
        case ["option", kind]:
            return Option(_read(kind))
    raise _unreadable(data)


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise _unreadable(data)
    return data


def _unreadable(data: Any) -> KindError:
    return KindError(
        "a stored description of values can't be read",
        expected=f"one of version {VERSION}: a name such as {', '.join(list(_PLAINS)[:4])}, or a list",
        got=repr(data)[:80],
        cure="read it with the release that wrote it, or a newer one",
    )


def read_version(data: Mapping[str, Any]) -> None:
    """Raise if a description has another version than this release reads."""
    if data.get("version") != VERSION:
        raise KindError(
            "a description of values is of another version",
            expected=f"version {VERSION}",
            got=repr(data.get("version")),
            cure="read it with the release that wrote it, or a newer one",
        )
