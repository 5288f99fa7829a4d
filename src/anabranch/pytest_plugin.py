"""A plugin for pytest: the fixtures `program` and `check_program`.

`@pytest.mark.program("rooms.py")` names the program of a test, a class or a module, as on the command line;
the setting `anabranch_program` names that of a project. `--anabranch-on reference,simulated,spark` and
`--anabranch-seed 7` set the runtimes and the first seed of `check_program`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.model.targets import load


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the setting."""
    group = parser.getgroup("anabranch")
    group.addoption(
        "--anabranch-on",
        default="reference,speculative,simulated",
        help="Runtimes of check_program, separated by commas (default: all except spark).",
    )
    group.addoption(
        "--anabranch-seed", type=int, default=0, help="First seed of check_program (default 0)."
    )
    parser.addini("anabranch_program", "Program of the tests: FILE.py or FILE.py:NAME.")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "program(target): the program of a test, FILE.py or FILE.py:NAME"
    )


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Program:
    """Return the program that the marker or the setting `anabranch_program` names."""
    marker = request.node.get_closest_marker("program")
    target = marker.args[0] if marker is not None and marker.args else None
    target = target or request.config.getini("anabranch_program")
    if not target:
        raise InputError(
            "the fixture `program` has no program",
            where=request.node.nodeid,
            expected='@pytest.mark.program("rooms.py"), or anabranch_program in the settings of pytest',
            got="neither",
        )
    return _load(str(target), str(request.config.rootpath))


@pytest.fixture
def check_program(request: pytest.FixtureRequest, program: Program) -> Callable[..., Any]:
    """Return `anabranch.testing.check` for the program, on the runtimes of `--anabranch-on`."""
    from anabranch.testing import check

    on = [name.strip() for name in request.config.getoption("--anabranch-on").split(",")]
    seed = request.config.getoption("--anabranch-seed")

    def run(events: Iterable[Any], expected: Sequence[Any] | None = None, **options: Any) -> Any:
        return check(program, events, expected=expected, **{"on": on, "seed": seed, **options})

    return run


@cache
def _load(target: str, root: str) -> Program:
    """Return a program by its target; a path is relative to the root of the tests.

    If a test has imported the file, that module is used, so that its event types are those of the program.
    """
    path, _, name = target.partition(":")
    place = Path(root, path)
    found = path
    if place.is_file():
        known = {getattr(module, "__file__", None): key for key, module in sys.modules.items()}
        found = known.get(str(place), str(place))
    return load(f"{found}:{name}" if name else found)
