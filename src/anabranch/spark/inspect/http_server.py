"""The HTTP server of a state: look-ups of single keys in a replica that follows a checkpoint.

    GET /state/KEY          {"key": …, "value": …, "batch": …, "watermark": …}, or 404
    GET /state?keys=A,B     the same for several keys, in "found" and "missing", all of one batch
    GET /state              the state of a program that has no entries, or the part that keys share
    GET /batch, GET /health the batch that is served, and its watermark

Uvicorn reads the requests, Starlette routes them. `ServerLimits` limits the resources that clients can use.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qs, unquote

import msgspec

from anabranch.errors import InputError, MissingExtraError
from anabranch.microbatch.inspect.replica import Copy, read_key
from anabranch.model.shapes import MISSING
from anabranch.model.values.fields import encode_value
from anabranch.spark.inspect.follower import POLL_S, Follower
from anabranch.spark.inspect.http_access import Access, grant, resolve

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as missing:
    raise MissingExtraError(
        "state can't be served over HTTP",
        expected="Starlette and uvicorn",
        got=str(missing),
        cure="pip install 'anabranch[serve]'",
    ) from missing

HOST, PORT = "127.0.0.1", 8080
MOST_KEYS = 1000
"""The number of keys that one request may ask for."""
CHUNK_BYTES = 1 << 16
_ABSENT = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""Errors of an address that the machine lacks: `localhost` is also ::1, even without IPv6."""
STOP_S = 1
"""The time that responses in progress have when the server stops."""

Answer = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class ServerLimits:
    """Limits of the resources that clients can use, and for how long."""

    connections: int = 64
    """Open connections; above, requests get 503, and above twice as many, connections are dropped."""
    head_bytes: int = 1 << 16
    """The request line and headers of one request. A request has no body."""
    unsent_bytes: int = 1 << 26
    """All responses together that clients have not read yet; above, requests get 503."""
    request_s: float = 10.0
    """The time from one response to the next on a connection; after it, the connection is dropped."""


