"""Several states over the same events."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.shapes import AnyState, CheckSize, Fork, Join, Shape
from anabranch.model.slices import Slices
from anabranch.state.collections import Struct, make_struct_type
from anabranch.state.numbers import Count


@dataclass(frozen=True)
class FoldedState:
    """A fold of a user's functions as a state: `zero`, `add`, and optionally `join`."""

    fold: Any
    by: None = None

    @property
    def init(self) -> AnyState:
        """Return the zero of the fold."""
        return self.fold.zero

    @property
    def zero(self) -> AnyState:
        """Return the zero of the fold."""
        return self.fold.zero

    @property
    def fork(self) -> Fork | None:
        """Return a fork that leaves the value on the left, or None if the fold has no join."""
        return None if self.fold.join is None else self._fork

    def _fork(self, state: AnyState, left: Slices, right: Slices) -> tuple[AnyState, AnyState]:
        return state, self.fold.zero

    @property
    def join(self) -> Join | None:
        """Return the user's join, or None."""
        joined: Join | None = self.fold.join
        return joined

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Return whether two states are equal."""
        return bool(a == b)

    def add(self, state: AnyState, value: Any) -> AnyState:
        """Return the state with a value added."""
        return self.fold.add(state, value)

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record type of the zero, if it is a record."""
        kind = type(self.fold.zero)
        return (kind,) if hasattr(kind, "_fields") or is_dataclass(kind) else ()


Part = Shape | tuple[Shape, str | Callable[[Any], Any]]
"""A state to which events are added, or a field or a function of them."""


class Several:
    """Several states over the same events; each state adds a field, or a function, of the event.

    None is ignored, as SQL ignores NULL. `Count()` alone counts the events, with a field those in which
    the field is not None. Any other state alone adds the events themselves.

    >>> from typing import NamedTuple
    >>> from anabranch.state import Count, Max
    >>> class Sale(NamedTuple):
    ...     time: int
    ...     price: int
    >>> sales = Several(n=Count(), top=(Max(), "price"), late=(Max(), lambda sale: sale.time % 60))
    >>> sales.value(sales.add(sales.zero, Sale(time=61, price=7)))
    Struct(n=1, top=7, late=1)
    """

    by = None

    def __init__(self, **parts: Part) -> None:
        if not parts:
            raise ProgramError(
                "a Several has no parts", expected='Several(n=Count(), top=(Max(), "price"))'
            )
        read = {name: _read_part(name, part) for name, part in parts.items()}
        self.parts = dict(parts)
        self.states = Struct(**{name: shape for name, (shape, _) in read.items()})
        self._sources = {name: source for name, (_, source) in read.items()}
        self._adds = tuple(_make_add(*pair) for pair in read.values())
        self._type = make_struct_type(tuple(parts))

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the fields of events that its parts read by name."""
        return tuple(dict.fromkeys(f for f in self._sources.values() if isinstance(f, str)))

    @property
    def init(self) -> AnyState:
        """Return the initial state of each part."""
        return self.states.init

    @property
    def zero(self) -> AnyState:
        """Return the zero of each part, or MISSING if one has none."""
        return self.states.zero

    @property
    def fork(self) -> Fork | None:
        """Return a fork part by part, or None if a part can't be forked."""
        return self.states.fork

    @property
    def join(self) -> Join | None:
        """Return a join part by part, or None if a part can't be joined."""
        return self.states.join

    @property
    def check_size(self) -> CheckSize | None:
        """Return the size check of the parts, or None if none has a limit."""
        return self.states.check_size

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that its states may contain."""
        return self.states.records

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Return whether all parts are equal."""
        return self.states.same(a, b)

    def add(self, state: AnyState, event: Any) -> AnyState:
        """Return the states with an event added."""
        pairs = zip(self._adds, state, strict=True)
        return self._type(*(add(one, event) for add, one in pairs))

    def value(self, state: AnyState) -> Any:
        """Return the value of each part, under its name."""
        shapes = self.states.fields.values()
        return self._type(*(_read(shape, one) for shape, one in zip(shapes, state, strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Several) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_several, (self.parts,)

    def __repr__(self) -> str:
        return f"Several({', '.join(f'{name}={part!r}' for name, part in self.parts.items())})"


def _rebuild_several(parts: dict[str, Part]) -> Several:
    return Several(**parts)


def _read_part(name: str, part: Any) -> tuple[Any, Any]:
    shape, source = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
    fed = source is None if shape is part else isinstance(source, str) or callable(source)
    if (
        not fed
        or isinstance(shape, type)
        or not callable(getattr(shape, "add", None))
        or not hasattr(shape, "zero")
    ):
        raise ProgramError(
            f"part {name!r} of a Several is not valid",
            expected="a state such as Count(), or a state with a field or a function of the event: "
            '(Max(), "price")',
            got=repr(part),
        )
    _check_add(name, shape, source, part)
    return (shape if hasattr(shape, "init") else FoldedState(shape)), source


def _check_add(name: str, shape: Any, source: Any, part: Any) -> None:
    """Raise if the `add` of a state does not take one value."""
    values = () if isinstance(shape, Count) else (source,)
    try:
        inspect.signature(shape.add).bind(None, *values)
    except TypeError:
        raise ProgramError(
            f"part {name!r} of a Several has an add that does not take one value",
            expected=f"a state with add(state, value), unlike {type(shape).__name__}",
            got=repr(part),
            cure="make each of its fields a part of the Several, or use a Fold",
        ) from None
    except ValueError:
        return  # A builtin without a readable signature.


def _make_add(shape: Any, source: Any) -> Callable[[AnyState, Any], AnyState]:
    """Return the function that adds an event to one of the states."""
    counts = isinstance(shape, Count)

    def add(state: AnyState, event: Any) -> AnyState:
        if source is None:
            return shape.add(state) if counts else shape.add(state, event)
        value = getattr(event, source) if isinstance(source, str) else source(event)
        if value is None:
            return state
        return shape.add(state) if counts else shape.add(state, value)

    return add


def _read(shape: Any, state: AnyState) -> Any:
    read = getattr(shape, "value", None)
    return state if read is None else read(state)
