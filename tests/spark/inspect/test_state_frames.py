"""The state of a query as a frame, by SQL, over HTTP and through its history: at each batch, the fold's."""

import _thread
import contextlib
import io
import json
import re
import shlex
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.cli.main import run_command
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.windows.window_types import Tumbling
from anabranch.model.shapes import WrittenShape
from anabranch.query.window_aggregates import aggregate
from anabranch.reference.sequential import run as fold
from anabranch.state import Count, MapOf, Sum
from tests.microbatch.streams import Stream

pytestmark = pytest.mark.spark


class Deposit(NamedTuple):
    time: int
    account: str
    amount: int


class Close(NamedTuple):
    time: int
    account: str


class Stats(NamedTuple):
    count: int = 0
    total: int = 0
    last: int | None = None


def add(stats, deposit):
    return Stats(stats.count + 1, stats.total + deposit.amount, deposit.time)


accounts = Program(
    on(Deposit, update=add),
    on(Close, output=lambda stats, close: stats.total, update=lambda stats, close: Stats()),
    depends(Close, Deposit, Close, same="account"),
    depends(Deposit, Deposit, same="account"),
    state=MapOf(WrittenShape(Stats()), by="account"),
)
CHANNELS = (Channel("north", unique_times=True), Channel("south", unique_times=True))
NAMES = ("ann", "bob", "a,b/c?d=é", "dan")


def make_parts():
    """Return what each of five batches brings; the fourth brings nothing stable."""
    parts = []
    for number in range(5):
        part = []
        for place, channel in enumerate(CHANNELS):
            for step in range(4 if number != 3 or place else 0):
                time = number * 40 + step * 10 + place
                name = NAMES[(number * step + place) % (3 if number < 4 else 4)]
                data = Close(time, name) if (number, step) == (2, 3) else Deposit(time, name, time)
                part.append(Event(data, channel.name, time))
        parts.append(part)
    return parts


PARTS = make_parts()


def expect(batch, program=accounts):
    """Return the fold of what has come up to a batch."""
    return fold(program, [item for part in PARTS[: batch + 1] for item in part], CHANNELS)


def start(spark, home, columns, *, program=accounts, count=5, trigger=None, **options):
    from anabranch.spark import run, write_directory

    stream = Stream(program, CHANNELS, [item for part in PARTS for item in part])
    stream.write(home / "in", PARTS[:count])
    reader = spark.readStream.schema(stream.schema).option("maxFilesPerTrigger", 1)
    frame = reader.json(str(home / "in"))
    columnar = "auto" if columns else "never"
    result = run(program, stream.source(frame), shards=3, columnar=columnar)
    query = write_directory(
        result,
        output=home / "out",
        checkpoint=home / "checkpoint",
        available_now=trigger is None,
        trigger=trigger,
        **options,
    )
    return stream, query


def read_rows(frame):
    return {row.key: Stats(row["count"], row["total"], row["last"]) for row in frame.collect()}


def ask(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}") as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "objects"])
def test_oracle_frames_histories_and_look_ups_are_the_fold_at_each_batch(spark, tmp_path, columns):
    from anabranch.microbatch.inspect.stored_state import ContentsError
    from anabranch.spark import history, state
    from anabranch.spark.checkpoint.state_values import find_batches
    from anabranch.spark.inspect.follower import Follower
    from anabranch.spark.inspect.http_server import Server

    checkpoint = tmp_path / "checkpoint"
    stream, query = start(
        spark, tmp_path, columns, count=2, trigger={"processingTime": "0 seconds"}
    )
    try:
        while find_batches(checkpoint) != [0, 1]:
            query.awaitTermination(0.1)
        with Server(Follower(query)) as server:
            for batch in (1, 2, 3, 4):
                if batch > 1:
                    stream.write(tmp_path / "in", PARTS[batch : batch + 1], start=batch)
                while ask(server, "/batch")[1]["batch"] < batch:
                    query.awaitTermination(0.05)
                assert query.isActive
                answer = expect(batch)
                stand = {"batch": batch, "watermark": answer.watermark}
                for name in NAMES:
                    status, found = ask(server, f"/state/{urllib.request.quote(name, safe='')}")
                    stats = answer.state.get(name, None)
                    if stats is None:
                        assert status == 404
                    else:
                        assert (status, found) == (
                            200, {"key": name, "value": stats._asdict(), **stand},
                        )  # fmt: skip
            several = ask(server, "/state?keys=bob,nobody,ann")[1]
            assert [one["key"] for one in several["found"]] == ["bob", "ann"]
            assert (several["missing"], several["batch"]) == (["nobody"], 4)
            assert read_rows(state(query)) == dict(expect(4).state.entries())
            assert read_rows(state(query, batch=2)) == dict(expect(2).state.entries())
    finally:
        query.stop()
    assert state(checkpoint, batch=0).columns == ["key", "count", "total", "last"]
    assert read_rows(state(checkpoint, batch=0)) == dict(expect(0).state.entries())
    with pytest.raises(ContentsError, match="the state of batch 5 is not kept"):
        state(checkpoint, batch=5)
    for name in ("bob", NAMES[3], "nobody"):
        changes, told = [], None
        for batch in range(5):
            answer = expect(batch)
            stats = answer.state.get(name, None)
            if stats != told:
                told = stats
                changes.append((batch, answer.watermark, tuple(stats)))
        assert [(b, f, tuple(v)) for b, f, v in history(checkpoint, name)] == changes


@pytest.fixture(scope="module")
def stopped(spark, tmp_path_factory):
    """Return the checkpoint of a run that is over."""
    home = tmp_path_factory.mktemp("stopped")
    _, query = start(spark, home, True)
    query.awaitTermination()
    return home / "checkpoint"


def test_oracle_sql_answers_from_one_batch(stopped, capsys, message):
    sql = "select key, total from state where count > 0 order by total desc, key"
    for batch in (4, 1):
        options = [] if batch == 4 else ["--batch", "1"]
        assert run_command(["state", "query", str(stopped), sql, "--json", *options]) == 0
        found = json.loads(capsys.readouterr().out)
        answer = expect(batch)
        expected = [(s.total, key) for key, s in answer.state.entries().items() if s.count]
        expected.sort(key=lambda pair: (-pair[0], pair[1]))
        assert [(row["total"], row["key"]) for row in found["rows"]] == expected
        assert (found["batch"], found["watermark"]) == (batch, answer.watermark)
    sql = "select s.name, s.watermark, l.pending, (select count(*) from pending) as waiting from channels s, ledger l"
    assert run_command(["state", "query", str(stopped), sql, "--json", "--limit", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    answer = expect(4)
    (row,) = found["rows"]
    assert row["watermark"] == answer.watermarks[row["name"]]
    assert row["pending"] == row["waiting"] == answer.ledger.pending > 0
    assert found["more"] is True
    assert run_command(["state", "query", str(stopped), "select sum from state"]) == 2
    message("state_query_of_no_column", capsys.readouterr().err)
    assert run_command(["state", "query", str(stopped), "selekt * from state"]) == 2
    message("state_query_of_no_sql", capsys.readouterr().err)
    assert run_command(["state", "query", str(stopped), "select * from stat"]) == 2
    message("state_query_of_no_table", capsys.readouterr().err)


def test_the_command_tells_the_history_of_a_key(stopped, capsys):
    assert run_command(["state", "history", str(stopped), "bob", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[-1]["value"] == expect(4).state.get("bob")._asdict()
    assert found[-1]["watermark"] == expect(found[-1]["batch"]).watermark
    assert run_command(["state", "history", str(stopped), "bob"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(found) + 2
    assert run_command(["state", "history", str(stopped), "nobody"]) == 0
    assert "nobody has no entry in the batches that are kept" in capsys.readouterr().out


def test_slices_of_windows_are_rows_by_key_and_start(spark, tmp_path):
    from anabranch.spark import state

    program = aggregate(Deposit, Tumbling(50), per="account", n=Count(), sum=(Sum(), "amount"))
    parts = [[item for item in part if isinstance(item.data, Deposit)] for part in PARTS]
    stream = Stream(program, CHANNELS, [item for part in parts for item in part])
    stream.write(tmp_path / "in", parts)
    from anabranch.spark import run, write_directory

    reader = spark.readStream.schema(stream.schema).option("maxFilesPerTrigger", 1)
    source = stream.source(reader.json(str(tmp_path / "in")))
    result = run(program, source, shards=2)
    write_directory(
        result, output=tmp_path / "out", checkpoint=tmp_path / "checkpoint", available_now=True
    ).awaitTermination()
    came = [item for part in parts for item in part]
    watermark = fold(program, came, CHANNELS).watermark
    expected = {}
    for item in came:
        first = item.time // 50 * 50
        if item.time <= watermark < first + 49:
            events, total = expected.get((item.data.account, first), (0, 0))
            expected[item.data.account, first] = events + 1, total + item.data.amount
    rows = state(tmp_path / "checkpoint").collect()
    assert {(r.key, r.start): (r.events, r.sum_amount) for r in rows} == expected


def test_a_checkpoint_that_is_none_is_refused_before_spark_starts(tmp_path, capsys, message):
    for verb in (["query", "nowhere"], ["history", "nowhere", "x"], ["serve", "nowhere"]):
        assert run_command(["state", *verb]) == 2
        shown = capsys.readouterr().err
    message("state_of_no_checkpoint", shown)


def test_the_command_serves_until_it_is_interrupted(spark, stopped, capsys):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen = []

    def look_and_interrupt():
        place = f"http://127.0.0.1:{port}/state/bob"
        while not seen:
            with contextlib.suppress(OSError), urllib.request.urlopen(place) as reply:
                seen.append(json.load(reply))
            time.sleep(0.05)
        _thread.interrupt_main()

    looking = threading.Thread(target=look_and_interrupt)
    looking.start()
    assert run_command(["state", "serve", str(stopped), "--port", str(port)]) == 130
    looking.join()
    assert seen[0]["value"] == expect(4).state.get("bob")._asdict()
    assert f"serving batch 4 at http://127.0.0.1:{port}/state" in capsys.readouterr().out
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def test_a_port_that_is_taken_is_refused(spark, stopped, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run_command(["state", "serve", str(stopped), "--port", port]) == 2
    assert f"nothing can be served at 127.0.0.1:{port}" in capsys.readouterr().err


def read_export(folder):
    import duckdb

    rows = duckdb.sql(f"select key, count, total, last from '{folder}/latest/*.parquet'").fetchall()
    return {key: Stats(*rest) for key, *rest in rows}


def test_oracle_an_export_is_the_state_of_its_batch_whole_or_not_at_all(spark, tmp_path):
    from anabranch.spark import export_view
    from anabranch.spark.inspect.parquet_exports import publish_view

    views = tmp_path / "views"
    _, query = start(spark, tmp_path, True, count=2)
    export_view(query, output=views).wait()
    assert read_export(views) == dict(expect(1).state.entries())
    # A crash between a draft and its rename, and between that and the link.
    (views / ".batch=2" / "half").mkdir(parents=True)
    (views / "latest").unlink()
    checkpoint = str(tmp_path / "checkpoint")
    assert publish_view(spark, checkpoint, views) == 1
    assert read_export(views) == dict(expect(1).state.entries())
    for count in (3, 5):
        start(spark, tmp_path, True, count=count)[1].awaitTermination()
        assert run_command(["state", "export", checkpoint, str(views)]) == 0
        assert read_export(views) == dict(expect(count - 1).state.entries())
    stand = json.loads((views / "latest" / "_view.json").read_text())
    assert stand == {"batch": 4, "watermark": expect(4).watermark}
    assert sorted(path.name for path in views.iterdir()) == ["batch=2", "batch=4", "latest"]


PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "query-state.md"
BLOCK = re.compile(r'```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.DOTALL)


def fill(page, folder):
    """Write a page's files, run what it runs, and return it with what the commands print."""

    def run(block):
        language, title, body = block.groups()
        if title:
            (folder / title).parent.mkdir(exist_ok=True)
            (folder / title).write_text(body, encoding="utf-8")
        command, *_ = body.splitlines()
        if language == "sh":
            # Spark was started in another folder than this one.
            places = {"in": str(folder / "in"), "out": str(folder / "out")}
            words = [places.get(word, word) for word in shlex.split(command)[1:]]
            with contextlib.redirect_stdout(io.StringIO()):
                assert run_command(words) == 0
        if language != "console":
            return block.group()
        emitted = io.StringIO()
        with contextlib.redirect_stdout(emitted), contextlib.redirect_stderr(emitted):
            run_command(shlex.split(command)[2:])
        return f"```console\n{command}\n{emitted.getvalue().rstrip()}\n```"

    with contextlib.chdir(folder):
        return BLOCK.sub(run, page)


def test_the_page_shows_what_the_commands_print(spark, tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page, tmp_path) == page, "cure: python -m tests.spark.inspect.test_state_frames"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), Path(place)), encoding="utf-8")
