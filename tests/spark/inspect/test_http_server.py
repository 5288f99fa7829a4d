"""Look-ups over HTTP, on a replica in memory: every request has an answer, and each is of one batch."""

import asyncio
import contextlib
import json
import random
import socket
import sys
import threading
import time
from typing import NamedTuple
from urllib.parse import quote, unquote

import pytest

from anabranch import Event, Program, depends, on
from anabranch.errors import InputError, MissingExtraError
from anabranch.eventtime.channels import Channel
from anabranch.microbatch.inspect.replica import Replica
from anabranch.spark.inspect import http_server
from anabranch.spark.inspect.http_access import Access, grant
from anabranch.spark.inspect.http_server import MOST_KEYS, Server, ServerLimits, make_app
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
CHANNELS = (Channel("s", unique_times=True),)


def make_copy(program, events, channels=CHANNELS, batch=3):
    engine = Engine(program, channels, 2, columns=False)
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


def emit(port, *requests):
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
                fields[name.lower()] = value
            length = fields.get(b"content-length")
            body = reader.read(-1 if length is None else int(length))
            if fields[b"content-type"] == b"application/json":
                body = json.loads(body)
            found.append((status, body, fields.get(b"connection")))
    return found


def get(target, version="1.1", more="", host="localhost"):
    return f"GET {target} HTTP/{version}\r\nHost: {host}\r\n{more}\r\n".encode()


