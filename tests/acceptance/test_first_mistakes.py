"""The mistakes of a new user's first day: each is refused or reported, with the place and what to do."""

import subprocess
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from anabranch import AnabranchError, Event, run
from anabranch.sources import Channel, Files
from anabranch.state import Count, Max
from anabranch.windows import Tumbling, aggregate
from tests.conftest import clean_environment

TYPO = """\
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import MapOf, Sum

class Txn(NamedTuple):
    time: int
    account: str
    cents: int

def add(total, txn):
    return total + txn.cent

totals = Program(
    on(Txn, update=add),
    depends(Txn, Txn, same="account"),
    state=MapOf(Sum(), by="account"),
)
"""


def call(installed, folder, *arguments):
    ended = subprocess.run(
        [installed / "anabranch", *arguments],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_typo_in_an_update_fails_the_check_and_the_run_with_its_line(installed, tmp_path):
    (tmp_path / "app.py").write_text(TYPO)
    (tmp_path / "in").mkdir()
    lines = [f'{{"time": {n}, "account": "a", "cents": 1}}\n' for n in range(20)]
    (tmp_path / "in" / "1.jsonl").write_text("".join(lines))
    for arguments in (("check", "app.py"), ("run", "app.py", "--input", "in")):
        code, shown = call(installed, tmp_path, *arguments)
        assert code == 1, shown
        assert "'Txn' object has no attribute 'cent'" in shown
        assert "app.py:11" in shown
        assert "keeps its laws" not in shown
    assert shown.count("has no attribute 'cent'") <= 3, "a reason is counted, not repeated"
    assert "20" in shown


class Visit(NamedTuple):
    time: datetime
    user: str
    seconds: float


visits = aggregate(Visit, Tumbling("10 min"), per="user", n=Count(), top=(Max(), "seconds"))


def test_a_lateness_without_a_unit_is_refused_and_a_duration_is_not(tmp_path):
    with pytest.raises(AnabranchError, match=r'a duration: "5 s", or timedelta\(seconds=5\)'):
        run(visits, [], channels=[Channel("web", lateness=5)])
    events = [
        Event(Visit(datetime.fromisoformat(time), "ada", 1.5), "web", number)
        for number, time in enumerate(["2026-07-01T12:04:00Z", "2026-07-01T12:00:00Z"])
    ]
    for lateness in ("5 minutes", timedelta(minutes=5)):
        answer = run(visits, events, channels=[Channel("web", lateness=lateness)])
        assert answer.late == []
        assert answer.ledger.processed + answer.ledger.pending == 2


def test_an_aggregate_of_no_field_is_refused_where_it_is_written():
    with pytest.raises(AnabranchError, match=r"seconts(.|\n)*test_first_mistakes\.py:\d+"):
        aggregate(Visit, Tumbling("10 min"), per="user", top=(Max(), "seconts"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("time timestamp, user string, seq long", ["seconds"]),
        ("time int, user string, seconds double, seq long", ["time", "int"]),
        ("time timestamp, user string, seconds decimal(5,2), seq long", ["seconds", "decimal"]),
        ("time timestamp, user string, seconds double", ["seq"]),
    ],
    ids=["no column", "a number for a timestamp", "a decimal for a float", "no sequence"],
)
def test_a_frame_that_no_event_fits_is_refused_before_it_runs(spark, columns, named):
    from anabranch.spark import Frame

    frame = spark.createDataFrame([], columns)
    with pytest.raises(AnabranchError) as refusal:
        run(visits, Frame(frame, seq="seq", lateness="5 s"), on=spark)
    for word in named:
        assert word in str(refusal.value)


@pytest.mark.spark
def test_parquet_that_no_event_fits_is_refused_before_it_runs(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"time": pa.array([], pa.timestamp("us")), "user": pa.array([], pa.string())})
    pq.write_table(table, tmp_path / "1.parquet")
    with pytest.raises(AnabranchError, match="seconds"):
        run(visits, Files(tmp_path, lateness="5 s", ended=True), on=spark)
