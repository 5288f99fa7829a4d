"""Access control of the HTTP server of a state: which requests it answers, and which it refuses.

A page of any web site can send requests to a server on the user's own machine. It can't read the responses,
unless its name resolves to that machine (DNS rebinding). So a request must name this server in `Host`, and
its `Origin`, if a browser sends one, must be this server. A server that other machines can reach also
requires a token.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.errors import InputError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
LEAST_TOKEN = 16
TOKEN_VARIABLE = "ANABRANCH_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_AUTHORITY = re.compile(r"(?:\[([\da-f:.]+)\]|([\w.-]*\w)\.?)(?::\d{1,5})?", re.ASCII)
_TOKEN = re.compile(r"[\w.~+/=-]+", re.ASCII)


@dataclass(frozen=True)
class Access:
    """The host names that a server accepts, and the token that it requires."""

    names: frozenset[str] = LOOPBACK
    token: str | None = None

    def refuse(self, headers: Mapping[str, str], address: str | None) -> tuple[int, str] | None:
        """Return the status and the reason if a request is refused; None if it is answered.

        `address` is the address of this machine at which the request arrived.
        """
        called = headers.get("host", "")
        host = read_authority(called)
        if host is None or (host not in self.names and host != _unmap(address)):
            return 403, f"{called!r} is not a name of this server; --allow-host adds a name"
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != called.lower():
            return 403, f"requests from pages of {origin!r} are not answered"
        if self.token is not None and not _matches(headers.get("authorization", ""), self.token):
            return 401, "a token is needed: Authorization: Bearer TOKEN"
        return None


def grant(host: str, token: str | None = None, allow_hosts: Iterable[str] = ()) -> Access:
    """Return the access to a server that listens at `host`; generate a token if one is needed."""
    if token is not None and (len(token) < LEAST_TOKEN or not _TOKEN.fullmatch(token)):
        raise InputError(
            "the token can't be used",
            expected=f"at least {LEAST_TOKEN} letters, digits or any of - . _ ~ + / =",
            got=f"{len(token)} characters",
            cure="leave it out: one is generated where it is needed",
        )
    names = {host.lower(), *LOOPBACK}
    for name in allow_hosts:
        read = read_authority(name)
        if read is None:
            raise InputError(
                f"{name!r} is no name of a host",
                expected="a name or an address, without http:// and without a path",
                got=name,
            )
        names.add(read)
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(32)
    return Access(frozenset(names), token)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server at `host`."""
    return all(ipaddress.ip_address(address).is_loopback for _, address in resolve(host))


def resolve(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses of a host on this machine, each with its family."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"nothing can be served at {host!r}",
            expected="a name or an address of this machine",
            got=str(error),
        ) from error
    return list(
        dict.fromkeys((family, str(place[0]).partition("%")[0]) for family, _, _, _, place in found)
    )


def read_authority(text: str) -> str | None:
    """Return the host of `host` or `host:port`, in lower case, or None if it is neither.

    >>> read_authority("LocalHost:8080"), read_authority("[::1]:80"), read_authority("a@b")
    ('localhost', '::1', None)
    """
    found = _AUTHORITY.fullmatch(text.lower())
    return found and (found[1] or found[2])


def _matches(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    # In constant time: the duration must not show how much of a guess is right.
    same = hmac.compare_digest(given.strip().encode(), token.encode())
    return same and scheme.lower() == "bearer"


def _unmap(address: str | None) -> str | None:
    """Return an address as a client writes it: `::ffff:10.0.0.1` is 10.0.0.1."""
    return None if address is None else address.lower().removeprefix("::ffff:")
