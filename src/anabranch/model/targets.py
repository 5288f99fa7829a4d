"""Targets: `file.py:name` or `package.module:name`, which name a program on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

from anabranch.errors import TargetError
from anabranch.model.program import Program
from anabranch.model.values.hashing import hash_stably


def load(target: str) -> Program:
    """Return the program that a target names.

    The name may be left out if the module has only one program. A program without a name takes the name
    of its variable.
    """
    place, _, name = target.partition(":")
    module = load_module(place)
    programs = {key: v for key, v in vars(module).items() if isinstance(v, Program)}
    if not name:
        if len(programs) != 1:
            raise TargetError(
                f"{place} has {len(programs) or 'no'} programs",
                expected=f"{place}:NAME",
                got=", ".join(programs) or "none",
            )
        name = next(iter(programs))
    found = getattr(module, name, None)
    if not isinstance(found, Program):
        raise TargetError(
            f"{place} has no program {name!r}",
            expected=f"one of {', '.join(programs)}" if programs else "a Program at module level",
            got="nothing of that name" if found is None else f"a {type(found).__name__}",
        )
    return found.changed(name=name) if found.name == "program" else found


def load_module(place: str) -> ModuleType:
    """Import a file or a module."""
    if place.endswith(".py") or os.sep in place:
        return _load_file(place)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise TargetError(
            f"there is no module {place!r}",
            expected="file.py:name or package.module:name",
            got=str(error),
            cure="name a file with its .py suffix",
        ) from error


def _load_file(path: str) -> ModuleType:
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise TargetError(f"there is no file {path!r}", expected="file.py:name", got=path)
    # One module per path: loading it twice would create two classes for each event type.
    name = f"{os.path.splitext(os.path.basename(full))[0]}_{hash_stably(full):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(full))  # As `python file.py` would: neighbours import.
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(os.path.dirname(full))
    return module
