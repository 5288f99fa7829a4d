"""Symbols: unknown numbers as arguments for a user's own functions.

A symbol represents an int or a bool and builds a term with every operation. Where Python needs its
truth value, its trace decides. An operation without a term stops the run: a symbol made into text,
into a float, into an index or a key. `type(x)` and `x is y` would distinguish a symbol from a number
without notice, so `symbolic` refuses code that uses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from anabranch.laws.proving import terms
from anabranch.laws.proving.forms import NumberTerm
from anabranch.laws.proving.terms import BOOL, INT, Term
from anabranch.model.events import EventType
from anabranch.model.failures import Passing
from anabranch.model.slices import Slices


class Stop(Passing):
    """End a symbolic run, with the reason.

    Not an `Exception`: a user's `except Exception` must not catch it.
    """


class Decider(Protocol):
    """The decider of truth values for symbols: a symbolic run, or random answers."""

    def decide(self, term: Term) -> bool: ...
    def stop(self, reason: str) -> BaseException: ...


def wrap(term: Term, trace: Decider) -> Any:
    """Return a term as a symbol, or as a number if it is a constant."""
    if term.op == "const":
        return term.args[0]
    return (Truth if term.sort == BOOL else Number)(term, trace)


class Symbol(NumberTerm):
    """An unknown int or bool. Its two kinds are `Number` and `Truth`."""

    __slots__ = ()

    def __init__(self, term: Term, trace: Decider) -> None:
        self.term = term
        self.trace = trace

    def _combine(self, op: str, other: Any, *, flipped: bool = False) -> Any:
        if not isinstance(other, int):  # True of symbols too, by __class__.
            return self._meet_stranger(other)
        a, b = terms.count(self.term), terms.count(read_term(other))
        if flipped:
            a, b = b, a
        if op in ("//", "%") and self.trace.decide(terms.apply("==", b, terms.constant(0))):
            raise ZeroDivisionError("integer division or modulo by zero")
        return wrap(terms.apply(op, a, b), self.trace)

    def _meet_stranger(self, other: Any) -> Any:
        # Python's own ints leave text, None and tuples to the other operand, and so do symbols.
        if isinstance(other, float | complex) or hasattr(other, "__float__"):
            raise self.trace.stop(f"an operation combines a number and a {type(other).__name__}")
        return NotImplemented

    def _refuse(self, what: str) -> Any:
        raise self.trace.stop(f"a number is {what}")

    def __add__(self, other: Any) -> Any:
        return self._combine("+", other)

    def __radd__(self, other: Any) -> Any:
        return self._combine("+", other, flipped=True)

    def __sub__(self, other: Any) -> Any:
        return self._combine("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._combine("-", other, flipped=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, str | bytes | tuple | list):
            return self._refuse("used to repeat a sequence")
        return self._combine("*", other)

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)

    def __floordiv__(self, other: Any) -> Any:
        return self._combine("//", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._combine("//", other, flipped=True)

    def __mod__(self, other: Any) -> Any:
        return self._combine("%", other)

    def __rmod__(self, other: Any) -> Any:
        if isinstance(other, str | bytes):
            return self._refuse("made into text")
        return self._combine("%", other, flipped=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._refuse("divided into a float")

    __rtruediv__ = __truediv__

    def __pow__(self, power: Any, modulus: Any = None) -> Any:
        if modulus is not None or not isinstance(power, int) or isinstance(power, Symbol):
            return self._refuse("raised to a power")
        if not 0 <= power <= 4:
            return self._refuse(f"raised to the power of {power}")
        product: Any = 1
        for _ in range(power):
            product = self * product
        return product

    def __rpow__(self, other: Any) -> Any:
        return self._refuse("used as a power")

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> Any:
        return 0 + self

    def __invert__(self) -> Any:
        return -1 - self

    def __abs__(self) -> Any:
        term = terms.count(self.term)
        below = terms.apply("<", term, terms.constant(0))
        minus = terms.apply("-", terms.constant(0), term)
        return wrap(terms.choose(below, minus, term), self.trace)

    def __round__(self, digits: Any = None) -> Any:
        return +self if digits is None else self._refuse("rounded to digits")

    def __floor__(self) -> Any:
        return +self

    def __ceil__(self) -> Any:
        return +self

    def __trunc__(self) -> Any:
        return +self

    def __lt__(self, other: Any) -> Any:
        return self._combine("<", other)

    def __le__(self, other: Any) -> Any:
        return self._combine("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._combine("<", other, flipped=True)

    def __ge__(self, other: Any) -> Any:
        return self._combine("<=", other, flipped=True)

    def __eq__(self, other: object) -> Any:
        return self._combine("==", other)

    def __ne__(self, other: object) -> Any:
        equal = self._combine("==", other)
        if equal is NotImplemented:
            return equal
        return wrap(terms.negate(read_term(equal)), self.trace)

    def __bool__(self) -> bool:
        term = self.term
        if term.sort == INT:
            term = terms.negate(terms.apply("==", term, terms.constant(0)))
        return bool(self.trace.decide(term))

    def __hash__(self) -> int:
        raise self.trace.stop("a number is used as a key")

    def _bitwise(self, other: Any) -> Any:
        return self._refuse("split into bits")

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _bitwise
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _bitwise

    def __int__(self) -> int:
        raise self.trace.stop("a number is converted by int()")

    def __index__(self) -> int:
        raise self.trace.stop("a number is used as an index or a length")

    def __float__(self) -> float:
        raise self.trace.stop("a number is made into a float")

    def __complex__(self) -> complex:
        raise self.trace.stop("a number is made into a complex number")

    def __repr__(self) -> str:
        raise self.trace.stop("a number is made into text")

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        raise self.trace.stop("a number is made into text")

    def __getattr__(self, name: str) -> Any:
        if name in dir(int) and not name.startswith("__"):
            return self._refuse(f"used with .{name}")
        raise AttributeError(name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._refuse("copied or pickled")

    # An immutable value is its own copy, as Python's own numbers are.
    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Number(Symbol):
    """An unknown int."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # So that isinstance(x, int) holds.
        return int


