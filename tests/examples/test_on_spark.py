"""Every example runs on Spark as it stands: the file as a script, in one process with one session."""

import runpy
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_it_prints_on_spark_what_it_prints_here(file, spark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(file)])
    runpy.run_path(str(file), run_name="__main__")
    here = capsys.readouterr().out
    outputs = here.count("\n") - 1
    monkeypatch.setattr(sys, "argv", [str(file), "--master", "local[2]", "--shards", "2"])
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out == here + f"the same on Spark: {outputs} outputs, row by row\n"
