"""`anabranch new`: create a small project."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.cli.terminal.screen import GOOD, Screen
from anabranch.errors import InputError

FILES = {
    "README.md": "README.md.txt",
    "balances.py": "balances.py.txt",
    "test_balances.py": "test_balances.py.txt",
    "payments/1.jsonl": "1.jsonl",
    "payments/2.jsonl": "2.jsonl",
}
"""The files of a project, and the templates that they are made from."""

COMMANDS = (
    "anabranch check balances.py",
    "python -m pytest -q",
    "anabranch run balances.py --input payments",
)


def new(
    name: Annotated[
        str,
        Parameter(help="Folder to create: a name such as shop, or a path that ends in one."),
    ],
    /,
) -> int:
    """Create a small project: a program, sample events, a test and a README.

    The folder must not exist; nothing is overwritten.
    """
    folder = Path(name)
    _check_folder(folder, name)
    templates = resources.files("anabranch.cli") / "project"
    try:
        (folder / "payments").mkdir(parents=True)
        for file, template in FILES.items():
            text = (templates / template).read_text(encoding="utf-8")
            (folder / file).write_text(text.replace("NAME", folder.name), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} can't be written", got=str(error)) from error
    screen = Screen()
    screen.write(f"written to {folder}:")
    for file in FILES:
        screen.write(file, indent=2)
    screen.write("\nTry next:")
    for command in (f"cd {folder}", *COMMANDS):
        screen.write(command, indent=2)
    return GOOD


def _check_folder(folder: Path, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z][\w-]*", folder.name, re.ASCII):
        raise InputError(
            f"{name!r} is not a valid project name",
            expected="letters, digits, - and _, starting with a letter",
            got=folder.name or name,
        )
    if folder.exists() or folder.is_symlink():
        raise InputError(
            f"{folder} already exists",
            expected="a folder that does not exist",
            got="a folder" if folder.is_dir() else "a file",
            cure="give another name; nothing is overwritten",
        )
    if not folder.parent.is_dir():
        raise InputError(
            f"there is no folder {folder.parent}",
            expected="an existing folder for the project",
            got=name,
        )
