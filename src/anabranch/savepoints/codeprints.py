"""Code prints: descriptions of code and values, as text that is the same in every process.

The description of a function has its byte code with its constants, the names it uses, its defaults, the
values in its closure, and the descriptions of the module-level functions, classes and values it refers to.
The description of an object has its class and its attributes. Memory addresses are not part of descriptions,
nor is `repr` where it is not made of a value's content.

Code of Anabranch, Python and installed packages is described by its name alone: a new release may be
implemented differently with the same meaning.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

MECHANISM = 2
"""The version of descriptions, increased when the description of an unchanged program changes."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LONGEST = 200
_INSTALLED = ("site-packages", "dist-packages")


def hash_values(*values: Any) -> str:
    """Return a short digest of the descriptions of values."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(describe_value(value).encode())
    return digest.hexdigest()[:16]


def describe_value(value: Any) -> str:
    """Return the description of a value."""
    return _Description().write(value)


class _Description:
    """A description that is being written. References to enclosing values are named; repeated values are cached.

    The identity of two equal objects is not part of it: it may differ in the next process.
    """

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._open: set[int] = set()
        self._held: list[Any] = []

    def write(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            return f"{_name(type(value))}.{value.name}"
        if type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        place = id(value)
        if place in self._open:
            return f"itself {getattr(value, '__qualname__', type(value).__qualname__)}"
        if place not in self._known:
            self._held.append(value)  # So that its id is not reused by another object.
            self._open.add(place)
            text = self._write_new(value)
            self._open.remove(place)
            # A digest, so that the text of values with many references does not grow.
            long = len(text) > _LONGEST
            self._known[place] = hashlib.sha256(text.encode()).hexdigest() if long else text
        return self._known[place]

    def _write_new(self, value: Any) -> str:
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, type):
            return self._write_class(value)
        if isinstance(value, FunctionType):
            return self._write_function(value)
        if isinstance(value, MethodType):
            return f"method {self.write(value.__func__)} of {self.write(value.__self__)}"
        if isinstance(value, BuiltinFunctionType):
            return f"builtin {value.__module__}.{value.__qualname__}"
        if isinstance(value, CodeType):
            return self._write_code(value)
        container = self._write_container(value)
        return self._write_object(value) if container is None else container

    def _write_container(self, value: Any) -> str | None:
        kind = type(value)
        if isinstance(value, tuple | list):
            fields = getattr(kind, "_fields", None)
            return f"{_name(kind)}{fields or ''}[{self._write_all(value)}]"
        if isinstance(value, set | frozenset):
            # Each is described separately, because sets are unordered.
            return f"{_name(kind)}{{{', '.join(sorted(map(describe_value, value)))}}}"
        if isinstance(value, dict | MappingProxyType):
            return f"{_name(kind)}{{{self._write_items(value)}}}"
        return None

    def _write_all(self, values: Any) -> str:
        return ", ".join(map(self.write, values))

    def _write_items(self, values: Mapping[Any, Any]) -> str:
        return ", ".join(f"{self.write(key)}: {self.write(held)}" for key, held in values.items())

    def _write_named(self, values: Mapping[str, Any]) -> str:
        return ", ".join(f"{name}={self.write(values[name])}" for name in sorted(values))

    # --- code ------------------------------------------------------------------------------------

    def _write_function(self, function: FunctionType) -> str:
        if _is_known_by_name(function.__module__):
            return f"function {function.__module__}.{function.__qualname__}"
        if hasattr(function, "__wrapped__"):
            return f"wrapped {self._write_body(function)} {self.write(function.__wrapped__)}"
        return self._write_body(function)

    def _write_body(self, function: FunctionType) -> str:
        names = function.__code__.co_freevars
        cells = (_read_cell(cell) for cell in function.__closure__ or ())
        parts = [
            f"function {self._write_code(function.__code__, function.__doc__)}",
            f"defaults {self.write(function.__defaults__)} {self.write(function.__kwdefaults__)}",
            f"closure {self._write_named(dict(zip(names, cells, strict=True)))}",
            f"globals {self._write_named(_find_globals(function))}",
        ]
        return "; ".join(parts)

    def _write_code(self, code: CodeType, doc: str | None = None) -> str:
        constants = list(code.co_consts)
        if doc is not None and constants[:1] == [doc]:
            constants[0] = None  # A docstring does not change the function.
        names = (code.co_names, code.co_freevars, code.co_cellvars, code.co_argcount)
        return f"{code.co_code.hex()} {names} [{self._write_all(constants)}]"

    # --- classes and objects ---------------------------------------------------------------------

    def _write_class(self, kind: type) -> str:
        if _is_known_by_name(kind.__module__):
            return f"class {_name(kind)}"
        bases = self._write_all(base for base in kind.__bases__ if base is not object)
        return f"class {_name(kind)}({bases}; {self._write_named(dict(_list_members(kind)))})"

    def _write_object(self, value: Any) -> str:
        kind = type(value)
        wrapped = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            return f"{_name(kind)} of {self.write(wrapped)}"
        if isinstance(value, functools.partial):
            return f"partial {self._write_all((value.func, value.args, value.keywords))}"
        if isinstance(value, property | classmethod | staticmethod):
            return f"{kind.__name__} {self.write(_unwrap(value))}"
        named = self.write(kind)
        reduced = kind.__dict__.get("__reduce__")
        if isinstance(reduced, FunctionType):
            # The arguments of `__reduce__` define the object; other attributes are caches.
            made = value.__reduce__()
            return f"{named} {made if isinstance(made, str) else self._write_all(made[1:])}"
        held = _read_fields(value)
        if held is not None:
            return f"{named}({self._write_named(held)})"
        text = repr(value)
        return named if _ADDRESS.search(text) else f"{named} {text}"


def _read_fields(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, or None if it has none."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    kind = type(value)
    slots = [name for base in kind.__mro__ for name in _list_slots(base)]
    if not hasattr(value, "__dict__") and not slots:
        return None
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    held |= getattr(value, "__dict__", {})
    computed = {
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, functools.cached_property)
    }
    return {name: held[name] for name in held if name not in computed}


def _list_slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [slots] if isinstance(slots, str) else [s for s in slots if not s.startswith("__")]


def _list_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the members of a class, without those that Python adds."""
    for name, member in vars(kind).items():
        function = _unwrap(member)
        if isinstance(function, FunctionType):
            # Methods of dataclasses and named tuples are generated from their fields.
            if function.__code__.co_filename != "<string>" or not _is_record(kind):
                yield name, member
        elif not name.startswith("_"):
            yield name, member


def _is_record(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def _unwrap(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return getattr(member, "__func__", member)


def _find_globals(function: FunctionType) -> dict[str, Any]:
    """Return the module-level values that a function, or one within it, refers to."""
    known = function.__globals__
    return {name: known[name] for name in _find_names(function.__code__) if name in known}


def _find_names(code: CodeType) -> set[str]:
    found = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD_GLOBAL")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _find_names(constant)
    return found


def _read_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # The cell is empty.
        return None


def _name(kind: type) -> str:
    # Without its module: the module name of a user's file depends on how it was started.
    own = f"{kind.__module__}." if _is_known_by_name(kind.__module__) else ""
    return f"{own}{kind.__qualname__}"


@functools.cache
def _is_known_by_name(module: str | None) -> bool:
    """Return whether a module is part of Python, Anabranch or an installed package."""
    if module is None:
        return True
    top = module.partition(".")[0]
    if top == "__main__":
        return False
    if top in ("anabranch", *sys.builtin_module_names) or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and any(folder in file for folder in _INSTALLED)
