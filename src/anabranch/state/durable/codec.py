"""Durable bytes for states and events: MessagePack, self-describing, never pickle.

Plain values are written unchanged. Any other value is a list whose first element names its kind.
Records (`NamedTuple`s, dataclasses) are written by name and read back only if the program has a
record of that name: untrusted bytes can't choose a class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, get_args, get_type_hints
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.values.event_times import EPOCH, to_microseconds
from anabranch.model.values.field_lists import stores_fields
from anabranch.model.values.maps import Map
from anabranch.state.durable.durable_names import (
    CodecError,
    fields_of,
    find_zone,
    is_array,
    is_pickle,
    is_record,
    is_scalar,
    name_record,
    read_array,
    read_integer,
    read_zone,
    refuse_value,
    write_array,
    write_integer,
)
from anabranch.state.exact import MeanState, SumState, VarianceState
from anabranch.state.numbers import Average

__all__ = ["Codec", "CodecError", "make_codec", "name_record"]

OWN_RECORDS: tuple[type, ...] = (Average, SumState, MeanState, VarianceState)
"""The ready-made states that are records."""

_SMALL = 1 << 63
_LISTS = "lists"
_PLAIN = frozenset({int, str, float, bytes, bool, type(None)})


class Codec:
    """An encoder and decoder of values that may contain a given set of records."""

    def __init__(self, records: Iterable[type] = ()) -> None:
        self._records: dict[str, type] = {}
        for record in records:
            self._learn(record)

    @property
    def records(self) -> Mapping[str, type]:
        """Return the records and enums of the codec, by the names they are stored under."""
        return MappingProxyType(self._records)

    def encode(self, value: Any) -> bytes:
        """Return a value as bytes; equal values of equal types give equal bytes."""
        return msgspec.msgpack.encode(self._lower(value))

    def encode_each(self, values: Sequence[Any]) -> Iterator[bytes]:
        """Return each of many values as bytes of its own: those that `encode` returns."""
        return map(msgspec.msgpack.Encoder().encode, self._lower_each(values))

    def decode(self, data: bytes) -> Any:
        """Return the value that was written."""
        try:
            return self._lift(msgspec.msgpack.decode(data))
        except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise _explain(data, error) from error

    def encode_lists(self, head: list[Any], lists: list[list[Any]]) -> bytes:
        """Return lists of values as bytes, with a head of plain values; a list of plain values needs no conversion."""
        lowered = [self._lower_list(values) for values in lists]
        return msgspec.msgpack.encode([_LISTS, head, lowered])

    def decode_lists(self, data: bytes) -> tuple[list[Any], list[list[Any]]] | None:
        """Return the head and the lists that `encode_lists` wrote; None if `encode` wrote the bytes."""
        try:
            found = msgspec.msgpack.decode(data)
            if type(found) is not list or found[0] != _LISTS:
                return None
            _, head, lists = found
            return head, [self._lift_list(form, values) for form, values in lists]
        except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise _explain(data, error) from error

    def _lower_list(self, values: list[Any]) -> tuple[str, list[Any]]:
        types = set(map(type, values))
        if types <= _PLAIN and (int not in types or _are_small(values)):
            return "p", values
        if types == {datetime} and all(v.tzinfo is UTC and not v.fold for v in values):
            return "u", list(map(to_microseconds, values))
        if types == {Decimal}:
            return "d", list(map(str, values))
        kind = next(iter(types), None)
        if len(types) == 1 and kind is not None and self._records.get(name_record(kind)) is kind:
            if issubclass(kind, Enum):
                names = {member: member.name for member in {*values}}
                if {*names.values()} <= kind.__members__.keys():
                    return "e", [name_record(kind), [names[value] for value in values]]
            elif issubclass(kind, tuple) and stores_fields(kind) and fields_of(values[0]):
                columns = map(list, zip(*values, strict=True))
                return "n", [name_record(kind), list(map(self._lower_list, columns))]
        return "v", list(map(self._lower, values))

    def _lower_each(self, values: Sequence[Any]) -> Iterable[Any]:
        """Return each of many values as plain values; those of one type need few calls."""
        types = set(map(type, values))
        if types <= _PLAIN and (int not in types or _are_small(values)):
            return values
        if types == {Decimal}:
            return [["D", text] for text in map(str, values)]
        kind = next(iter(types), None)
        if len(types) == 1 and kind is not None and self._has_fields(kind) and fields_of(values[0]):
            columns = zip(*map(fields_of, values), strict=True)
            lowered = zip(*map(self._lower_each, columns), strict=True)
            return [["n", name_record(kind), *fields] for fields in lowered]
        return map(self._lower, values)

    def _has_fields(self, kind: type) -> bool:
        known = self._records.get(name_record(kind)) is kind
        return known and is_record(kind) and not issubclass(kind, Enum)

    def _lift_list(self, form: str, values: list[Any]) -> list[Any]:
        return _LIFT_LISTS[form](self, values)

    def _lift_enums(self, data: list[Any]) -> list[Any]:
        kind = self._find_enum(data[0])
        members = {name: kind[name] for name in {*data[1]}}
        return [members[name] for name in data[1]]

    def _lift_records(self, data: list[Any]) -> list[Any]:
        record = self._records[data[0]]
        columns = [self._lift_list(form, values) for form, values in data[1]]
        return list(map(record, *columns))

    def _learn(self, record: type) -> None:
        name = name_record(record)
        if name in self._records:
            return
        self._records[name] = record
        if record.__name__ != "Struct":
            for found in _records_in(_hints(record).values()):
                self._learn(found)

    def _lower(self, value: Any) -> Any:
        kind = type(value)
        if kind in (str, bytes, float, bool) or value is None:
            return value
        if kind is int:
            return value if -_SMALL <= value < _SMALL else ["i", write_integer(value)]
        lower = _LOWERS.get(kind)
        if lower is not None:
            return lower(self, value)
        if isinstance(value, Enum) and name_record(kind) in self._records:
            if value.name not in kind.__members__:  # Several members of a flag at once.
                return ["f", name_record(kind), self._lower(value.value)]
            return ["e", name_record(kind), value.name]
        if is_record(kind) and name_record(kind) in self._records:
            return ["n", name_record(kind), *map(self._lower, fields_of(value))]
        if is_array(value):
            return ["A", *write_array(value)]
        if is_scalar(value):
            return ["N", *write_array(value)]
        raise refuse_value(value)

    def _lift(self, data: Any) -> Any:
        if type(data) is list:
            return _LIFTS[data[0]](self, data[1:])
        if type(data) not in _PLAIN:
            raise CodecError("stored bytes can't be read", got=f"a {type(data).__name__}")
        return data

    def _sorted(self, values: Iterable[Any]) -> list[Any]:
        # Sets and maps are unordered, but their bytes must be deterministic.
        return sorted(map(self._lower, values), key=msgspec.msgpack.encode)

    def _lift_record(self, data: list[Any]) -> Any:
        record = self._records.get(data[0])
        if record is None:
            raise CodecError(
                f"stored bytes name a record {data[0]!r}, which the program does not have"
            )
        return record(*map(self._lift, data[1:]))

    def _lift_enum(self, data: list[Any]) -> Any:
        return self._find_enum(data[0])[data[1]]

    def _lift_flags(self, data: list[Any]) -> Any:
        return self._find_enum(data[0])(self._lift(data[1]))

    def _find_enum(self, name: str) -> Any:
        if name not in self._records:
            raise CodecError(f"stored bytes name an enum {name!r}, which the program does not have")
        return self._records[name]


def _are_small(values: Sequence[Any]) -> bool:
    numbers = [value for value in values if type(value) is int]
    return min(numbers) >= -_SMALL and max(numbers) < _SMALL


def make_codec(program: Program) -> Codec:
    """Return the codec for the records of a program: its events, and the records in initial states.

    A shape whose states may contain other records lists them in `records`. The library's own states that
    are records are always included, because a user's record may contain one.
    """
    found: list[type] = list(program.event_types)
    for state_type in program.state_types:
        found += find_records(state_type.shape)
    return Codec([*found, *OWN_RECORDS])


def has_durable_form(kind: type) -> bool:
    """Return whether values of a class can be encoded, judged by the class."""
    if kind in _PLAIN or kind in _LOWERS or is_record(kind) or issubclass(kind, Enum):
        return True
    return kind.__module__ == "numpy" or kind.__module__.startswith("numpy.")


def find_records(shape: Any) -> tuple[type, ...]:
    """Return the record types that a shape's states may contain, as far as the shape declares them."""
    found: list[type] = []
    while shape is not None:
        found += getattr(shape, "records", ())
        for start in (shape.init, shape.zero):
            if start is not MISSING:
                found += _records_of(start)
        shape = getattr(shape, "inner", None)
    return tuple(found)


