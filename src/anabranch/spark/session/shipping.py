"""Shipping: let workers have the user's own module, where they can't import it."""

from __future__ import annotations

import importlib.machinery
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from anabranch.model.program import Program

_EVERYWHERE = frozenset({"", "__main__", "anabranch", "builtins"})
"""Workers have these: Anabranch is installed there, and `__main__` always travels with its functions."""


def ship_by_value(program: Program) -> None:
    """Send the modules of a program's event types and functions with them, unless they are installed."""
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
    """Tell whether a module is part of Python or of an installed package, and found there by its name.

    Where its file lies does not tell: the examples lie in an installed package, and are loaded by path.
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
