"""The shelf: generated sources on disk, and beside each what Numba made of it.

A file is named for its content, so nothing on the shelf is ever changed: a new worker process that
finds its kernel there loads machine code instead of compiling. Numba checks nothing of what it loads, so a
seal says what it wrote; whatever is not that is thrown away, and compiled again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from anabranch.publication import publish_file

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None  # type: ignore[assignment]

_MADE_AT = 1_000_000_000
"""All files are as old: Numba takes another time stamp for a change, and would compile again."""

_PATIENCE_S = 60.0
"""How long a process waits for another one that compiles the same source."""

_LONGEST_REASON = 300

_FAILURES: dict[str, str] = {}
"""What this process could not compile, and why: it does not try again with each batch."""


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
    module = ModuleType(name)
    # Numba looks the module of cached machine code up by its name.
    sys.modules[name] = module
    try:
        with _wait_turn(file):
            _compile(module, source, file)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def try_load(source: str) -> Any:
    """Return the module of a generated source, or None where Numba can't make it on this machine."""
    if source in _FAILURES:
        return None
    try:
        return load(source)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, Python gives the answer
        told = " ".join(str(error).split())[:_LONGEST_REASON]
        _FAILURES[source] = f"Numba failed: {type(error).__name__}: {told}"
        warnings.warn(f"a kernel is interpreted: {_FAILURES[source]}", stacklevel=3)
        return None


def find_failure(source: str) -> str | None:
    """Say why a source could not be compiled, if this process has tried."""
    return _FAILURES.get(source)


def _compile(module: ModuleType, source: str, file: Path) -> None:
    """Run a source, which has Numba load what is beside it or else compile."""
    if _read_seal(file) == _digest(file) or _clear(file):
        try:
            _run(module, source, file)
        except Exception:  # noqa: BLE001 - Numba may fail on a file of its own in many ways
            _clear(file)
        else:
            _write_seal(file)
            return
    # The source may be good, and only the disk full: once more, with nothing kept.
    _run(module, source.replace(", cache=True", ""), file)


def _run(module: ModuleType, source: str, file: Path) -> None:
    exec(compile(source, str(file), "exec"), vars(module))  # noqa: S102 - generated, by us


def _seal(file: Path) -> Path:
    """Return where the digest of what Numba wrote stands."""
    return file.with_suffix(".seal")


def _read_seal(file: Path) -> str:
    try:
        return _seal(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _write_seal(file: Path) -> None:
    digest = _digest(file)
    if _read_seal(file) != digest:
        with suppress(OSError):
            _replace(_seal(file), digest)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    for kept in _list_kept(file):
        with suppress(OSError):
            data = kept.read_bytes()
            digest.update(f"{kept.name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _list_kept(file: Path) -> list[Path]:
    """Return what Numba keeps of a source."""
    return sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.nb[ic]"))


def _clear(file: Path) -> bool:
    """Throw away what Numba keeps of a source; say whether nothing is left."""
    for kept in _list_kept(file):
        with suppress(OSError):
            kept.unlink()
    return not _list_kept(file)


@contextmanager
def _wait_turn(file: Path) -> Iterator[None]:
    """Let one process at a time compile a source; the next one then finds what it made."""
    if fcntl is None:
        yield
        return
    with ExitStack() as held:
        # A disk may be read-only, or know no locks: then everybody compiles.
        with suppress(OSError):
            lock = held.enter_context(file.with_suffix(".lock").open("w"))
            end = time.monotonic() + _PATIENCE_S
            while not _lock(lock) and time.monotonic() < end:
                time.sleep(0.02)
        yield


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
    # Others may write the same file now; whoever is last leaves the same bytes and time.
    _replace(file, source)
    return file


def _replace(file: Path, text: str) -> None:
    with publish_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
        os.utime(partial, (_MADE_AT, _MADE_AT))


def _check_owner(shelf: Path) -> None:
    """Refuse a folder in which others may write: what lies there is executed."""
    if os.name != "posix":
        return
    found = shelf.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{shelf} can be written by others")
