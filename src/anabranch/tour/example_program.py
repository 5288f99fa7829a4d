"""The example program of the tour."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from anabranch.errors import TargetError
from anabranch.model.program import Program
from anabranch.model.targets import load_module

EXAMPLE = "taxi_tips"


def find_example(name: str = EXAMPLE) -> Path:
    """Return the file of an example, in the installed package or beside its source code."""
    package = Path(__file__).parent.parent
    for folder in (package / "_examples", package.parent.parent / "examples"):
        if (folder / f"{name}.py").is_file():
            return folder / f"{name}.py"
    raise TargetError("the examples were not installed", expected=str(package / "_examples"))


def load_example() -> ModuleType:
    """Return the example as a module: the program, a small input and plans."""
    return load_module(str(find_example()))


def load_program() -> Program:
    """Return the example's program."""
    program = getattr(load_example(), EXAMPLE)
    assert isinstance(program, Program)
    return program
