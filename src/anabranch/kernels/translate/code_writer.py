"""The writer of generated code, with values joined where branches meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.kernels.column_layouts import (
    Clash,
    ColumnLayout,
    Constant,
    Fields,
    Leaf,
    OptionalColumn,
    meet,
    widen,
)
from anabranch.kernels.translate.known_values import (
    MIXED,
    NEVER,
    NONE,
    AlwaysFails,
    Known,
    KnownRecord,
    Maybe,
    Refusal,
    Scalar,
    Value,
    an,
    empty_texts,
    kind_of,
    layout_of,
    literal,
    load,
    name_value,
)

FAIL = "@fail"
"""The placeholder for leaving the loop: plain Python then handles the event, and raises the error."""

_MOST_LINES = 4000


class Ends(Exception):  # noqa: N818 - control flow of the translator
    """The code just written always fails; code after it is unreachable."""


class Writer:
    """Lines of code, written forward; `aside` writes a branch that is put in place later."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.words: list[str] = []
        self._names = 0
        self._written = 0

    def fresh(self) -> str:
        """Return an unused name."""
        self._names += 1
        return f"v{self._names}"

    def write(self, line: str) -> None:
        """Write one line."""
        self._written += 1
        if self._written > _MOST_LINES:
            raise Refusal("has too many paths through it")
        self.lines.append(line)

    def let(self, kind: str, text: str) -> Scalar:
        """Assign the result of an expression to a fresh name."""
        name = self.fresh()
        self.write(f"{name} = {text}")
        return Scalar(kind, name)

    def fail_if(self, condition: str) -> None:
        """Leave this event to plain Python under a condition."""
        self.write(f"if unlikely({condition}):")
        self.write(f"    {FAIL}")

    def fail(self) -> Ends:
        """Leave this event to plain Python; return the exception to raise."""
        self.write(FAIL)
        return Ends()

    def text(self, value: Value) -> str:
        """Return a scalar as an operand."""
        if isinstance(value, Scalar):
            return value.text
        assert isinstance(value, Known)
        return self._word(value.value) if type(value.value) is str else literal(value.value)

    def _word(self, text: str) -> str:
        if text not in self.words:
            self.words.append(text)
        return f"words[{self.words.index(text)}]"

    def aside(self, translate: Callable[[], Value]) -> tuple[list[str], Value]:
        """Return the lines that a branch writes, and its value."""
        kept, self.lines = self.lines, []
        try:
            value = translate()
        except Ends:
            value = NEVER
        finally:
            kept, self.lines = self.lines, kept
        return kept, value

    def write_if(self, condition: str, then: list[str], other: list[str]) -> None:
        """Write an `if` with two branches."""
        if not then and not other:
            return
        if not then:
            condition, then, other = f"not {condition}", other, then
        self.write(f"if {condition}:")
        self.lines += [f"    {line}" for line in then]
        if other:
            self.write("else:")
            self.lines += [f"    {line}" for line in other]

    def join(self, x: Value, y: Value, then: list[str], other: list[str]) -> Value:
        """Return the value after two branches; append to each the lines that assign it."""
        if x == y or isinstance(y, AlwaysFails):
            return x
        if isinstance(x, AlwaysFails):
            return y
        if _alike(x, y):
            assert isinstance(x, KnownRecord)
            assert isinstance(y, KnownRecord)
            pairs = zip(x.parts, y.parts, strict=True)
            return KnownRecord(x.cls, tuple(self.join(a, b, then, other) for a, b in pairs))
        if kind_of(x) is not None and kind_of(x) == kind_of(y):
            name = self.fresh()
            then.append(f"{name} = {self.text(x)}")
            other.append(f"{name} = {self.text(y)}")
            return Scalar(kind_of(x) or "", name)
        if NONE in (x, y) or isinstance(x, Maybe) or isinstance(y, Maybe):
            layout = _meet(x, y)
            names = [self.fresh() for _ in self.texts(layout, x)]
            then += [f"{n} = {t}" for n, t in zip(names, self.texts(layout, x), strict=True)]
            other += [f"{n} = {t}" for n, t in zip(names, self.texts(layout, y), strict=True)]
            return load(layout, iter(names))
        raise Refusal(f"is {name_value(x)} {MIXED} {name_value(y)} on another")

    def texts(self, layout: ColumnLayout, value: Value) -> list[str]:
        """Return the text of each column of a layout for a value."""
        return list(self._texts(layout, value))

    def _texts(self, layout: ColumnLayout, value: Value) -> Iterator[str]:
        if isinstance(layout, OptionalColumn):
            if value == NONE:
                yield from empty_texts(layout)
                return
            yield value.valid if isinstance(value, Maybe) else "True"
            yield from self._texts(layout.inner, value.inner if isinstance(value, Maybe) else value)
        elif isinstance(layout, Leaf) and kind_of(value) == layout.kind:
            yield self.text(value)
        elif (
            isinstance(layout, Fields)
            and isinstance(value, KnownRecord)
            and value.cls is layout.cls
        ):
            for inner, part in zip(layout.parts, value.parts, strict=True):
                yield from self._texts(inner, part)
        elif not isinstance(layout, Constant) or layout_of(value) != layout:
            raise Refusal(f"makes {an(value)} of a value of another type")

    def settle(self, layout: ColumnLayout, value: Value) -> Value:
        """Copy a value into variables of its own, which a loop may change."""
        names = []
        for text in self.texts(layout, value):
            name = self.fresh()
            self.write(f"{name} = {text}")
            names.append(name)
        return load(layout, iter(names))


def _alike(x: Value, y: Value) -> bool:
    if not isinstance(x, KnownRecord) or not isinstance(y, KnownRecord):
        return False
    return x.cls is y.cls and len(x.parts) == len(y.parts)


def _meet(x: Value, y: Value) -> ColumnLayout:
    try:
        return meet(widen(layout_of(x)), widen(layout_of(y)))
    except Clash:
        raise Refusal(f"is {name_value(x)} {MIXED} {name_value(y)} on another") from None
