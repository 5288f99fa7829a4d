"""Shipping: the user's own modules are sent to workers, which can't import them."""

from __future__ import annotations

import importlib.machinery
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from anabranch.model.program import Program

_EVERYWHERE = frozenset({"", "__main__", "anabranch", "builtins"})
"""Modules that workers have: Anabranch is installed there, and functions of `__main__` are sent by value."""


def ship_by_value(program: Program) -> None:
    """Pickle the event types and functions of a program by value, unless their modules are installed."""
    from pyspark import cloudpickle

    names = {event_type.__module__ for event_type in program.event_types}
    for state_type in program.state_types:
        for handler in state_type.handlers.values():
            names |= {getattr(f, "__module__", "") or "" for f in (handler.update, handler.output)}
    for name in names:
        module = None if name.partition(".")[0] in _EVERYWHERE else sys.modules.get(name)
        if module is not None and not is_installed(module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def is_installed(module: ModuleType) -> bool:
    """Return whether a module is part of Python or of an installed package, and found there by its name.

    The place of its file is not enough: the examples are in an installed package, and are loaded by path.
    """
    top = module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None)
    if file is None or top in sys.stdlib_module_names:
        return True
    spec = importlib.machinery.PathFinder.find_spec(top, _list_installed_paths())
    if spec is None:
        return False
    places = spec.submodule_search_locations or [spec.origin or ""]
    return any(Path(file).resolve().is_relative_to(Path(place).resolve()) for place in places)


def _list_installed_paths() -> list[str]:
    known = {"site-packages", "dist-packages"}
    paths = [path for path in sys.path if known & set(Path(path).parts)]
    return [*paths, *(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