class Truth(Symbol):
    """An unknown bool."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # So that isinstance(x, bool) holds.
        return bool

    def _logic(self, other: Any, join: Callable[[Term, Term], Term]) -> Any:
        if not isinstance(other, bool):
            return self._bitwise(other)
        return wrap(join(self.term, read_term(other)), self.trace)

    def __and__(self, other: Any) -> Any:
        return self._logic(other, lambda a, b: terms.conjoin((a, b)))

    def __or__(self, other: Any) -> Any:
        return self._logic(other, lambda a, b: terms.disjoin((a, b)))

    def __xor__(self, other: Any) -> Any:
        return self._logic(other, lambda a, b: terms.negate(terms.apply("==", a, b)))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__  # type: ignore[assignment]

    # Python needs a real number here, and a truth value has only two: one path for each.
    def __int__(self) -> int:
        return 1 if self else 0

    __index__ = __int__


def read_term(value: Any) -> Term:
    """Return the term of a symbol, or of a known number."""
    if isinstance(value, Symbol):
        return value.term
    return terms.constant(value)


class UnknownSlices(Slices):
    """The slices of one side of any fork: each query may have any answer, the same each time."""

    __slots__ = ("_held", "_side", "_trace")

    def __init__(self, side: str, trace: Decider, *, held: bool | None = None) -> None:
        super().__init__()
        self._side, self._trace, self._held = side, trace, held

    def _ask(self, *question: Any) -> bool:
        parts = [part.term if isinstance(part, Symbol) else part for part in question]
        return self._trace.decide(terms.variable(f"{self._side} {parts!r}", BOOL))

    def has(self, event_type: EventType, *, channel: str | None = None, **fields: Any) -> bool:
        """Return an undetermined truth value."""
        return self._ask("has", event_type.__name__, channel, *sorted(fields.items(), key=_name))

    def has_value(self, field: str, value: Any) -> bool:
        """Return an undetermined truth value; for the one key of a proof, the proof's assumption."""
        if value is ONE_KEY:
            return self._ask("has_value", field) if self._held is None else self._held
        return self._ask("has_value", field, value)

    def _refuse(self, *_: Any) -> Any:
        raise self._trace.stop("a fork reads all its slices, and does not only call has()")

    covers = event_types = __or__ = __iter__ = __len__ = __eq__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return str(self._refuse())


ONE_KEY = object()
"""The representative of all keys where a state has one entry per key."""


def _name(item: tuple[str, Any]) -> str:
    return item[0]


class Opaque:  # noqa: PLW1641 - its hash is refused below
    """A value of which only the identity is known: a string, a float, a whole map."""

    __slots__ = ("_label",)

    def __init__(self, label: str) -> None:
        self._label = label

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Stop(f"{self._label} is read")

    def __eq__(self, other: object) -> bool:
        return True if self is other else bool(self._refuse())

    def __repr__(self) -> str:
        return f"<{self._label}>"

    __getattr__ = _refuse
    __ne__ = __hash__ = __bool__ = __str__ = __format__ = __iter__ = __len__ = _refuse
    __getitem__ = __contains__ = __call__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __abs__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __float__ = __int__ = _refuse
    __index__ = __pow__ = __rpow__ = __round__ = _refuse

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance is not supported either.
        return type(self._refuse())
