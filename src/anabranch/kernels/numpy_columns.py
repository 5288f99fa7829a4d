"""Columns: many values of one layout as NumPy arrays, without loss in either direction.

An int is read back as an int, a float as a float, a bool as a bool. Any value that would change
raises `Unfit`, and the caller uses a layout of objects instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from anabranch.kernels.column_layouts import (
    ANYTHING,
    BOOL,
    CARRIED,
    CODED,
    DAY,
    ENUM,
    FLOAT,
    INT,
    MOMENT,
    OBJECT,
    STR,
    CarriedColumn,
    Column,
    ColumnLayout,
    Constant,
    EnumColumn,
    Fields,
    Leaf,
    OptionalColumn,
    describe,
    list_columns,
    part_names,
)
from anabranch.model.values.event_times import EPOCH, to_microseconds, to_moment
from anabranch.model.values.fields import Unfit
from anabranch.model.values.hashing import hash_texts
from anabranch.state.durable.durable_names import CodecError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DTYPES = {
    INT: "int64", FLOAT: "float64", BOOL: "bool", STR: "int64", OBJECT: "object",
    MOMENT: "int64", DAY: "int64", ENUM: "int64", CARRIED: "object",
}  # fmt: skip
"""Texts, and names of members, are stored as codes: positions in the one `Strings` that a fold uses."""

_TYPES = {INT: int, FLOAT: float, BOOL: bool, STR: str, MOMENT: datetime, DAY: date}
_BLANKS: dict[str, Any] = {
    INT: 0, FLOAT: 0.0, BOOL: False, STR: "", OBJECT: None, CARRIED: None, MOMENT: EPOCH, DAY: EPOCH.date(),
}  # fmt: skip


_DAY_0 = EPOCH.toordinal()


class Strings:
    """Distinct texts, each with a code. The list only grows, so a code stays valid.

    >>> strings = Strings(["a"]); strings.code("b"), strings.code("a"), strings[1]
    (1, 0, 'b')
    """

    __slots__ = ("_codes", "_hashes", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._hashes: Array | None = None
        for text in texts:
            self.code(text)

    def code(self, text: str) -> int:
        """Return the code of a text; a new text gets the next code."""
        code = self._codes.setdefault(text, len(self._texts))
        if code == len(self._texts):
            self._texts.append(text)
        return code

    def codes(self, texts: Iterable[str]) -> Array:
        """Return the codes of many texts, such as the dictionary of an Arrow column."""
        import numpy as np

        given = list(texts)
        known = self._codes
        fresh = [text for text in dict.fromkeys(given) if text not in known]
        known.update(
            zip(fresh, range(len(self._texts), len(self._texts) + len(fresh)), strict=True)
        )
        self._texts += fresh
        return np.fromiter(map(known.__getitem__, given), np.int64, len(given))

    def hashes(self) -> Array:
        """Return the stable hash of each text, by code. Each text is hashed once."""
        import numpy as np

        known = np.empty(0, np.int64) if self._hashes is None else self._hashes
        if len(known) < len(self._texts):
            found = np.array(hash_texts(self._texts[len(known) :]), np.int64)
            known = np.concatenate([known, found])
            self._hashes = known
        return known

    def __getitem__(self, code: int) -> str:
        return self._texts[code]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Strings, (self._texts,)


@dataclass(frozen=True, eq=False)
class Columns:
    """Values of one layout, as one array for each of its columns."""

    layout: ColumnLayout
    arrays: tuple[Array, ...]
    length: int
    strings: Strings = field(default_factory=Strings)

    def __post_init__(self) -> None:
        given = [array.dtype.name for array in self.arrays]
        wanted = [DTYPES[column.kind] for column in list_columns(self.layout)]
        if given != wanted or any(len(array) != self.length for array in self.arrays):
            lengths = sorted({len(array) for array in self.arrays} | {self.length})
            raise Unfit(
                f"columns of {describe(self.layout)} are {wanted}, not {given} of {lengths}"
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the column of each array."""
        return list_columns(self.layout)

    def unpack(self) -> list[Any]:
        """Return the values as Python objects."""
        return _read(self.layout, iter(self.arrays), self.length, self.strings)

    def value(self, row: int) -> Any:
        """Return one value."""
        cut = iter([array[row : row + 1] for array in self.arrays])
        return _read(self.layout, cut, 1, self.strings)[0]

    def take(self, rows: Array | slice) -> Columns:
        """Return some of the values: those at a mask, at positions, or in a slice."""
        import numpy as np

        arrays = tuple(array[rows] for array in self.arrays)
        length = len(arrays[0]) if arrays else len(np.arange(self.length)[rows])
        return Columns(self.layout, arrays, length, self.strings)

    def replace(self, row: int, value: Any) -> None:
        """Write one value in place, or raise `Unfit` and write nothing."""
        for array, new in zip(
            self.arrays, pack(self.layout, [value], self.strings).arrays, strict=True
        ):
            array[row] = new[0]

    def recode(self, strings: Strings) -> Columns:
        """Return the same values with the codes of another list of texts."""
        if strings is self.strings or all(column.kind not in CODED for column in self.columns):
            return Columns(self.layout, self.arrays, self.length, strings)
        codes = strings.codes(self.strings)
        arrays = tuple(
            codes[array] if column.kind in CODED and len(array) else array
            for column, array in zip(self.columns, self.arrays, strict=True)
        )
        return Columns(self.layout, arrays, self.length, strings)

    def copy(self) -> Columns:
        """Return the same values in arrays of their own."""
        arrays = tuple(array.copy() for array in self.arrays)
        return Columns(self.layout, arrays, self.length, self.strings)


