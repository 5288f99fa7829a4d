"""The listener of docs/monitoring.md hears what the page shows, in the project of `anabranch new`."""

import re
import sys
from pathlib import Path

import pytest

from anabranch.cli.main import run_command

PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"


@pytest.mark.spark
def test_the_listener_of_the_page_prints_what_the_page_shows(spark, tmp_path, monkeypatch, capsys):
    page = PAGE.read_text(encoding="utf-8")
    code, shown = re.search(
        r"```python title=\"listen.py\"\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL
    ).groups()
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", "shop"]) == 0
    capsys.readouterr()
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.syspath_prepend(str(tmp_path / "shop"))
    try:
        exec(compile(code, "listen.py", "exec"), {"__name__": "listen"})
    finally:
        sys.modules.pop("balances", None)
    assert capsys.readouterr().out == shown


def test_every_metric_is_explained_on_the_page():
    from anabranch.eventtime.ledger import Ledger

    names = re.findall(r"^\| `(\w+)` \| (?:this batch|since|now)", PAGE.read_text(), re.MULTILINE)
    assert names == [
        "input_events", "output_rows", *Ledger._fields, "watermark", "held_back_by",
    ]  # fmt: skip


def test_the_line_of_the_page_is_what_is_printed_of_such_a_batch():
    from anabranch.eventtime.ledger import Ledger
    from anabranch.microbatch.runs.batch_progress import Batch, describe_batch
    from anabranch.microbatch.runs.published_batches import Watermarks

    ledger, watermarks = (
        Ledger(96_000, 94_998, 2, 1, 0, 999),
        Watermarks(4, {"north": 9, "south": 4}),
    )
    line = describe_batch(Batch(7, 12_000, 8_000.0, 42, 3_000_000, ledger, watermarks))
    assert ledger.balanced
    assert line in PAGE.read_text(encoding="utf-8").splitlines()
