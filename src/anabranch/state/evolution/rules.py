"""Rules: converters from values of an older program to those of a newer one, by kind and field.

Building a converter also records verdicts: a part that can't be migrated is a refusal, with the cure.
Nothing is converted before all verdicts are known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from operator import attrgetter
from typing import Any

from anabranch.model.shapes import MISSING
from anabranch.model.values.maps import Map
from anabranch.state.durable.durable_names import fields_of
from anabranch.state.durable.kind_trees import is_number
from anabranch.state.durable.kinds import (
    BIGINT,
    FLOAT,
    FRACTION,
    INT,
    NONE,
    NUMBER,
    DecimalKind,
    EnumKind,
    Fixed,
    Kind,
    Mapped,
    Option,
    Record,
    Sequence,
    describe_value,
)
from anabranch.state.evolution.changes import Change, Default
from anabranch.state.evolution.fitting import (
    FREE,
    SEQUENCES,
    Convert,
    accepts,
    call,
    class_name,
    find_default,
    is_alike,
    items_of,
    may_be_none,
    say_kind,
    strip_option,
    walk,
)
from anabranch.state.evolution.record_history import trace_fields, trace_record
from anabranch.state.evolution.verdicts import (
    AUTOMATIC,
    DECLARED,
    REFUSED,
    SAME,
    EvolutionError,
    Verdict,
)


@dataclasses.dataclass(frozen=True)
class Place:
    """A part of the state: its name for messages, and the change that a user would declare for it."""

    name: str
    cure: str

    def within(self, what: str) -> Place:
        """Return a place inside this one, with the same cure."""
        return Place(f"{self.name} ({what})", self.cure)


class Rules:
    """The rules between two programs, and the verdicts on the parts of the state.

    With `partial`, converters are built for deltas, which were folded from zero: new fields start from
    zero in them, or a join would count their default once for each part.
    """

    def __init__(
        self,
        old: Mapping[str, Kind],
        new: Mapping[str, Kind],
        classes: Mapping[str, type],
        stand_ins: Mapping[str, type],
        changes: tuple[Change, ...],
        defaults: tuple[Default, ...],
    ) -> None:
        self.verdicts: dict[Verdict, None] = {}
        self._old, self._new, self._classes = old, new, classes
        self._changes = changes
        self._defaults = {(one.record, one.field): one.value for one in defaults}
        self._by_type = {stand_in: name for name, stand_in in stand_ins.items()}
        self._own = set(classes.values())
        self._rules: dict[str, Convert] = {}
        self.partial = False
        self.grown: Mapping[str, Convert] = {}

    def note(self, status: str, place: str, what: str, cure: str | None = None) -> None:
        """Record a verdict."""
        self.verdicts[Verdict(status, place, what, cure)] = None

    def _name_now(self, name: str) -> str:
        return trace_record(name, self._changes)[-1]

    def refuse(self, place: Place, what: str) -> Convert:
        """Record a refusal; the returned function is never called."""
        self.note(REFUSED, place.name, what, place.cure)
        return keep

    def convert(self, old: Kind, new: Kind, place: Place, start: Any = MISSING) -> Convert:
        """Return a function that converts a value of the old kind to the new one; record the verdict.

        `start` is the initial state at this place, which has the values of new fields.
        """
        if new in FREE or old in FREE:
            self._judge_inside(old, place)
            return self.renew if new in FREE else self._check(new, place)
        if NONE in (old, new) or isinstance(old, Option) or isinstance(new, Option):
            return self._convert_optional(old, new, place, start)
        match old, new:
            case (Record(), Record()):
                return self.convert_record(old, new, place, start)
            case (EnumKind(), EnumKind()):
                return self._convert_enum(old, new, place)
            case (Fixed(a), Fixed(b)) if len(a) == len(b):
                starts = (
                    start if type(start) is tuple and len(start) == len(a) else (MISSING,) * len(a)
                )
                items = [
                    self.convert(x, y, place.within(f"item {n}"), z)
                    for n, (x, y, z) in enumerate(zip(a, b, starts, strict=True), 1)
                ]
                return lambda value: tuple(
                    change(part) for change, part in zip(items, value, strict=True)
                )
            case (Fixed(a), Sequence("tuple", item)):
                items = [self.convert(x, item, place.within("items")) for x in a]
                return lambda value: tuple(
                    change(part) for change, part in zip(items, value, strict=True)
                )
            case (Sequence(of, a), Sequence(other, b)) if of == other:
                part = self.convert(a, b, place.within("items"))
                make = _SEQUENCES[of]
                return lambda value: make(map(part, value))
            case (Mapped(of, a, x), Mapped(other, b, y)) if of == other:
                return self._convert_map(of, (a, x), (b, y), place)
        return self._convert_scalar(old, new, place)

    def _convert_map(self, of: str, old: Any, new: Any, place: Place) -> Convert:
        key = self.convert(old[0], new[0], place.within("keys"))
        entry = self.convert(old[1], new[1], place.within("entries"))
        make: Any = Map if of == "Map" else dict
        return lambda value: make([(key(k), entry(v)) for k, v in items_of(value)])

    def _convert_optional(self, old: Kind, new: Kind, place: Place, start: Any) -> Convert:
        inner = self.convert(strip_option(old), strip_option(new), place, start)
        may_be, can_be = may_be_none(old), may_be_none(new)
        if may_be and not can_be:
            return self.refuse(place, f"may be None, and now must be {say_kind(new)}")
        if can_be and not may_be:
            self.note(AUTOMATIC, place.name, "may now be None")
        return inner if inner is keep else lambda value: None if value is None else inner(value)

    def _convert_scalar(self, old: Kind, new: Kind, place: Place) -> Convert:
        if old == NUMBER != new and is_number(new):
            return self._check(new, place)
        if is_alike(old, new):
            return keep
        if old in (INT, BIGINT) and (new == FRACTION or isinstance(new, DecimalKind)):
            self.note(AUTOMATIC, place.name, f"widens from int to {say_kind(new)}")
            number: Any = Fraction if new == FRACTION else Decimal
            return lambda value: number(value) if type(value) is int else value
        lossy = " (which may round)" if (old, new) == (INT, FLOAT) else ""
        return self.refuse(place, f"was {say_kind(old)} and is {say_kind(new)}{lossy}")

    def _convert_enum(self, old: EnumKind, new: EnumKind, place: Place) -> Convert:
        if self._name_now(old.name) != new.name:
            cure = f'Rename("{old.name}", "{new.name}")'
            return self.refuse(Place(place.name, cure), f"was {old.name} and is {new.name}")
        renamed = trace_fields(old.name, old.members, self._changes).names
        for member, now in renamed.items():
            if now not in new.members:
                cure = f'Rename("{new.name}", "{member}", ...) to a member that there is'
                self.refuse(Place(f"{new.name}.{member}", cure), "is gone")
            elif now != member:
                self.note(DECLARED, f"{new.name}.{now}", f"was called {member}")
        members: Any = self._classes[new.name]
        return lambda value: members[renamed[value.name]]

    def convert_record(self, old: Record, new: Record, place: Place, start: Any) -> Convert:
        """Return a function that converts a record field by field, by the declared changes."""
        name = class_name(new.name)
        if self._name_now(old.name) != name:
            cure = f'Rename("{old.name}", "{name}"), or {place.cure}'
            return self.refuse(Place(place.name, cure), f"was {old.name} and is {name}")
        if class_name(old.name) != name:
            self.note(DECLARED, name, f"was called {old.name}")
        record: Any = self._classes[new.name]
        history = trace_fields(old.name, [field for field, _ in old.fields], self._changes)
        for clash in history.clashes:
            cure = f'Rename or Drop "{clash}" first'
            self.refuse(Place(f"{name}.{clash}", cure), "would be two fields")
        makes: list[Convert] = []
        for field, kind in new.fields:
            here = Place(f"{name}.{field}", f'Retype("{name}", "{field}", function)')
            before = history.older_names.get(field)
            was = None if before is None else old.get(before)
            if before is None or was is None:
                makes.append(self._make_new(record, name, field, here, start))
                continue
            if before != field:
                self.note(DECLARED, here.name, f"was called {before}")
            inner = getattr(start, field, MISSING) if isinstance(start, record) else MISSING
            convert = self._convert_field(was, kind, here, history.functions.get(before), inner)
            makes.append(_read(before, convert))
            if not self._is_noted(here):
                self.note(SAME, here.name, say_kind(kind))
        self._judge_order(old, new, name)
        for field, now in history.names.items():
            if now is None:
                self.note(DECLARED, f"{name}.{field}", "is dropped")
            elif new.get(now) is None:
                cure = f'Drop("{name}", "{now}"), or Rename("{name}", "{now}", "its new name")'
                self.refuse(Place(f"{name}.{now}", cure), "is gone")
        return lambda value: record(*[make(value) for make in makes])

    def _is_noted(self, place: Place) -> bool:
        return any(
            one.place == place.name or one.place.startswith(f"{place.name} (")
            for one in self.verdicts
        )

    def _convert_field(
        self, old: Kind, new: Kind, place: Place, functions: list[Convert] | None, start: Any
    ) -> Convert:
        if not functions:
            return self.convert(old, new, place, start)
        self.note(DECLARED, place.name, f"becomes {say_kind(new)} by a function")
        return lambda value: self._apply(functions, value, place)

    def _apply(self, functions: list[Convert], value: Any, place: Place) -> Any:
        for function in functions:
            value = call(function, place.name, value)
        return self.finish(value)

    def _make_new(self, record: Any, name: str, field: str, place: Place, start: Any) -> Convert:
        if (name, field) in self._defaults and not self.partial:
            value = self._defaults[name, field]
            self.note(DECLARED, place.name, f"is new, and starts as {value!r}")
            return lambda _: value
        if isinstance(start, record):
            value = getattr(start, field)
            if not self.partial:
                self.note(AUTOMATIC, place.name, f"is new, and starts as {value!r}")
            return lambda _: value
        make = find_default(record, field)
        if make is None:
            cure = f'Default("{name}", "{field}", value), or a default in the class'
            return self.refuse(Place(place.name, cure), "is new, and has no default")
        self.note(AUTOMATIC, place.name, f"is new, and starts as {make()!r}")
        return lambda _: make()

    def _judge_order(self, old: Record, new: Record, name: str) -> None:
        before = [field for field, _ in old.fields if new.get(field) is not None]
        after = [field for field, _ in new.fields if old.get(field) is not None]
        if before != after:
            self.note(AUTOMATIC, name, "has its fields in another order")

    def _judge_inside(self, kind: Kind, place: Place) -> None:
        """Record verdicts on the records in a value of unknown new kind, by their names."""
        match kind:
            case Record(name) | EnumKind(name):
                self._find_rule(name, place)
            case Option(inner) | Sequence(_, inner):
                self._judge_inside(inner, place)
            case Mapped(_, key, value):
                self._judge_inside(key, place)
                self._judge_inside(value, place)
            case Fixed(items):
                for item in items:
                    self._judge_inside(item, place)

    def _find_rule(self, name: str, place: Place) -> Convert:
        if name not in self._rules:
            self._rules[name] = self.renew  # A record may contain itself.
            after = name if name in self._new else self._name_now(name)
            if after not in self._new and name in self.grown:
                self._rules[name] = self.grown[name]
                return self._rules[name]
            old, new = self._old.get(name), self._new.get(after)
            if isinstance(old, Record) and isinstance(new, Record):
                self._rules[name] = self.convert_record(old, new, place, MISSING)
            elif isinstance(old, EnumKind) and isinstance(new, EnumKind):
                self._rules[name] = self._convert_enum(old, new, place)
            else:
                cure = f'keep {name}, or Rename("{name}", "its new name"), or {place.cure}'
                self._rules[name] = self.refuse(
                    Place(place.name, cure), f"holds {name}, which is gone"
                )
        return self._rules[name]

    def _check(self, new: Kind, place: Place) -> Convert:
        self.note(AUTOMATIC, place.name, f"could be anything, and is checked to be {say_kind(new)}")

        def check(value: Any) -> Any:
            renewed = self.renew(value)
            if not accepts(new, describe_value(renewed)):
                raise EvolutionError(
                    f"{place.name} is no {say_kind(new)}", got=repr(value)[:80], cure=place.cure
                )
            return renewed

        return check

    def renew(self, value: Any) -> Any:
        """Return a value with all older records in it converted, at any depth."""
        name = self._by_type.get(type(value))
        if name is None:
            return walk(value, self.renew)
        known = len(self.verdicts)
        rule = self._find_rule(name, Place(name, "Retype or Reshape what holds it"))
        late = [one for one in list(self.verdicts)[known:] if one.status == REFUSED]
        if late:
            raise EvolutionError(f"{late[0].place} {late[0].what}", cure=late[0].cure)
        return rule(value)

    def finish(self, value: Any) -> Any:
        """Return the result of a user's function, with older records in it converted."""
        if type(value) in self._own:
            if isinstance(value, Enum):
                return value
            parts = list(fields_of(value))
            finished = list(map(self.finish, parts))
            same = all(a is b for a, b in zip(parts, finished, strict=True))
            return value if same else type(value)(*finished)
        if type(value) in self._by_type:
            return self.renew(value)
        return walk(value, self.finish)


def _read(field: str, change: Convert) -> Convert:
    read = attrgetter(field)
    return read if change is keep else lambda value: change(read(value))


def keep(value: Any) -> Any:
    """Return a value unchanged."""
    return value


_SEQUENCES: dict[str, Any] = {kind.__name__: kind for kind in SEQUENCES}
