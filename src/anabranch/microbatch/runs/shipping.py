"""Shipping: the user's own modules are sent by value to processes that can't import them."""

from __future__ import annotations

import importlib.machinery
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from anabranch.model.program import Program

_EVERYWHERE = frozenset({"", "__main__", "anabranch", "builtins"})
"""Modules that workers have: Anabranch is installed there, and functions of `__main__` are sent by value."""


def list_own_modules(program: Program) -> list[ModuleType]:
    """Return the modules of a program's event types and functions that are not installed."""
    names = {event_type.__module__ for event_type in program.event_types}
    for state_type in program.state_types:
        for handler in state_type.handlers.values():
            names |= {getattr(f, "__module__", "") or "" for f in (handler.update, handler.output)}
    found = [sys.modules.get(name) for name in names if name.partition(".")[0] not in _EVERYWHERE]
    return [module for module in found if module is not None and not is_installed(module)]


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
