"""Every state of the disk that a crash can leave: a folder as it was before each durable effect of a run.

A disk is a dict of paths to bytes; None is a folder. Beside the state before an effect there are those that a write
leaves which was cut off: some of its bytes.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Disk = dict[str, bytes | None]


class Moment(NamedTuple):
    """A state of the disk, and the effect that comes next, or was cut off."""

    effect: str
    disk: Disk


def read_disk(home: Path) -> Disk:
    """Return the contents of a folder."""
    found: Disk = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for entry in os.scandir(home / folder):
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                found[name] = None
                waiting.append(name)
            else:
                found[name] = Path(entry.path).read_bytes()
    return found


def write_disk(home: Path, disk: Disk) -> None:
    """Write the contents of a folder anew."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for name, data in sorted(disk.items()):
        if data is None:
            (home / name).mkdir()
        else:
            (home / name).write_bytes(data)


class Crash(BaseException):
    """The end of a process: nothing that would still run has a durable effect."""


Before = Callable[[str, Path, list[bytes]], None]
"""Called before an effect: its kind, its path, and the contents that it may leave of a file if it is cut off."""


@contextmanager
def record_effects(home: Path) -> Iterator[list[Moment]]:
    """Yield the moments of all durable effects in a folder, from now on; nothing waits for the disk."""
    moments: list[Moment] = []

    def note(effect: str, path: Path, torn: list[bytes]) -> None:
        name = str(path.relative_to(home))
        disk = read_disk(home)
        for contents in [disk, *(disk | {name: data} for data in torn)]:
            if not moments or moments[-1].disk != contents:
                moments.append(Moment(f"{effect} {name}", contents))

    with _watch_effects(home, note):
        yield moments
    moments.append(Moment("the end", read_disk(home)))


@contextmanager
def crash_at(home: Path, number: int, rng: random.Random) -> Iterator[None]:
    """Raise `Crash` at an effect in a folder, which may be cut off, and at all later ones."""
    left = number

    def count(_: str, path: Path, torn: list[bytes]) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            leave = rng.choice([None, *torn])
            if leave is not None:
                with open(path, "wb") as file:
                    file.write(leave)
        if left < 0:
            raise Crash

    with _watch_effects(home, count):
        yield


@contextmanager
def _watch_effects(home: Path, before: Before) -> Iterator[None]:
    def note(effect: str, path: Path, torn: list[bytes] | None = None) -> None:
        if path.is_relative_to(home):
            before(effect, path, torn or [])

    with pytest.MonkeyPatch.context() as patch:

        def wrap(owner: Any, name: str, look: Callable[..., None]) -> None:
            real = getattr(owner, name)

            @wraps(real)
            def effect(*args: Any, **options: Any) -> Any:
                look(*args, **options)
                return real(*args, **options)

            patch.setattr(owner, name, effect)

        wrap(Path, "write_text", lambda path, text, **_: note("write", path, _cut(text.encode())))
        for move in ("rename", "replace"):
            wrap(Path, move, lambda path, _: note("move", path, _cut_file(path)))
        wrap(os, "writev", lambda handle, views: note("append", *_append(handle, views)))
        wrap(Path, "open", lambda path, mode="r", *_, **__: "w" in mode and note("create", path))
        wrap(Path, "mkdir", lambda path, *_, **__: note("mkdir", path))
        wrap(Path, "unlink", lambda path, *_, **__: note("unlink", path))
        wrap(shutil, "rmtree", lambda path, *_, **__: note("rmtree", Path(path)))
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def _cut(data: bytes) -> list[bytes]:
    return [b"", data[: len(data) // 2]]


def _cut_file(path: Path) -> list[bytes]:
    """Return what a file that is about to be moved may have been before its last write."""
    if not path.is_file():
        return []
    with open(path, "rb") as file:
        data = file.read()
    return [data[: len(data) // 2]]


def _append(handle: int, views: list[Any]) -> tuple[Path, list[bytes]]:
    path = Path(os.readlink(f"/proc/self/fd/{handle}"))
    before, data = path.read_bytes(), b"".join(views)
    cuts = {1, len(data) // 3, len(data) // 2, len(data) - 1}
    return path, [before + data[:cut] for cut in sorted(cuts)]
