"""Spark's own monitoring of a query: its name, its metrics, how far its files are read."""

import json
from types import SimpleNamespace

import pytest

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.batch_progress import describe_batch
from anabranch.spark.sinks.observed_metrics import read_metrics
from anabranch.spark.sinks.progress import read_batch
from anabranch.spark.sinks.query_names import choose_name

INCS = [
    [{"time": 1, "key": 1}, {"time": 4, "key": 1}],
    [{"time": 2, "key": 1}, {"time": 9, "key": 1}, "nonsense"],
]
READS = [[{"time": 5, "key": 1}], [{"time": 20, "key": 1}]]


def write_files(folder, files):
    folder.mkdir()
    for number, rows in enumerate(files):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (folder / f"{number}.json").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.spark
@pytest.mark.parametrize("sink", ["folder", "function"])
def test_the_progress_of_a_query_has_its_name_its_metrics_and_its_files(spark, tmp_path, sink):
    from anabranch.model.targets import load
    from anabranch.spark import Files, for_each_batch, run, write_directory

    write_files(tmp_path / "incs", INCS)
    write_files(tmp_path / "reads", READS)
    sources = [
        Files(tmp_path / name, format="json", files_per_batch=1, channel=name, event=event_type)
        for name, event_type in (("incs", "Inc"), ("reads", "Read"))
    ]
    result = run(load("examples/key_counter.py"), sources, shards=2)
    if sink == "folder":
        query = write_directory(
            result, output=tmp_path / "out", checkpoint=tmp_path / "checkpoint", available_now=True
        )
    else:
        query = for_each_batch(
            result, lambda batch, _: batch.outputs.collect(), name="counts", available_now=True,
        )  # fmt: skip
    query.awaitTermination()
    first, second = query.recentProgress
    assert first.name == ("key_counter" if sink == "folder" else "counts")
    assert read_metrics(first) == {
        "input_events": 3, "output_rows": 0, "input": 3, "processed": 1, "late": 0, "rejected": 0,
        "shed": 0, "pending": 2, "watermark": 3, "held_back_by": "incs",
    }  # fmt: skip
    assert read_metrics(second) == {
        "input_events": 4, "output_rows": 1, "input": 7, "processed": 3, "late": 1, "rejected": 1,
        "shed": 0, "pending": 2, "watermark": 8, "held_back_by": "incs",
    }  # fmt: skip
    # Spark counts the envelopes that tasks send; what it shows of the channel is how many files there are.
    (files,) = first.sources
    assert json.loads(files.latestOffset)["0"] == {"files": 2, "last": "1.json"}
    assert json.loads(files.endOffset)["0"]["files"] == 1
    line = describe_batch(read_batch(second)).split("  ")
    assert line[1].startswith("4 rows")
    assert line[2] == "3 processed, 1 late, 1 rejected, 2 pending"
    assert line[-1] == "watermark 8, held back by incs"


def test_a_batch_without_rows_has_no_metrics():
    empty = dict.fromkeys(["input_events", *Ledger._fields, "output_rows"])
    assert read_metrics({"observedMetrics": {"anabranch": empty}}) == {}
    assert read_metrics({"observedMetrics": {"theirs": {"rows": 3}}}) == {}


def session_with(*active):
    queries = [SimpleNamespace(name=name) for name in active]
    return SimpleNamespace(streams=SimpleNamespace(active=queries))


def test_a_query_has_the_name_of_its_program_and_a_number_if_that_is_taken():
    assert choose_name(session_with(), None, None) is None
    assert choose_name(session_with(None, "other"), None, "balances") == "balances"
    assert choose_name(session_with("balances"), None, "balances") == "balances-2"
    taken = session_with("balances", "balances-2")
    assert choose_name(taken, None, "balances") == "balances-3"
    assert choose_name(taken, "mine", "balances") == "mine"


@pytest.mark.parametrize("name", ["", " ", 7, "balances"])
def test_a_name_that_is_none_or_taken_is_refused(name, message):
    with pytest.raises(InputError) as refusal:
        choose_name(session_with("balances"), name, "balances")
    if name == "balances":
        message("name_of_an_active_query", str(refusal.value))