def list_records(hint: Any) -> tuple[type, ...]:
    """Return the records in an annotation, such as `Order` or `dict[str, Order | None]`."""
    return tuple(_records_in([hint]))


def _hints(record: type) -> dict[str, Any]:
    try:
        return get_type_hints(record)
    except (NameError, TypeError):
        return {}


def _records_in(types: Iterable[Any]) -> list[type]:
    found: list[type] = []
    for hint in types:
        if isinstance(hint, type) and (is_record(hint) or issubclass(hint, Enum)):
            found.append(hint)
        found += _records_in(get_args(hint))
    return found


def _records_of(value: Any) -> list[type]:
    kind = type(value)
    found = [kind] if is_record(kind) or isinstance(value, Enum) else []
    if isinstance(value, tuple | list | frozenset | set):
        inner: Iterable[Any] = value
    elif isinstance(value, dict | Map):
        inner = [*value, *value.values()]
    else:
        inner = fields_of(value) if dataclasses.is_dataclass(kind) else ()
    return found + [record for part in inner for record in _records_of(part)]


def _write_time(value: Any) -> list[Any]:
    """Return a time as text, with its zone and fold if the text does not include them."""
    zone = find_zone(value.tzinfo)
    if type(value.tzinfo) is ZoneInfo:
        return [value.replace(tzinfo=None).isoformat(), zone, value.fold]
    return [value.isoformat(), "", 1] if value.fold else [value.isoformat()]


