"""Mistakes that a new user makes: what the command prints, word for word, and how it ends."""

import gzip
import os

import pytest

from anabranch.cli.main import run_command

PROGRAM = """\
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import MapOf, Sum

class Txn(NamedTuple):
    time: int
    account: str
    amount: int

class Report(NamedTuple):
    time: int
    account: str

totals = Program(
    on(Txn, update=lambda total, txn: total + txn.amount),
    on(Report, output=lambda total, report: (report.account, total)),
    depends(Report, Txn, Report, same="account"),
    state=MapOf(Sum(), by="account"),
)
"""

CHANGEABLE = """\
from dataclasses import dataclass
from anabranch import Program, on

@dataclass
class Txn:
    time: int

totals = Program(on(Txn, update=lambda total, txn: total + 1), init=0)
"""

EVENT = '{"type":"Txn","time":1,"account":"a","amount":1}'
FILES = {
    "app.py": PROGRAM,
    "changeable.py": CHANGEABLE,
    "imports.py": "import nosuchmodule\n",
    "broken.py": "def x(:\n",
    "raises.py": 'raise ValueError("no config")\n',
    "good.jsonl": f"{EVENT}\n",
    "array.jsonl": f"[{EVENT}, {EVENT}]\n",
    "pretty.json": f"[\n{EVENT},\n{EVENT},\n{EVENT}\n]\n",
    "float_time.jsonl": EVENT.replace("1", "1.5", 1) + "\n",
    "text_time.jsonl": EVENT.replace('"time":1', '"time":"2026-01-01"') + "\n",
    "no_tag.jsonl": '{"time":1,"account":"a","amount":1}\n',
    "other_tag.jsonl": '{"type":"Tx","time":1,"account":"a","amount":1}\n',
    "no_time.jsonl": '{"type":"Txn","ts":1,"account":"a","amount":1}\n',
    "semicolons.csv": "event type;time;account;amount\nTxn;1;a;1\n",
    "events.txt": f"{EVENT}\n",
}

MISTAKES = {
    "no_such_file": ("run", "nofile.py"),
    "no_such_module": ("run", "nomodule"),
    "no_such_program": ("run", "app.py:sums", "--input", "good.jsonl"),
    "imports_what_is_not_there": ("run", "imports.py"),
    "syntax_error": ("check", "broken.py"),
    "module_that_raises": ("explain", "raises.py"),
    "event_type_not_frozen": ("check", "changeable.py"),
    "no_input": ("run", "app.py"),
    "misspelt_flag": ("run", "app.py", "--inptu", "good.jsonl"),
    "misspelt_verb": ("rum", "app.py"),
    "missing_input": ("run", "app.py", "--input", "gone.jsonl"),
    "empty_folder": ("run", "app.py", "--input", "empty"),
    "remote_input": ("run", "app.py", "--input", "s3://bucket/events"),
    "compressed_input": ("run", "app.py", "--input", "events.jsonl.gz"),
    "input_without_a_format": ("run", "app.py", "--input", "events.txt"),
    "input_given_twice": ("run", "app.py", "--input", "good.jsonl", "--input", "./good.jsonl"),
    "array_in_a_line": ("run", "app.py", "--input", "array.jsonl"),
    "array_over_lines": ("run", "app.py", "--input", "pretty.json"),
    "float_time": ("run", "app.py", "--input", "float_time.jsonl"),
    "text_time": ("run", "app.py", "--input", "text_time.jsonl"),
    "no_event_type": ("run", "app.py", "--input", "no_tag.jsonl"),
    "other_event_type": ("run", "app.py", "--input", "other_tag.jsonl"),
    "no_time": ("run", "app.py", "--input", "no_time.jsonl"),
    "semicolons": ("run", "app.py", "--input", "semicolons.csv"),
    "lateness_of_no_unit": ("run", "app.py", "--input", "good.jsonl", "--lateness", "soon"),
    "most_rejected_is_a_word": ("run", "app.py", "--input", "good.jsonl", "--most-rejected", "x"),
    "output_without_a_format": ("run", "app.py", "--input", "good.jsonl", "--output", "out.txt"),
    "output_without_its_folder": (
        "run",
        "app.py",
        "--input",
        "good.jsonl",
        "--output",
        "no/o.jsonl",
    ),
    "shards_of_the_reference": ("run", "app.py", "--reference", "--shards", "4"),
    "master_of_nothing": ("run", "app.py", "--input", "good.jsonl", "--master", "nonsense"),
    "output_in_the_input": (
        "run",
        "app.py",
        "--spark",
        "--input",
        "empty",
        "--output",
        "empty/out",
    ),
    "diff_of_a_file_with_a_folder": ("diff", "good.jsonl", "empty"),
    "no_savepoint": ("run", "app.py", "--input", "good.jsonl", "--from", "gone"),
    "law_of_no_name": ("check", "app.py", "--law", "sums_add_up"),
}

FAILED = {
    "array_in_a_line", "float_time", "text_time", "no_event_type", "other_event_type", "no_time",
}  # fmt: skip
"""Mistakes in the data: the run takes place, and fails."""

PASSED = {"array_over_lines"}
"""The last line of such an array is an event."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(EVENT.encode()))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_what_to_do(name, folder, capsys, message):
    code = run_command([*MISTAKES[name]])
    emitted = capsys.readouterr()
    shown = emitted.out if name in PASSED else emitted.err
    assert "Traceback" not in emitted.out + emitted.err
    assert code == (1 if name in FAILED else 0 if name in PASSED else 2)
    message(f"mistake_{name}", shown.replace(f"{folder}{os.sep}", ""))
