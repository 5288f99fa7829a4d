"""Values written as Python expressions, with the imports they need."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from anabranch.model.events import Event, EventType
from anabranch.model.slices import Shard, Slice

SHOWN = 72
"""The most characters of a value in a comment."""


class Literals:
    """Write values as expressions, and collect the names that they use."""

    def __init__(self, event_types: Iterable[EventType]) -> None:
        self._types = tuple(event_types)
        self.imports: dict[str, None] = {}
        self.names: dict[str, Any] = {}
        self.words: set[str] = set()

    def write(self, value: Any) -> str:
        """Return an expression for a value."""
        if isinstance(value, enum.Enum):
            return f"{self._name(type(value))}.{value.name}"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, Decimal | Fraction):
            self.imports[f"from {type(value).__module__} import {type(value).__name__}"] = None
        elif isinstance(value, dt.date | dt.timedelta):
            self.imports["import datetime"] = None
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value) if field.init]
            return self._write_fields(value, names)
        elif hasattr(value, "_fields"):
            return self._write_fields(value, value._fields)
        elif isinstance(value, tuple | list | set | frozenset | dict):
            return self._write_collection(value)
        return repr(value)

    def _write_fields(self, value: Any, names: Iterable[str]) -> str:
        fields = ", ".join(f"{name}={self.write(getattr(value, name))}" for name in names)
        return f"{self._name(type(value))}({fields})"

    def _write_collection(self, value: Any) -> str:
        if isinstance(value, dict):
            pairs = (f"{self.write(key)}: {self.write(part)}" for key, part in value.items())
            return f"{{{', '.join(pairs)}}}"
        parts = [self.write(part) for part in value]
        if isinstance(value, tuple):
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        listed = f"[{', '.join(parts)}]"
        return listed if isinstance(value, list) else f"{type(value).__name__}({listed})"

    def _name(self, kind: type) -> str:
        name = kind.__name__
        if kind in self._types:
            self.names[name] = f'program.event_type("{name}")'
            return name
        home = next(
            (
                event_type.__module__
                for event_type in self._types
                if _holds(event_type.__module__, kind)
            ),
            None,
        )
        if home is None:
            self.imports[f"from {kind.__module__} import {name}"] = None
        else:
            # A program's file can't be imported by name, but it is a loaded module once its program is.
            self.imports["import sys"] = None
            event_type = next(
                event_type for event_type in self._types if event_type.__module__ == home
            )
            self.names[event_type.__name__] = f'program.event_type("{event_type.__name__}")'
            self.names[name] = f"sys.modules[{event_type.__name__}.__module__].{name}"
        return name

    def write_event(self, event: Event, *, wrapped: bool, placed: bool) -> str:
        """Return an expression for an event: its data, wrapped, or placed in its channel."""
        data = self.write(event.data)
        if not wrapped and not placed:
            return data
        self.words.add("Event")
        return f'Event({data}, "{event.channel}", {event.seq})' if placed else f"Event({data})"

    def write_slice(self, part: Slice) -> str:
        """Return the `take` that makes a slice, or the event type if it is not cut."""
        fields = [
            f"{field.lstrip('@')}={self._write_choice(choice)}" for field, choice in part.where
        ]
        if part.channel is not None:
            fields.append(f'channel="{part.channel}"')
        name = self._name(part.event_type)
        if not fields:
            return name
        self.words.add("take")
        return f"take({name}, {', '.join(fields)})"

    def _write_choice(self, choice: Any) -> str:
        if isinstance(choice, Shard):
            self.words.add("Shard")
            return f"Shard({choice.index}, {choice.count})"
        return self.write(choice.value)

    def write_slices(self, parts: Iterable[Slice]) -> str:
        """Return a list of slices."""
        return f"[{', '.join(self.write_slice(part) for part in parts)}]"


def _holds(module: str, kind: type) -> bool:
    return getattr(sys.modules.get(module), kind.__name__, None) is kind


def abridge(value: Any) -> str:
    """Return a value as text for a comment."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
