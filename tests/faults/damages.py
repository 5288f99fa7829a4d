"""What can happen to a file."""

from pathlib import Path


def delete(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def halve(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def cut_last(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip_first(file: Path) -> None:
    _flip(file, 0)


def flip_middle(file: Path) -> None:
    _flip(file, file.stat().st_size // 2)


def flip_last(file: Path) -> None:
    _flip(file, file.stat().st_size - 1)


def _flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 0x10
    file.write_bytes(data)


DAMAGES = (delete, empty, halve, cut_last, flip_first, flip_middle, flip_last)