class Server:
    """An HTTP server in one thread, on a follower in another."""

    def __init__(
        self,
        follower: Follower,
        host: str = HOST,
        port: int = 0,
        *,
        access: Access | None = None,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        poll_s: float = POLL_S,
        show: Callable[[Copy], Any] = lambda copy: None,
    ) -> None:
        self.host, self.port = host, port
        self._follower = follower
        self._poll_s, self._show = poll_s, show
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        app = make_app(lambda: follower.current, access or grant(host), limits)
        self._uvicorn = uvicorn.Server(_configure(app, limits))
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._run, self._follow)
        ]

    def __enter__(self) -> Self:
        self._sockets = open_sockets(self.host, self.port)
        self.port = self._sockets[0].getsockname()[1]
        for thread in self._threads:
            thread.start()
        while not self._uvicorn.started and not self._stop.is_set():
            time.sleep(0.005)
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._uvicorn.should_exit = True
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def wait(self) -> None:
        """Wait until Ctrl-C, or until the checkpoint can't be followed any more."""
        while not self._stop.wait(0.2):
            pass
        for failure in self._failures:
            raise failure

    def _run(self) -> None:
        try:
            self._uvicorn.run(self._sockets)
        except BaseException as error:  # noqa: BLE001 - `wait` raises it in the caller's thread
            self._failures.append(error)
        finally:
            self._stop.set()

    def _follow(self) -> None:
        try:
            self._follower.follow(self._stop, self._show, self._poll_s)
        except Exception as error:  # noqa: BLE001 - an old state must not be served as the newest
            self._failures.append(error)
            self._stop.set()


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at every address of a host on this machine, on one port."""
    opened: list[socket.socket] = []
    failures: list[Exception] = []
    for family, address in resolve(host):
        try:
            opened.append(socket.create_server((address, port), family=family))
            port = opened[0].getsockname()[1]
        except (OSError, OverflowError) as error:
            failures.append(error)
    if opened and all(getattr(error, "errno", None) in _ABSENT for error in failures):
        return opened
    for each in opened:
        each.close()
    raise InputError(
        f"nothing can be served at {host}:{port}",
        expected="an address of this machine, and a port that is free",
        got=str(getattr(failures[0], "strerror", None) or failures[0]),
        cure="choose another --port; 0 takes any free one",
    ) from failures[0]


def make_app(find: Callable[[], Copy], access: Access, limits: ServerLimits) -> Starlette:
    """Return the application that answers requests from the copy that `find` returns."""

    async def get_batch(request: Request) -> Response:
        return _respond(200, _describe(find()))

    async def get_state(request: Request) -> Response:
        # Not the decoded path: a key must be UTF-8, and may contain `%2F`.
        key = request.scope["raw_path"].decode("ascii").split("/", 2)[2:]
        if key and key[0]:
            return _respond(*answer_key(find(), key[0]))
        return _respond(*answer_keys(find(), request.url.query))

    async def refuse_path(request: Request, error: Exception) -> Response:
        return _respond(404, {"error": "ask for /state/KEY, /state?keys=A,B, /batch or /health"})

    async def refuse_method(request: Request, error: Exception) -> Response:
        return _respond(405, {"error": f"{request.method} is not supported; use GET"})

    return Starlette(
        routes=[
            Route("/health", get_batch),
            Route("/batch", get_batch),
            Route("/state", get_state),
            Route("/state/{key:path}", get_state),
        ],
        middleware=[Middleware(_Guard, access=access), Middleware(_Outbox, limits=limits)],
        exception_handlers={404: refuse_path, 405: refuse_method},
    )


def answer_key(copy: Copy, quoted: str) -> Answer:
    """Return the response for one key, which is quoted as in a URL."""
    try:
        key = read_key(copy.description, unquote(quoted, errors="strict"))
    except ValueError as error:
        return 400, {"error": str(error), **_describe(copy)}
    value = copy.find(key)
    if value is MISSING:
        return 404, {"error": "there is no such key", "key": encode_value(key), **_describe(copy)}
    return 200, {"key": encode_value(key), "value": encode_value(value), **_describe(copy)}


def answer_keys(copy: Copy, query: str) -> Answer:
    """Return the entries of several keys of one batch; or a state without entries, if no keys are given."""
    place = _describe(copy)
    asked = parse_qs(query, keep_blank_values=True)
    if not asked:
        value = copy.find(None)
        if value is MISSING:
            return 400, {
                "error": "keys are missing: ask for /state/KEY or /state?keys=A,B",
                **place,
            }
        return 200, {"value": encode_value(value), **place}
    names = [name for some in asked.pop("keys", []) for name in some.split(",")]
    if asked or not names:
        unknown = ", ".join(asked) or "nothing"
        return 400, {"error": f"unknown parameter: {unknown}; expected keys=", **place}
    if len(names) > MOST_KEYS:
        return 400, {
            "error": f"{len(names)} keys in one request; at most {MOST_KEYS} are allowed",
            **place,
        }
    found, missing = [], []
    for name in names:
        try:
            key = read_key(copy.description, name)
        except ValueError as error:
            return 400, {"error": str(error), **place}
        value = copy.find(key)
        if value is MISSING:
            missing.append(encode_value(key))
        else:
            found.append({"key": encode_value(key), "value": encode_value(value)})
    return 200, {"found": found, "missing": missing, **place}


def _describe(copy: Copy) -> dict[str, Any]:
    return {"batch": copy.batch, "watermark": copy.watermark}


def _respond(status: int, content: dict[str, Any], **headers: str) -> Response:
    safe = {
        # No page may run a response as a script or embed it, and no proxy may cache it.
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    body = msgspec.json.encode(content)
    return Response(body, status, {**safe, **headers}, media_type="application/json")


class _Guard:
    """Refuses requests that are for another host, lack the token, or have a body."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Request(scope).headers
        refused = self._access.refuse(headers, (scope.get("server") or (None,))[0])
        if refused is not None:
            status, reason = refused
            more = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            await _respond(status, {"error": reason}, **more)(scope, receive, send)
        elif headers.get("content-length", "0").strip("0") or "transfer-encoding" in headers:
            close = _respond(413, {"error": "a request must not have a body"}, Connection="close")
            await close(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _Outbox:
    """Sends responses in pieces, as clients read them, and limits the bytes that are not sent yet."""

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self._app, self._limits = app, limits
        self._unsent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._unsent > self._limits.unsent_bytes:
            busy = _respond(
                503, {"error": "too many responses wait to be read"}, Connection="close"
            )
            await busy(scope, receive, send)
            return
        held = 0

        async def send_pieces(message: Any) -> None:
            nonlocal held
            body = message.get("body", b"")
            held += len(body)
            self._unsent += len(body)
            if len(body) <= CHUNK_BYTES:
                await send(message)
                return
            # Each piece waits until the client has read most of the one before.
            for start in range(0, len(body), CHUNK_BYTES):
                end = start + CHUNK_BYTES
                await send({**message, "body": body[start:end], "more_body": end < len(body)})

        try:
            await self._app(scope, receive, send_pieces)
        finally:
            self._unsent -= held


def _configure(app: ASGIApp, limits: ServerLimits) -> uvicorn.Config:
    class Connection(_Connection):
        time_s, most = limits.request_s, 2 * limits.connections

    return uvicorn.Config(
        app,
        http=Connection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=max(1, int(limits.request_s)),
        timeout_graceful_shutdown=2 * STOP_S,
        h11_max_incomplete_event_size=limits.head_bytes,
    )


class _Connection(H11Protocol):
    """A connection that is dropped if the client is too slow to send a request or read a response."""

    time_s: float
    most: int
    _deadline: asyncio.TimerHandle | None = None
    _ended = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._allow()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection until the request is answered."""
        self._ended = True
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        self._allow()
        super().on_response_complete()
        if self._ended and self.cycle.response_complete:
            self.transport.close()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(STOP_S, self.transport.abort)

    def _allow(self) -> None:
        """Restart the time for the next request and its response."""
        if self._deadline is not None:
            self._deadline.cancel()
        # Not `close`, which waits until everything is sent.
        self._deadline = self.loop.call_later(self.time_s, self.transport.abort)
