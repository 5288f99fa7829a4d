"""The code cache: generated sources on disk, each with the machine code that Numba compiled from it.

A file is named by a digest of its content, so a cached file never changes: a new Spark worker
process that finds its kernel in the cache loads machine code instead of compiling. Numba does not
verify the files it loads, so a seal stores their digest; files that do not match it are deleted and
compiled again.
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

from anabranch.kernels.availability import LOADING
from anabranch.publication import publish_file

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None  # type: ignore[assignment]

_MADE_AT = 1_000_000_000
"""The time stamp of all files: Numba takes another time stamp for a change and compiles again."""

_PATIENCE_S = 60.0
"""Seconds that a process waits for another one that compiles the same source."""

_LONGEST_REASON = 300

_LOADED: dict[str, ModuleType] = {}
"""The modules of this process by their sources."""

_FAILURES: dict[str, str] = {}
"""Sources that this process could not compile, and why: it does not try again with each batch."""


def find_cache_folder() -> Path:
    """Return the folder of compiled kernels: `$ANABRANCH_CACHE/kernels`, or the user's cache folder."""
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
    """Return the module of a generated source, compiled now or loaded from the cache."""
    found = _LOADED.get(source)
    if found is not None:
        return found
    with LOADING:  # A module that is still being executed is not visible to other threads.
        if source not in _LOADED:
            _LOADED[source] = _load(source)
        return _LOADED[source]


def _load(source: str) -> ModuleType:
    name = f"anabranch_kernel_{_name(source)}"
    file = _place(source, f"{name}.py")
    module = ModuleType(name)
    # Numba finds the module of cached machine code by its name.
    sys.modules[name] = module
    try:
        with _wait_turn(file):
            _compile(module, source, file)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def try_load(source: str) -> Any:
    """Return the module of a generated source, or None if Numba can't compile it on this machine."""
    if source in _FAILURES:
        return None
    try:
        return load(source)
    except Exception as error:  # noqa: BLE001 - whatever fails, Python computes the result
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        _FAILURES[source] = f"Numba failed: {type(error).__name__}: {reason}"
        warnings.warn(f"a kernel is interpreted: {_FAILURES[source]}", stacklevel=3)
        return None


def find_failure(source: str) -> str | None:
    """Return why a source could not be compiled, or None if this process has not tried or succeeded."""
    return _FAILURES.get(source)


def _compile(module: ModuleType, source: str, file: Path) -> None:
    """Execute a source, for which Numba loads its cached machine code or else compiles."""
    if _read_seal(file) == _digest(file) or _clear(file):
        try:
            _run(module, source, file)
        except Exception:  # noqa: BLE001 - Numba may fail on a file of its own in many ways
            _clear(file)
        else:
            _write_seal(file)
            return
    # The source may be good and only the disk full: try once more without the cache.
    _run(module, source.replace(", cache=True", ""), file)


def _run(module: ModuleType, source: str, file: Path) -> None:
    exec(compile(source, str(file), "exec"), vars(module))  # noqa: S102 - generated, by us


def _seal(file: Path) -> Path:
    """Return the path of the file with the digest of Numba's files."""
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
    """Return the files that Numba cached for a source."""
    return sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.nb[ic]"))


def _clear(file: Path) -> bool:
    """Delete the files that Numba cached for a source; return whether none is left."""
    for kept in _list_kept(file):
        with suppress(OSError):
            kept.unlink()
    return not _list_kept(file)


@contextmanager
def _wait_turn(file: Path) -> Iterator[None]:
    """Lock a source, so that one process at a time compiles it and the next one finds the result."""
    if fcntl is None:
        yield
        return
    with ExitStack() as held:
        # A disk may be read-only, or not support locks: then every process compiles.
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

    # The arithmetic is compiled into the kernel, though its source is another file.
    arithmetic = Path(__file__).with_name("arithmetic.py").read_bytes()
    parts = (source.encode(), arithmetic, numba.__version__.encode(), sys.version.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _place(source: str, name: str) -> Path:
    """Write a source into the cache, unless it is cached already; return its file."""
    folder = find_cache_folder()
    try:
        return _write(folder, source, name)
    except OSError:
        # A Spark worker process may run as a user without a home, or on a read-only disk.
        return _write(Path(tempfile.mkdtemp(prefix="anabranch-")), source, name)


def _write(folder: Path, source: str, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_owner(folder)
    file = folder / name
    if file.exists() and file.read_text(encoding="utf-8") == source:
        return file
    # Other processes may write the same file now; the last one leaves the same bytes and time.
    _replace(file, source)
    return file


def _replace(file: Path, text: str) -> None:
    with publish_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
        os.utime(partial, (_MADE_AT, _MADE_AT))


def _check_owner(folder: Path) -> None:
    """Raise PermissionError for a folder that other users may write: its files are executed."""
    if os.name != "posix":
        return
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by other users")
