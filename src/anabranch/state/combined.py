"""Several folds over the same events, side by side."""

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
    """A fold of a user's own functions as a state: `zero`, `add`, and `join` if it has one."""

    fold: Any
    by: None = None

    @property
    def init(self) -> AnyState:
        """Return what the fold starts from."""
        return self.fold.zero

    @property
    def zero(self) -> AnyState:
        """Return what the fold starts from."""
        return self.fold.zero

    @property
    def fork(self) -> Fork | None:
        """Return a fork that leaves the value on the left, if two values can be joined."""
        return None if self.fold.join is None else self._fork

    def _fork(self, state: AnyState, left: Slices, right: Slices) -> tuple[AnyState, AnyState]:
        return state, self.fold.zero

    @property
    def join(self) -> Join | None:
        """Return the user's join, if there is one."""
        joined: Join | None = self.fold.join
        return joined

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Compare exactly."""
        return bool(a == b)

    def add(self, state: AnyState, value: Any) -> AnyState:
        """Return the value with one more added."""
        return self.fold.add(state, value)

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record that the value is, as far as its start tells."""
        kind = type(self.fold.zero)
        return (kind,) if hasattr(kind, "_fields") or is_dataclass(kind) else ()


Part = Shape | tuple[Shape, str | Callable[[Any], Any]]
"""A state that is fed with events, or with a field or a function of them."""


class Several:
    """Fold each event into several states at once; each is fed with a field, or a function, of it.

    A value of None is left out, as SQL leaves out NULL. `Count()` alone counts the events, with a
    field those in which it is not None. Any other state alone is fed with the events themselves.

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
                "a Several folds nothing", expected='Several(n=Count(), top=(Max(), "price"))'
            )
        read = {name: _read_part(name, part) for name, part in parts.items()}
        self.parts = dict(parts)
        self.states = Struct(**{name: shape for name, (shape, _) in read.items()})
        self._sources = {name: source for name, (_, source) in read.items()}
        self._adds = tuple(_make_add(*pair) for pair in read.values())
        self._type = make_struct_type(tuple(parts))

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the fields of events that it looks at, as far as they were given by name."""
        return tuple(dict.fromkeys(f for f in self._sources.values() if isinstance(f, str)))

    @property
    def init(self) -> AnyState:
        """Return each state's start."""
        return self.states.init

    @property
    def zero(self) -> AnyState:
        """Return each state's zero, or MISSING where one has none."""
        return self.states.zero

    @property
    def fork(self) -> Fork | None:
        """Return a fork state by state, if each can be forked."""
        return self.states.fork

    @property
    def join(self) -> Join | None:
        """Return a join state by state, if each can be joined."""
        return self.states.join

    @property
    def check_size(self) -> CheckSize | None:
        """Return how to check the size of each state, if one has a limit."""
        return self.states.check_size

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that its states may hold."""
        return self.states.records

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Compare state by state."""
        return self.states.same(a, b)

    def add(self, state: AnyState, event: Any) -> AnyState:
        """Return the states with one event more."""
        pairs = zip(self._adds, state, strict=True)
        return self._type(*(add(one, event) for add, one in pairs))

    def value(self, state: AnyState) -> Any:
        """Return what each state says, under its name."""
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
            f"part {name!r} of a Several can't be folded",
            expected="a state such as Count(), or one with a field or a function of the event: "
            '(Max(), "price")',
            got=repr(part),
        )
    _check_add(name, shape, source, part)
    return (shape if hasattr(shape, "init") else FoldedState(shape)), source


def _check_add(name: str, shape: Any, source: Any, part: Any) -> None:
    """Refuse a state that can't be fed with one value."""
    values = () if isinstance(shape, Count) else (source,)
    try:
        inspect.signature(shape.add).bind(None, *values)
    except TypeError:
        raise ProgramError(
            f"part {name!r} of a Several can't be fed with one value",
            expected=f"a state whose add takes the state and a value, as {type(shape).__name__}.add does not",
            got=repr(part),
            cure="give each of its fields as a part of its own, or a Fold",
        ) from None
    except ValueError:
        return  # A builtin, of which Python does not know what it takes.


def _make_add(shape: Any, source: Any) -> Callable[[AnyState, Any], AnyState]:
    """Return what an event does to one of the states."""
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
