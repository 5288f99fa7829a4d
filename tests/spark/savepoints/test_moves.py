"""Runs that move: from the embedded runtime to Spark and back, with other shards, in mid-segment."""

import random
from dataclasses import replace

import pytest

from anabranch import local
from anabranch.microbatch.runs.ownership import find_last
from anabranch.savepoints.folders import open_savepoint
from tests.local.test_crashes import CASES
from tests.local.test_savepoints import change_shards, draw, read_outputs, read_rows

MOVES = {
    "forked, columns": CASES["forked, columns"],
    "deferred outputs": draw("deferring", 3, shards=2),
    "tumbling windows, columns": CASES["tumbling windows, columns"],
    "timers": draw("silent", 4, shards=2),
    "speculative, keyed": CASES["speculative, keyed"],
    "speculative, forked": draw("levels", 5, shards=2, mode="speculative"),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", MOVES)
def test_differential_a_run_goes_to_spark_and_back(spark, name, tmp_path):
    from anabranch.spark import create_savepoint, restore_savepoint, run, write_directory

    case = replace(MOVES[name], files=3)
    parts = case.stream.cut(random.Random(case.seed), 3)
    inputs, whole = tmp_path / "in", tmp_path / "whole"
    laptop, cluster, back = (tmp_path / home for home in ("laptop", "cluster", "back"))
    case.stream.write(inputs, parts[:1])
    case.start(inputs, laptop).wait()
    first = local.create_savepoint(tmp_path / "one", checkpoint=laptop / "checkpoint")

    options = {key: value for key, value in case.options.items() if key not in ("cores", "format")}
    options |= {"shards": 3}
    folders = {"output": cluster / "out", "checkpoint": cluster / "checkpoint"}
    source = case.stream.files(inputs)
    restore_savepoint(first, case.program, source, **folders, format="json", spark=spark, **options)
    case.stream.write(inputs, parts[1:2], 1)
    result = run(case.program, source, spark=spark, **options)
    write_directory(result, **folders, format="json", available_now=True).awaitTermination()
    second = create_savepoint(tmp_path / "two", checkpoint=cluster / "checkpoint", spark=spark)
    assert open_savepoint(second).manifest.runtime == "spark"

    other = change_shards(case, 4)
    chosen = {"format": "json", "cores": 1, "sync": "system"} | other.options
    local.restore_savepoint(
        second, case.program, source, output=back / "out", checkpoint=back / "checkpoint", **chosen
    )
    case.stream.write(inputs, parts[2:], 2)
    other.start(inputs, back).wait()
    expected = case.expect()
    assert read_outputs(case, laptop, cluster, back) == (expected.outputs, expected.ledger)
    case.start(inputs, whole).wait()
    rows = [read_rows(case, home) for home in (laptop, cluster, back)]
    assert rows[1][0] == rows[2][0] == []  # The first batch restores.
    found = [batch for some in (rows[0], rows[1][1:], rows[2][1:]) for batch in some if batch]
    assert found == [batch for batch in read_rows(case, whole) if batch]
    assert find_last(laptop / "out", "batch=*") == 0
