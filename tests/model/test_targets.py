import sys
from pathlib import Path

import pytest

from anabranch import load
from anabranch.errors import TargetError
from anabranch.model.targets import load_module

PROGRAM = """
from typing import NamedTuple
from anabranch import Program, on

class Tick(NamedTuple):
    time: int

one = Program(on(Tick), init=0)
"""


def write(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_a_program_is_found_in_a_file_by_its_name(tmp_path):
    file = write(tmp_path, "ticks.py", PROGRAM + "two = Program(on(Tick), init=2)\n")
    assert load(f"{file}:two").init == 2


def test_the_only_program_of_a_file_needs_no_name(tmp_path):
    assert load(write(tmp_path, "ticks.py", PROGRAM)).init == 0


def test_a_program_without_a_name_takes_the_one_it_is_bound_to(tmp_path):
    file = write(tmp_path, "ticks.py", PROGRAM + "two = Program(on(Tick), init=2, name='own')\n")
    assert (load(f"{file}:one").name, load(f"{file}:two").name) == ("one", "own")


def test_a_file_is_loaded_once(tmp_path):
    # Loading it twice would make two classes of each event type.
    file = write(tmp_path, "ticks.py", PROGRAM)
    assert load(file).event_types == load(file).event_types
    assert load_module(file) is load_module(file)


def test_files_of_one_name_are_told_apart(tmp_path):
    (tmp_path / "other").mkdir()
    one = write(tmp_path, "ticks.py", PROGRAM)
    two = write(tmp_path / "other", "ticks.py", PROGRAM.replace("init=0", "init=1"))
    assert (load(one).init, load(two).init) == (0, 1)


def test_a_file_may_import_its_neighbours(tmp_path):
    write(tmp_path, "neighbour_of_ticks.py", "start = 7\n")
    file = write(
        tmp_path,
        "ticks.py",
        PROGRAM.replace("init=0", "init=start") + "",
    )
    Path(file).write_text("from neighbour_of_ticks import start\n" + Path(file).read_text())
    before = list(sys.path)
    assert load(file).init == 7
    assert sys.path == before


def test_a_file_that_fails_is_not_kept(tmp_path):
    file = write(tmp_path, "ticks.py", "raise RuntimeError('not yet')\n")
    with pytest.raises(RuntimeError, match="not yet"):
        load(file)
    Path(file).write_text(PROGRAM)
    assert load(file).name == "one"


def test_a_program_is_found_in_a_module(tmp_path, monkeypatch):
    write(tmp_path, "module_of_ticks.py", PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    assert load("module_of_ticks:one").init == 0
    assert load("module_of_ticks").init == 0


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("target_is_no_file", "nowhere/ticks.py:one"),
        ("target_is_no_module", "no_such_module:one"),
        ("target_has_no_such_name", "ticks.py:three"),
        ("target_is_no_program", "ticks.py:Tick"),
        ("target_holds_two_programs", "ticks.py"),
        ("target_holds_no_program", "empty.py"),
    ],
)
def test_a_target_that_leads_nowhere_is_refused(name, target, tmp_path, monkeypatch, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "ticks.py", PROGRAM + "two = Program(on(Tick), init=2)\n")
    write(tmp_path, "empty.py", "")
    with pytest.raises(TargetError) as refusal:
        load(target)
    message(name, str(refusal.value))