def pack(layout: ColumnLayout, values: Sequence[Any], strings: Strings | None = None) -> Columns:
    """Return values as columns, or raise `Unfit` at the first that would not be read back the same."""
    strings = Strings() if strings is None else strings
    return Columns(layout, tuple(_write(layout, values, strings)), len(values), strings)


def pack_or_keep(
    layout: ColumnLayout, values: Sequence[Any], strings: Strings | None = None
) -> Columns:
    """Return values as columns; a field that does not fit becomes a column of objects."""
    strings = Strings() if strings is None else strings
    try:
        return pack(layout, values, strings)
    except Unfit:
        if not isinstance(layout, Fields) or not all(_has_form(v, layout) for v in values):
            return pack(ANYTHING, values, strings)
    names = part_names(layout)
    read = (lambda v, n: v[int(n)]) if layout.cls is tuple else getattr
    parts = [
        pack_or_keep(part, [read(v, name) for v in values], strings)
        for name, part in zip(names, layout.parts, strict=True)
    ]
    fitting = Fields(layout.cls, tuple(part.layout for part in parts))
    arrays = tuple(array for part in parts for array in part.arrays)
    return Columns(fitting, arrays, len(values), strings)


def fill(layout: ColumnLayout, value: Any, count: int, strings: Strings | None = None) -> Columns:
    """Return columns that hold one value many times: the states that a batch starts from."""
    import numpy as np

    one = pack(layout, [value], strings)
    return Columns(layout, tuple(np.repeat(a, count) for a in one.arrays), count, one.strings)


def blank(layout: ColumnLayout) -> Any:
    """Return a filler value of a layout, for the place of a missing one."""
    if isinstance(layout, EnumColumn):
        return next(iter(layout.cls))
    if isinstance(layout, Leaf):
        return _BLANKS[layout.kind]
    if isinstance(layout, Constant):
        return layout.value
    if isinstance(layout, OptionalColumn):
        return None
    return _build(layout, [[blank(part)] for part in layout.parts], 1)[0]