def _read_time(kind: Any, text: str, zone: str = "", fold: int = 0) -> Any:
    value = kind.fromisoformat(text)
    return value.replace(tzinfo=read_zone(zone) if zone else value.tzinfo, fold=fold)


def _explain(data: bytes, error: Exception) -> CodecError:
    if isinstance(error, CodecError):
        return error
    if is_pickle(data):
        return CodecError(
            "stored bytes are a pickle, which may run code when it is read",
            expected="MessagePack, as this codec writes it",
            got=f"{len(data)} bytes of a pickle",
            cure="read it where you trust it, and write the values again with this codec",
        )
    return CodecError("stored bytes can't be read", got=str(error))


_Lower = Callable[[Codec, Any], Any]
_Lift = Callable[[Codec, list[Any]], Any]

_LOWERS: dict[type, _Lower] = {
    tuple: lambda codec, value: ["t", *map(codec._lower, value)],
    list: lambda codec, value: ["l", *map(codec._lower, value)],
    frozenset: lambda codec, value: ["s", *codec._sorted(value)],
    set: lambda codec, value: ["S", *codec._sorted(value)],
    dict: lambda codec, value: ["d", *codec._sorted(map(tuple, value.items()))],
    Map: lambda codec, value: ["m", *codec._sorted(map(tuple, value.entries().items()))],
    Decimal: lambda codec, value: ["D", str(value)],
    Fraction: lambda codec, value: ["F", str(value.numerator), str(value.denominator)],
    datetime: lambda codec, value: ["T", *_write_time(value)],
    time: lambda codec, value: ["H", *_write_time(value)],
    timedelta: lambda codec, value: ["P", value.days, value.seconds, value.microseconds],
    UUID: lambda codec, value: ["U", value.bytes],
    date: lambda codec, value: ["Y", value.isoformat()],
}
_LIFTS: dict[str, _Lift] = {
    "i": lambda codec, data: read_integer(data[0]),
    "t": lambda codec, data: tuple(map(codec._lift, data)),
    "l": lambda codec, data: [codec._lift(part) for part in data],
    "s": lambda codec, data: frozenset(map(codec._lift, data)),
    "S": lambda codec, data: set(map(codec._lift, data)),
    "d": lambda codec, data: dict(map(codec._lift, data)),
    "m": lambda codec, data: Map(map(codec._lift, data)),
    "n": Codec._lift_record,
    "e": Codec._lift_enum,
    "f": Codec._lift_flags,
    "D": lambda codec, data: Decimal(data[0]),
    "F": lambda codec, data: Fraction(int(data[0]), int(data[1])),
    "T": lambda codec, data: _read_time(datetime, *data),
    "H": lambda codec, data: _read_time(time, *data),
    "P": lambda codec, data: timedelta(*data),
    "U": lambda codec, data: UUID(bytes=data[0]),
    "A": lambda codec, data: read_array(*data),
    "N": lambda codec, data: read_array(*data)[()],
    "Y": lambda codec, data: date.fromisoformat(data[0]),
}
_LIFT_LISTS: dict[str, Callable[[Codec, list[Any]], list[Any]]] = {
    "p": lambda codec, values: values,
    "u": lambda codec, values: [EPOCH + timedelta(microseconds=value) for value in values],
    "d": lambda codec, values: list(map(Decimal, values)),
    "e": Codec._lift_enums,
    "n": Codec._lift_records,
    "v": lambda codec, values: list(map(codec._lift, values)),
}
