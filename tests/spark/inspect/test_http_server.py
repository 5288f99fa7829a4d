"""Look-ups over HTTP, on a replica in memory: every request has an answer, and each is of one batch."""

import json
import random
import socket
import threading
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.eventtime.channels import Source
from anabranch.microbatch.inspect.replica import Replica
from anabranch.spark.inspect.http_server import MOST_KEYS, Server, answer
from anabranch.state import MapOf, Sum
from tests.microbatch.programs import PROGRAMS
from tests.microbatch.restore.test_shard_restore import list_values
from tests.microbatch.test_microbatches import Engine, draw_items, to_row


class Paid(NamedTuple):
    time: int
    name: str
    amount: int


class Asked(NamedTuple):
    time: int
    name: str


class Pair(NamedTuple):
    time: int
    place: tuple[int, str]


sums = Program(
    on(Paid, update=lambda total, paid: total + paid.amount),
    on(Asked, output=lambda total, asked: total),
    depends(Asked, Paid, Asked, same="name"),
    depends(Paid, Paid, same="name"),
    state=MapOf(Sum(), by="name"),
)
pairs = Program(
    on(Pair, update=lambda total, pair: total + 1, output=lambda total, pair: total),
    depends(Pair, Pair, same="place"),
    state=MapOf(Sum(), by="place"),
)
SOURCES = (Source("s", strict=True),)


def make_copy(program, events, sources=SOURCES, batch=3):
    engine = Engine(program, sources, 2, columns=False)
    engine.batch([[to_row(Event(event, "s", seq)) for seq, event in enumerate(events)]])
    return Replica(batch, list_values(engine)).current


class Still:
    """A follower of a checkpoint on which nothing happens, until a test says so."""

    def __init__(self, current):
        self.current = current

    def follow(self, stop, tell, poll_s):
        stop.wait()


NAMES = ["ann", "a,b", "a/b?c=d#e", "é \U0001f600", "", "%41", "1"]


@pytest.fixture(scope="module")
def copy():
    return make_copy(sums, [Paid(n, name, n + 1) for n, name in enumerate(NAMES)])


def speak(port, *requests):
    """Send requests over one connection, and return the answers that come until it is closed."""
    found = []
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as reader:
        for request in requests:
            client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        while line := reader.readline():
            status = int(line.split()[1])
            fields = {}
            while (line := reader.readline().strip()) != b"":
                name, _, value = line.partition(b": ")
                fields[name] = value
            body = json.loads(reader.read(int(fields[b"Content-Length"])))
            found.append((status, body, fields.get(b"Connection")))
    return found


def get(target, version="1.1", more=""):
    return f"GET {target} HTTP/{version}\r\nHost: x\r\n{more}\r\n".encode()


def test_keys_of_any_text_are_found_by_their_percent_encoding(copy):
    from urllib.parse import quote

    for place, name in enumerate(NAMES):
        if name:
            status, found = answer(copy, "GET", f"/state/{quote(name, safe='')}")
            assert (status, found) == (
                200, {"key": name, "value": place + 1, "batch": 3, "frontier": len(NAMES) - 1},
            )  # fmt: skip
    assert answer(copy, "GET", "/state/%C3")[0] == 400, "no UTF-8"


def test_what_can_not_be_answered_says_why(copy):
    numbered = make_copy(PROGRAMS["hot"], [])
    numbered_key = answer(numbered, "GET", "/state/seven")
    assert numbered_key[0] == 400
    assert numbered_key[1]["error"] == "keys are whole numbers, and 'seven' is none"
    assert answer(copy, "GET", "/state/nobody")[0] == 404
    assert answer(copy, "POST", "/state/ann") == (
        405, {"error": "POST is not answered here; GET is"},
    )  # fmt: skip
    assert answer(copy, "GET", "/")[0] == 404
    assert answer(copy, "GET", "/state") == (
        400,
        {"error": "say which keys: /state/KEY or /state?keys=A,B", "batch": 3, "frontier": 6},
    )
    assert answer(copy, "GET", "/state?where=1")[1]["error"] == "where is not understood; keys= is"
    many = ",".join("x" * (MOST_KEYS + 1))
    assert answer(copy, "GET", f"/state?keys={many}")[0] == 400
    assert answer(copy, "GET", f"/state?keys={many[2:]}")[0] == 200


def test_keys_that_are_neither_texts_nor_numbers_are_json():
    copy = make_copy(pairs, [Pair(1, (4, "x")), Pair(2, (4, "x")), Pair(3, (5, "y"))])
    assert answer(copy, "GET", '/state/[4,"x"]')[1]["value"] == 2
    assert answer(copy, "GET", '/state/[4,"y"]')[0] == 404
    assert answer(copy, "GET", "/state/[4")[0] == 400


def test_a_state_without_entries_is_served_whole():
    program = PROGRAMS["alarms"]
    items = draw_items(random.Random(1), program, 10)
    engine = Engine(program, tuple(Source(name) for name in "abc"), 1, columns=False)
    engine.batch([[to_row(item) for item in items]])
    copy = Replica(0, list_values(engine)).current
    status, found = answer(copy, "GET", "/state")
    assert (status, found["value"]) == (200, copy.find(None)._asdict())


def test_a_connection_stays_open_and_answers_in_order(copy):
    with Server(Still(copy)) as server:
        half = get("/state/ann")
        found = speak(
            server.port, get("/batch") + half[:20], half[20:], get("/state?keys=ann,x"),
            get("/health", more="Connection: close\r\n") + get("/batch"),
        )  # fmt: skip
        assert [status for status, _, _ in found] == [200, 200, 200, 200]
        assert found[1][1]["value"] == 1
        assert found[2][1] == {
            "found": [{"key": "ann", "value": 1}], "missing": ["x"], "batch": 3, "frontier": 6,
        }  # fmt: skip
        assert [connection for _, _, connection in found] == [None, None, None, b"close"]
        assert speak(server.port, get("/batch", "1.0"))[0][2] == b"close"
        for wrong in (b"nonsense\r\n\r\n", b"GET / FTP/1.1\r\n\r\n", b"x" * ((1 << 16) + 1)):
            assert speak(server.port, wrong)[0][::2] == (400, b"close")
        smuggled = get("/health")
        body = get("/batch", more=f"Content-Length: {len(smuggled)}\r\n") + smuggled
        assert [status for status, _, _ in speak(server.port, body)] == [200]


def test_many_ask_while_batches_come_and_each_sees_one_of_them():
    def pay(batch):
        return [Paid(time, name, batch) for time, name in enumerate(("ann", "bob", "cyd"))]

    copies = [make_copy(sums, pay(batch), batch=batch) for batch in range(20)]
    follower = Still(copies[0])
    wrong, seen = [], set()

    def look(port):
        while follower.current is not copies[-1]:
            _, found, _ = speak(port, get("/state?keys=ann,bob,cyd"))[0]
            values = {one["value"] for one in found["found"]}
            seen.add(found["batch"])
            if values != {found["batch"]}:
                wrong.append(found)

    with Server(follower) as server:
        threads = [threading.Thread(target=look, args=(server.port,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for copy in copies[1:]:
            speak(server.port, get("/batch"))
            follower.current = copy
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen
