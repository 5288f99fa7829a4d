"""SQL, the history of a key and look-ups over HTTP on the state of a query that runs."""

import _thread
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.sinks import write_directory
from anabranch.sources import Files
from anabranch.state import Count, MapOf, Max, Struct, Sum

pytestmark = pytest.mark.spark


class Deposit(NamedTuple):
    time: int
    account: str
    cents: int


balance = Struct(deposits=Count(), cents=Sum(), largest=Max())
accounts = Program(
    on(
        Deposit,
        update=lambda held, one: balance.add(held, deposits=1, cents=one.cents, largest=one.cents),
    ),
    depends(Deposit, Deposit, same="account"),
    state=MapOf(balance, by="account"),
)
# The last of each file is held back until the next one comes: another of its time may follow.
FILES = [
    [Deposit(1, "ann", 500), Deposit(2, "bob", 70), Deposit(3, "ann", 20), Deposit(4, "cy", 1)],
    [Deposit(5, "ann", 900), Deposit(6, "dot/é", 3), Deposit(7, "bob", 1)],
]
STANDS = [
    {"ann": (2, 520, 500), "bob": (1, 70, 70)},
    {"ann": (3, 1420, 900), "bob": (1, 70, 70), "cy": (1, 1, 1), "dot/é": (1, 3, 3)},
]


def write_file(folder, number):
    lines = [json.dumps(deposit._asdict()) + "\n" for deposit in FILES[number]]
    (folder / f".{number}").write_text("".join(lines))
    (folder / f".{number}").rename(folder / f"{number}.jsonl")


def wait_for_batch(query, folder, number):
    while not (folder / f"batch={number}").exists() or query.status["isTriggerActive"]:
        assert query.isActive, query.exception()
        time.sleep(0.05)


def read_url(url):
    try:
        with urllib.request.urlopen(url) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def look_up(query, paths):
    """Serve a query's state until every path is looked up, then end it as Ctrl-C does; return the answers."""
    from anabranch.spark import serve

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answers, ready = [], threading.Event()

    def ask():
        ready.wait()
        answers.extend(read_url(f"http://127.0.0.1:{port}{path}") for path in paths)
        _thread.interrupt_main()

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(KeyboardInterrupt):
        serve(query, port=port, show=lambda line: ready.set())
    asking.join()
    return answers


def to_entry(key, batch, watermark):
    value = dict(zip(("deposits", "cents", "largest"), STANDS[batch][key], strict=True))
    return {"key": key, "value": value, "batch": batch, "watermark": watermark}


def test_oracle_a_running_query_answers_sql_history_and_http(spark, tmp_path):
    from anabranch.spark import history, run, state

    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write_file(folder, 0)
    result = run(accounts, Files(folder, format="json"), spark=spark, shards=2)
    query = write_directory(
        result,
        output=out,
        checkpoint=tmp_path / "checkpoint",
        trigger={"processingTime": "200 milliseconds"},
    )
    try:
        wait_for_batch(query, out, 0)
        rows = state(query).collect()
        assert {row.key: tuple(row)[1:] for row in rows} == STANDS[0]
        write_file(folder, 1)
        wait_for_batch(query, out, 1)
        state(query).createOrReplaceTempView("balances")
        richest = spark.sql(
            "select key, cents / deposits as mean from balances where cents > 1 order by cents desc"
        ).collect()
        assert [tuple(row) for row in richest] == [("ann", 1420 / 3), ("bob", 70.0), ("dot/é", 3.0)]
        before = state(query, batch=0).collect()
        assert {row.key: tuple(row)[1:] for row in before} == STANDS[0]
        changes = [(one.batch, one.watermark, tuple(one.value)) for one in history(query, "ann")]
        assert changes == [(0, 3, STANDS[0]["ann"]), (1, 6, STANDS[1]["ann"])]
        answers = look_up(
            query,
            ["/state/ann", "/state/dot%2F%C3%A9", "/state/zoe", "/state?keys=bob,zoe", "/batch"],
        )
        assert query.isActive
    finally:
        query.stop()
    assert answers[:2] == [(200, to_entry("ann", 1, 6)), (200, to_entry("dot/é", 1, 6))]
    assert answers[2][0] == 404
    assert [one["key"] for one in answers[3][1]["found"]] == ["bob"]
    assert answers[3][1]["missing"] == ["zoe"]
    assert answers[4] == (200, {"batch": 1, "watermark": 6})