def _write(layout: ColumnLayout, values: Sequence[Any], strings: Strings) -> Iterator[Array]:
    import numpy as np

    if isinstance(layout, EnumColumn):
        yield _write_members(layout.cls, values, strings)
    elif isinstance(layout, CarriedColumn):
        yield np.fromiter(layout.codec.encode_each(values), dtype=object, count=len(values))
    elif isinstance(layout, Leaf):
        yield _write_leaf(layout.kind, values, strings)
    elif isinstance(layout, Constant):
        if any(Constant(value) != layout for value in values):
            raise Unfit(f"expected {layout.value!r} everywhere")
    elif isinstance(layout, OptionalColumn):
        yield np.fromiter((value is not None for value in values), np.bool_, len(values))
        filler = blank(layout.inner)
        yield from _write(layout.inner, [filler if v is None else v for v in values], strings)
    else:
        wrong = [value for value in values if type(value) is not layout.cls]
        if layout.cls is tuple and not wrong:
            wrong = [value for value in values if len(value) != len(layout.parts)]
        if wrong:
            raise Unfit(f"expected a {describe(layout)}, got {wrong[0]!r}")
        for number, (name, part) in enumerate(zip(part_names(layout), layout.parts, strict=True)):
            if layout.cls is tuple:
                yield from _write(part, [value[number] for value in values], strings)
            else:
                yield from _write(part, [getattr(value, name) for value in values], strings)


def _has_form(value: Any, layout: Fields) -> bool:
    """Return whether a value has a record's type and, if that is a plain tuple, its length."""
    if layout.cls is tuple:
        return type(value) is tuple and len(value) == len(layout.parts)
    return type(value) is layout.cls


def _write_leaf(kind: str, values: Sequence[Any], strings: Strings) -> Array:
    import numpy as np

    if kind == OBJECT:
        return np.fromiter(values, dtype=object, count=len(values))
    wrong = set(map(type, values)) - {_TYPES[kind]}
    if wrong:
        raise Unfit(f"expected {kind}, got {', '.join(sorted(t.__name__ for t in wrong))}")
    if kind == STR:
        return strings.codes(values)
    if kind == DAY:
        return np.fromiter((value.toordinal() - _DAY_0 for value in values), np.int64, len(values))
    if kind == MOMENT:
        if any(value.tzinfo is not UTC for value in values):
            raise Unfit("expected datetimes in UTC")
        return np.fromiter(map(to_microseconds, values), np.int64, len(values))
    try:
        return np.array(values, dtype=DTYPES[kind])
    except OverflowError:
        raise Unfit("an int of more than 64 bits") from None


def _write_members(cls: type[Enum], values: Sequence[Any], strings: Strings) -> Array:
    wrong = set(map(type, values)) - {cls}
    if wrong:
        raise Unfit(f"expected {cls.__name__}, got {', '.join(sorted(t.__name__ for t in wrong))}")
    return strings.codes([value._name_ for value in values])


def _read_members(cls: type[Enum], names: list[str]) -> list[Any]:
    known = cls.__members__
    try:
        return [known[name] for name in names]
    except KeyError as error:
        raise CodecError(
            f"a stored event has {error.args[0]!r} for an enum",
            expected=f"a member of {cls.__name__}: {', '.join(known)}",
            cure="keep the names of members while events that have them are pending",
        ) from None


def _read(layout: ColumnLayout, arrays: Iterator[Array], count: int, strings: Strings) -> list[Any]:
    if isinstance(layout, Leaf):
        values: list[Any] = next(arrays).tolist()
        if layout.kind in (MOMENT, DAY):
            return lift_calendar(layout.kind, values)
        if isinstance(layout, CarriedColumn):
            return list(map(layout.codec.decode, values))
        if isinstance(layout, EnumColumn):
            return _read_members(layout.cls, [strings[code] for code in values])
        return [strings[code] for code in values] if layout.kind == STR else values
    if isinstance(layout, Constant):
        return [layout.value] * count
    if isinstance(layout, OptionalColumn):
        present = next(arrays).tolist()
        held = _read(layout.inner, arrays, count, strings)
        return [value if there else None for value, there in zip(held, present, strict=True)]
    return _build(layout, [_read(part, arrays, count, strings) for part in layout.parts], count)


def lift_calendar(kind: str, numbers: list[int]) -> list[Any]:
    """Return numbers of a column of datetimes or dates as what they stand for."""
    if kind == DAY:
        return [date.fromordinal(number + _DAY_0) for number in numbers]
    return list(map(to_moment, numbers))


def _build(layout: Fields, parts: list[list[Any]], count: int) -> list[Any]:
    rows: Iterable[tuple[Any, ...]] = zip(*parts, strict=True) if parts else [()] * count
    if layout.cls is tuple:
        return list(rows)
    return [layout.cls(*row) for row in rows]
