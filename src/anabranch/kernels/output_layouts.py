"""Output layouts: of which type of a program's outputs are the values of a layout, all of them."""

from __future__ import annotations

from anabranch.kernels.column_layouts import (
    BOOL,
    FLOAT,
    INT,
    STR,
    ColumnLayout,
    Constant,
    Fields,
    Leaf,
    OptionalColumn,
    part_names,
)
from anabranch.model.values import value_types
from anabranch.model.values.fields import Unfit
from anabranch.model.values.output_types import OutputTypes
from anabranch.model.values.type_checks import make_check
from anabranch.model.values.value_types import ValueType

_KINDS = {
    INT: (value_types.INT, value_types.FLOAT, value_types.DECIMAL),
    FLOAT: (value_types.FLOAT,),
    BOOL: (value_types.BOOL,),
    STR: (value_types.STR,),
}
"""Which types hold every value of a column; `model.values.type_checks` decides the same for one value."""


def find_type(types: OutputTypes, layout: ColumnLayout) -> int | None:
    """Return the number of the type that all values of a layout are of, or None if values must be looked at."""
    for number, type_ in enumerate(types.types):
        if _fits(layout, type_):
            return number
        if _fits(layout, type_, perhaps=True):
            return None
    return None


def _fits(layout: ColumnLayout, type_: ValueType, *, perhaps: bool = False) -> bool:
    """Say whether all values of a layout are of a type; with `perhaps`, whether some may be."""
    if type_.kind == value_types.JSON:
        return True
    if isinstance(layout, Constant):
        try:
            make_check(type_)(layout.value)
        except Unfit:
            return False
        return True
    if isinstance(layout, OptionalColumn):
        return (perhaps or type_.optional) and _fits(layout.inner, type_, perhaps=perhaps)
    if isinstance(layout, Leaf):
        if type_.kind == value_types.ENUM or layout.kind not in _KINDS:
            return perhaps
        return type_.kind in _KINDS[layout.kind]
    return _fits_fields(layout, type_, perhaps=perhaps)


def _fits_fields(layout: Fields, type_: ValueType, *, perhaps: bool) -> bool:
    if type_.kind == value_types.TUPLE:
        same = layout.cls is tuple and len(layout.parts) == len(type_.parts)
    elif type_.kind == value_types.RECORD:
        alike = type_.cls is None and part_names(layout) == type_.field_names
        same = layout.cls is not tuple and (layout.cls is type_.cls or alike)
    elif type_.kind == value_types.LIST:
        element = type_.parts[0][1]
        return layout.cls is tuple and all(_fits(p, element, perhaps=perhaps) for p in layout.parts)
    else:
        return False
    pairs = zip(layout.parts, (part for _, part in type_.parts), strict=False)
    return same and all(_fits(a, b, perhaps=perhaps) for a, b in pairs)
