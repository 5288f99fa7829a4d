"""The shelf: generated sources on disk, and beside each what Numba made of it.

A file is named for its content, so nothing on the shelf is ever changed: a new worker process that
finds its kernel there loads machine code instead of compiling.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_MADE_AT = 1_000_000_000
"""All files are as old: Numba takes another time stamp for a change, and would compile again."""


def find_shelf() -> Path:
    """Return the folder of compiled kernels: ANABRANCH_CACHE, or the user's own cache."""
    named = os.environ.get("ANABRANCH_CACHE")
    if named:
        return Path(named) / "kernels"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home())
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "anabranch" / "kernels"


def load(source: str) -> Any:
    """Return the module of a generated source, compiled now or before."""
    key = _name(source)
    name = f"anabranch_kernel_{key}"
    if name in sys.modules:
        return sys.modules[name]
    file = _place(source, f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Numba looks the module of cached machine code up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _name(source: str) -> str:
    import numba

    # The arithmetic is part of what was compiled, though it stands in another file.
    arithmetic = Path(__file__).with_name("arithmetic.py").read_bytes()
    parts = (source.encode(), arithmetic, numba.__version__.encode(), sys.version.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _place(source: str, name: str) -> Path:
    """Put a source on the shelf, if it is not there yet."""
    shelf = find_shelf()
    try:
        return _write(shelf, source, name)
    except OSError:
        # A worker may run as a user without a home, or on a disk that can't be written.
        return _write(Path(tempfile.mkdtemp(prefix="anabranch-")), source, name)


def _write(shelf: Path, source: str, name: str) -> Path:
    shelf.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_owner(shelf)
    file = shelf / name
    if file.exists() and file.read_text(encoding="utf-8") == source:
        return file
    handle, draft = tempfile.mkstemp(dir=shelf, suffix=".draft")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(source)
    os.utime(draft, (_MADE_AT, _MADE_AT))
    # Others may write the same file now; whoever is last leaves the same bytes and time.
    os.replace(draft, file)
    return file


def _check_owner(shelf: Path) -> None:
    """Refuse a folder in which others may write: what lies there is executed."""
    if os.name != "posix":
        return
    found = shelf.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{shelf} can be written by others")