def answer(copy, method, target):
    """Return the status and the content that the application answers, without a socket."""
    path, _, query = target.encode().partition(b"?")
    scope = {
        "type": "http", "method": method, "path": unquote(path.decode()), "raw_path": path,
        "query_string": query, "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(make_app(lambda: copy, Access(), ServerLimits())(scope, None, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_keys_of_any_text_are_found_by_their_percent_encoding(copy):
    for place, name in enumerate(NAMES):
        if name:
            status, found = answer(copy, "GET", f"/state/{quote(name, safe='')}")
            assert (status, found) == (
                200, {"key": name, "value": place + 1, "batch": 3, "watermark": len(NAMES) - 1},
            )  # fmt: skip
    assert answer(copy, "GET", "/state/%C3")[0] == 400, "no UTF-8"


def test_what_can_not_be_answered_says_why(copy):
    numbered = make_copy(PROGRAMS["hot_keys"], [])
    numbered_key = answer(numbered, "GET", "/state/seven")
    assert numbered_key[0] == 400
    assert numbered_key[1]["error"] == "keys are integers, and 'seven' is not"
    assert answer(copy, "GET", "/state/nobody")[0] == 404
    assert answer(copy, "POST", "/state/ann") == (
        405, {"error": "POST is not supported; use GET"},
    )  # fmt: skip
    assert answer(copy, "GET", "/")[0] == 404
    assert answer(copy, "GET", "/state") == (
        400,
        {
            "error": "keys are missing: ask for /state/KEY or /state?keys=A,B",
            "batch": 3,
            "watermark": 6,
        },
    )
    assert (
        answer(copy, "GET", "/state?where=1")[1]["error"]
        == "unknown parameter: where; expected keys="
    )
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
    engine = Engine(program, tuple(Channel(name) for name in "abc"), 1, columns=False)
    engine.batch([[to_row(item) for item in items]])
    copy = Replica(0, list_values(engine)).current
    status, found = answer(copy, "GET", "/state")
    assert (status, found["value"]) == (200, copy.find(None)._asdict())


def test_a_connection_stays_open_and_answers_in_order(copy):
    with Server(Still(copy)) as server:
        half = get("/state/ann")
        found = emit(
            server.port, get("/batch") + half[:20], half[20:], get("/state?keys=ann,x"),
            get("/health", more="Connection: close\r\n") + get("/batch"),
        )  # fmt: skip
        assert [status for status, _, _ in found] == [200, 200, 200, 200]
        assert found[1][1]["value"] == 1
        assert found[2][1] == {
            "found": [{"key": "ann", "value": 1}], "missing": ["x"], "batch": 3, "watermark": 6,
        }  # fmt: skip
        assert [connection for _, _, connection in found] == [None, None, None, b"close"]
        assert emit(server.port, get("/batch", "1.0"))[0][2] == b"close"
        for wrong in (b"nonsense\r\n\r\n", b"GET / FTP/1.1\r\n\r\n", b"x" * ((1 << 16) + 1)):
            assert emit(server.port, wrong)[0][::2] == (400, b"close")


def test_many_ask_while_batches_come_and_each_sees_one_of_them():
    def pay(batch):
        return [Paid(time, name, batch) for time, name in enumerate(("ann", "bob", "cyd"))]

    copies = [make_copy(sums, pay(batch), batch=batch) for batch in range(20)]
    follower = Still(copies[0])
    wrong, seen = [], set()

    def look(port):
        while follower.current is not copies[-1]:
            _, found, _ = emit(port, get("/state?keys=ann,bob,cyd"))[0]
            values = {one["value"] for one in found["found"]}
            seen.add(found["batch"])
            if values != {found["batch"]}:
                wrong.append(found)

    with Server(follower) as server:
        threads = [threading.Thread(target=look, args=(server.port,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for copy in copies[1:]:
            emit(server.port, get("/batch"))
            follower.current = copy
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen


SECRET = "0123456789abcdef"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "localhost@evil", ""]
)
def test_a_request_that_does_not_name_this_server_is_refused(copy, host):
    """A page whose name is made to point at this machine (DNS rebinding) sends its own name."""
    with Server(Still(copy)) as server:
        [(status, found, _)] = emit(
            server.port, get("/state/ann", host=host, more="Connection: close\r\n")
        )
    assert status == 403
    assert found == {"error": f"{host!r} is not a name of this server; --allow-host adds a name"}


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST.", "127.0.0.1:99", "[::1]:8080"])
def test_names_of_this_machine_are_this_server(copy, host):
    with Server(Still(copy)) as server:
        assert emit(server.port, get("/batch", host=host))[0][0] == 200


def test_a_request_of_a_page_elsewhere_is_refused(copy):
    with Server(Still(copy)) as server:
        here = f"localhost:{server.port}"
        for origin, expected in (
            ("http://evil.example", 403), ("null", 403), ("http://localhost:3000", 403),
            (f"http://{here}.evil.example", 403), (f"http://{here}", 200),
        ):  # fmt: skip
            asked = get("/state/ann", host=here, more=f"Origin: {origin}\r\n")
            assert emit(server.port, asked)[0][0] == expected, origin


def test_a_body_is_never_read_as_the_next_request(copy):
    smuggled = get("/state/ann")
    size = len(smuggled)
    with Server(Still(copy)) as server:
        for header in (
            f"Content-Length : {size}",
            f"Content-Length: {size}\r\n",
            f"Content-Length: {size}\r\nContent-Length: 0",
            f"Content-Length\t: {size}",
            f"X: y\r\n Content-Length: {size}\r\nTransfer-Encoding : chunked",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: identity, chunked",
        ):
            found = emit(server.port, get("/health", more=f"{header.strip()}\r\n") + smuggled)
            assert len(found) == 1, header
            assert found[0][0] in {400, 413, 501}, header
            assert found[0][2] == b"close", header


def wait_for_connections(server, count):
    while len(server._uvicorn.server_state.connections) != count:
        time.sleep(0.01)


def wait_until_dropped(client, within_s):
    """Send nothing and read nothing; return how long it took until the connection was gone."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < within_s:
        try:
            client.sendall(b"G")
        except OSError:
            break
        time.sleep(0.05)
    return time.monotonic() - began_s


def count_held(server):
    """Return how many bytes the server holds for all clients: what is not read, and not yet sent."""
    return sum(
        each.transport.get_write_buffer_size() + len(each.conn._receive_buffer)
        for each in list(server._uvicorn.server_state.connections)
    )


def test_a_client_that_never_reads_is_dropped_and_costs_little(copy):
    requests = get(f"/state?keys={','.join(['ann'] * 1000)}") * 20
    with Server(Still(copy), limits=ServerLimits(request_s=1.0)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.settimeout(0.2)
            began_s, most = time.monotonic(), 0
            with pytest.raises((ConnectionResetError, BrokenPipeError)):  # noqa: PT012
                while time.monotonic() - began_s < 20:
                    most = max(most, count_held(server))
                    with contextlib.suppress(TimeoutError):
                        client.send(requests)
            assert time.monotonic() - began_s < 5
        assert 1 << 16 < most < 1 << 20
        assert emit(server.port, get("/batch"))[0][0] == 200


class Large:
    """A copy in which every key has a value of 8 MB, more than sockets hold."""

    def __init__(self, copy):
        self.description, self.batch, self.watermark = copy.description, copy.batch, copy.watermark
        self.find = lambda key: "v" * (8 << 20)


def test_answers_that_are_not_read_are_limited_together(copy):
    limits = ServerLimits(unsent_bytes=16 << 20)
    with Server(Still(Large(copy)), limits=limits) as server:
        address = ("127.0.0.1", server.port)
        clients = [socket.create_connection(address) for _ in range(3)]
        for client in clients:
            client.sendall(get("/state/ann"))
            client.recv(1)
        assert count_held(server) < 3 << 18, "pieces, not answers"
        busy = emit(server.port, get("/state/ann"))[0]
        assert busy == (503, {"error": "too many responses wait to be read"}, b"close")
        for client in clients:
            client.close()
        wait_for_connections(server, 0)
        assert len(emit(server.port, get("/state/ann"))[0][1]["value"]) == 8 << 20


def test_a_request_that_never_ends_is_dropped(copy):
    with Server(Still(copy), limits=ServerLimits(request_s=0.5)) as server:
        for beginning in (b"", b"GET /batch HTTP/1.1\r\nHost: localhost\r\nX: "):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(beginning)
                assert wait_until_dropped(client, 5) < 3


def test_connections_are_limited(copy):
    with Server(Still(copy), limits=ServerLimits(connections=2)) as server:
        with contextlib.ExitStack() as idle:
            for count in (1, 2):
                idle.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                wait_for_connections(server, count)
            status, found, connection = emit(server.port, get("/batch"))[0]
            assert (status, found, connection) == (503, b"Service Unavailable", b"close")
            wait_for_connections(server, 2)
            for count in (3, 4):
                idle.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                wait_for_connections(server, count)
            with contextlib.suppress(OSError):
                assert emit(server.port, get("/batch")) == [], "more than twice as many"
        wait_for_connections(server, 0)
        assert emit(server.port, get("/batch"))[0][0] == 200


def test_a_server_stops_although_a_client_does_not_read(copy):
    asked = get(f"/state?keys={','.join(['ann'] * 1000)}") * 200
    with socket.socket() as client:
        with Server(Still(copy)) as server:
            client.connect(("127.0.0.1", server.port))
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.sendall(asked * 100)
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 5


def test_a_server_for_other_machines_needs_its_token(copy):
    access = grant("0.0.0.0")
    assert access.token is not None
    assert len(access.token) >= 32
    assert grant("0.0.0.0").token != access.token, "made anew each time"
    assert grant("127.0.0.1").token is None
    assert grant("0.0.0.0", SECRET).token == SECRET
    with Server(Still(copy), "0.0.0.0", access=grant("0.0.0.0", SECRET)) as server:
        for header, expected in (
            ("", 401), ("Authorization: Bearer x\r\n", 401), (f"Authorization: {SECRET}\r\n", 401),
            (f"Authorization: Basic {SECRET}\r\n", 401), (f"Authorization: Bearer {SECRET}\r\n", 200),
            (f"authorization: bearer {SECRET}\r\n", 200),
        ):  # fmt: skip
            asked = get("/state/ann", more=header)
            assert emit(server.port, asked)[0][0] == expected, header


def test_a_server_is_called_by_the_address_at_which_it_is_reached_or_an_allowed_name():
    access = grant("0.0.0.0", SECRET, ["state.example", "other.example:81"])
    headers = {"authorization": f"Bearer {SECRET}"}
    assert access.refuse({**headers, "host": "10.1.2.3:80"}, "10.1.2.3") is None
    assert access.refuse({**headers, "host": "10.1.2.3"}, "::ffff:10.1.2.3") is None
    assert access.refuse({**headers, "host": "10.1.2.4"}, "10.1.2.3") is not None
    for name in ("state.example", "State.Example:8080", "other.example"):
        assert access.refuse({**headers, "host": name}, None) is None, name


def test_a_name_is_served_at_each_of_its_addresses_that_there_is(copy, monkeypatch):
    places = [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET, "127.0.0.1")]
    monkeypatch.setattr(http_server, "resolve", lambda host: places)
    with Server(Still(copy), "localhost") as server:
        assert emit(server.port, get("/batch"))[0][0] == 200
        with pytest.raises(InputError, match="nothing can be served at localhost"):
            http_server.open_sockets("localhost", server.port)
    monkeypatch.setattr(http_server, "resolve", lambda host: places[:1])
    with pytest.raises(InputError, match=r"nothing can be served at elsewhere\.example"):
        http_server.open_sockets("elsewhere.example", 0)


def test_what_can_not_be_granted_is_refused(message):
    for name, arguments in (
        ("serve_with_a_short_token", ("127.0.0.1", "secret")),
        ("serve_for_a_url", ("127.0.0.1", None, ["http://state.example/"])),
    ):
        with pytest.raises(InputError) as refused:
            grant(*arguments)
        message(name, str(refused.value))
    with pytest.raises(InputError, match="nothing can be served"):
        grant("no such host")


def test_without_its_packages_the_server_says_what_to_install(monkeypatch, message):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "anabranch.spark.inspect.http_server")
    with pytest.raises(MissingExtraError) as missing:
        import anabranch.spark.inspect.http_server  # noqa: F401
    message("serve_without_its_packages", str(missing.value))
