"""The page on savepoints: its code prints what it shows, after its commands have run."""

import contextlib
import io
import json
import shlex
from itertools import count
from pathlib import Path

import pytest

from anabranch.cli.main import run_command
from anabranch.microbatch.runs.ownership import read_begin
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.savepoints.folders import open_savepoint
from tests.cli.test_docs import BLOCK

PAGE = Path(__file__).parents[2] / "docs" / "savepoints.md"


def test_the_page_shows_what_its_code_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    printed, shown = [], []
    for language, title, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        emitted = io.StringIO()
        if title:
            Path(title).write_text(body, encoding="utf-8")
        elif language == "text":
            shown.append(body)
        elif language == "console":
            with contextlib.redirect_stdout(emitted), contextlib.redirect_stderr(emitted):
                assert run_command(shlex.split(body.partition("\n")[0])[2:]) == 0, (
                    emitted.getvalue()
                )
        elif language == "python":
            with contextlib.redirect_stdout(emitted):
                exec(body, names)
            printed += [emitted.getvalue()] if emitted.getvalue() else []
    assert len(shown) == 3
    assert printed == shown


@pytest.mark.spark
def test_its_code_for_spark_saves_restores_and_rescales(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    Path("rooms.py").write_text(next(body for _, title, body in blocks if title == "rooms.py"))
    Path("in").mkdir()
    seqs = {"sensors": count(), "office": count()}
    for title in ("morning.jsonl", "afternoon.jsonl"):
        text = next(body for _, name, body in blocks if name == title)
        rows = [json.loads(line) for line in text.splitlines()]
        numbered = [json.dumps(row | {"seq": next(seqs[row["channel"]])}) + "\n" for row in rows]
        Path("in", title).write_text("".join(numbered))
    (code,) = [body for language, _, body in blocks if language == "py"]
    for name in ("in", "out", "checkpoint", "out-2", "checkpoint-2"):  # The JVM is elsewhere.
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    exec(code, {"__name__": "page"})
    saved = open_savepoint(Path("savepoints/evening")).manifest
    assert saved.ledger.input == 8
    assert read_begin(Path("checkpoint-2")).savepoint == saved.id
    for folder in ("out", "out-2"):
        assert read_ledger(find_last_batch(folder)).input == 8
