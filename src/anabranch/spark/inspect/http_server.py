"""Serving: look-ups of single keys over HTTP, from a replica that follows a checkpoint.

    GET /state/KEY          {"key": …, "value": …, "batch": …, "frontier": …}, or 404
    GET /state?keys=A,B     the same of several, in "found" and "missing", all of one batch
    GET /state              the state of a program that has no entries, or the part that keys share
    GET /batch, GET /health which batch is served, and how far its sources have come

The server is plain asyncio: requests are one line, answers are small, and nothing waits for anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from anabranch.errors import InputError
from anabranch.microbatch.inspect.replica import Copy, read_key
from anabranch.model.fields import encode_value
from anabranch.model.shapes import MISSING
from anabranch.spark.inspect.follower import POLL_S, Follower

HOST, PORT = "127.0.0.1", 8080
MOST_KEYS = 1000
"""How many keys one request may ask for."""
_MOST_HEAD = 1 << 16
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}

Answer = tuple[int, dict[str, Any]]


class Server:
    """An HTTP server in a thread of its own, over a follower in another."""

    def __init__(
        self,
        follower: Follower,
        host: str = HOST,
        port: int = 0,
        *,
        poll_s: float = POLL_S,
        tell: Callable[[Copy], Any] = lambda copy: None,
    ) -> None:
        self.host, self.port = host, port
        self._follower = follower
        self._poll_s, self._tell = poll_s, tell
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._run, self._follow)
        ]

    def __enter__(self) -> Self:
        try:
            self._server = self._loop.run_until_complete(
                self._loop.create_server(lambda: _Connection(self._find), self.host, self.port)
            )
        except OSError as error:
            self._loop.close()
            raise InputError(
                f"nothing can be served at {self.host}:{self.port}",
                expected="an address of this machine, and a port that is free",
                got=str(error.strerror or error),
                cure="choose another --port; 0 takes any that is free",
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join()
        self._server.close()
        self._loop.close()

    def wait(self) -> None:
        """Wait until Ctrl-C, or until the checkpoint can't be followed any more."""
        while not self._stop.wait(0.2):
            pass
        for failure in self._failures:
            raise failure

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _follow(self) -> None:
        try:
            self._follower.follow(self._stop, self._tell, self._poll_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody must be served old answers
            self._failures.append(error)
            self._stop.set()

    def _find(self, method: str, target: str) -> Answer:
        return answer(self._follower.current, method, target)


def answer(copy: Copy, method: str, target: str) -> Answer:
    """Answer a request from one copy: everything in it is of one batch."""
    if method != "GET":
        return 405, {"error": f"{method} is not answered here; GET is"}
    parts = urlsplit(target)
    stand = {"batch": copy.batch, "frontier": copy.frontier}
    if parts.path in ("/health", "/batch"):
        return 200, stand
    if parts.path in ("/state", "/state/"):
        return _answer_several(copy, parse_qs(parts.query, keep_blank_values=True), stand)
    if not parts.path.startswith("/state/"):
        return 404, {"error": "ask for /state/KEY, /state?keys=A,B, /batch or /health"}
    try:
        key = read_key(
            copy.description, unquote(parts.path.removeprefix("/state/"), errors="strict")
        )
    except ValueError as error:
        return 400, {"error": str(error), **stand}
    value = copy.find(key)
    if value is MISSING:
        return 404, {"error": "there is no such key", "key": encode_value(key), **stand}
    return 200, {"key": encode_value(key), "value": encode_value(value), **stand}


def _answer_several(copy: Copy, asked: dict[str, list[str]], stand: dict[str, Any]) -> Answer:
    if not asked:
        value = copy.find(None)
        if value is MISSING:
            return 400, {"error": "say which keys: /state/KEY or /state?keys=A,B", **stand}
        return 200, {"value": encode_value(value), **stand}
    names = [name for some in asked.pop("keys", []) for name in some.split(",")]
    if asked or not names:
        return 400, {
            "error": f"{', '.join(asked) or 'nothing'} is not understood; keys= is",
            **stand,
        }
    if len(names) > MOST_KEYS:
        return 400, {"error": f"{len(names)} keys are too many; {MOST_KEYS} are not", **stand}
    found, missing = [], []
    for name in names:
        try:
            key = read_key(copy.description, name)
        except ValueError as error:
            return 400, {"error": str(error), **stand}
        value = copy.find(key)
        if value is MISSING:
            missing.append(encode_value(key))
        else:
            found.append({"key": encode_value(key), "value": encode_value(value)})
    return 200, {"found": found, "missing": missing, **stand}


class _Connection(asyncio.Protocol):
    """One client: requests in, answers out, in order, until it goes."""

    def __init__(self, find: Callable[[str, str], Answer]) -> None:
        self._find = find
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            if not self._reply(head):
                return
        if len(self._received) > _MOST_HEAD:
            self._send(400, {"error": "the request is too long"}, close=True)

    def _reply(self, head: bytes) -> bool:
        """Answer a request; say whether another one may follow."""
        line, _, fields = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return self._send(400, {"error": "this is no request of HTTP/1.1"}, close=True)
        lowered = fields.lower()
        # A body would be taken for the next request.
        body = b"content-length:" in lowered or b"transfer-encoding:" in lowered
        leaving = b"connection: close" in lowered
        staying = words[2] == "HTTP/1.1" or b"connection: keep-alive" in lowered
        status, content = self._find(words[0], words[1])
        return self._send(status, content, close=body or leaving or not staying)

    def _send(self, status: int, content: dict[str, Any], *, close: bool) -> bool:
        body = msgspec.json.encode(content)
        self._transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
            % (
                status,
                _REASONS[status].encode(),
                len(body),
                b"Connection: close\r\n" if close else b"",
                body,
            )
        )
        if close:
            with contextlib.suppress(RuntimeError):
                self._transport.close()
        return not close
