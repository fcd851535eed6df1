"""How connections are kept: how many at once, how long, and by which protocol.

ASGI servers hand on no certificate, and of them this one waits without end for the rest of a body,
of a second request's head, and for an answer to be read.

The listening socket counts connections from the moment they are taken, before TLS and before any
request. When one more comes, the address that holds the most loses its oldest: whoever asks and is
answered is here for an instant and is never the oldest, and whoever only holds connections pays
with its own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import Counter
from contextlib import suppress
from typing import Any, Final, final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from curator.errors import MalformedRequest

PEER_CERTIFICATE: Final = "weir.peer_certificate"
"""Key of the scope: DER, verified by TLS; set by the protocol for each request."""

_HEAD_SECONDS = 10.0  # for a whole head, of the first request or of a later one that has begun
_BODY_SECONDS = 20.0
_TAKING_SECONDS = 60.0  # until the other side has taken an answer
_CLOSING_SECONDS = 2.0  # for words of goodbye


@final
class PeerProtocol(H11Protocol):
    """HTTP/1.1 that tells the application whose certificate the connection has."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the application for this connection.

        Args:
            transport: After the handshake.
        """
        super().connection_made(transport)
        secured = transport.get_extra_info("ssl_object")
        certificate = None
        if isinstance(secured, ssl.SSLObject):
            certificate = secured.getpeercert(binary_form=True)
        self.app = _with_certificate(self.app, certificate)
        self._end_after(_HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._end_after(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come, and wait for the rest of it only so long."""
        before: object = self.cycle
        was_whole = self._is_whole()
        super().handle_events()
        if self.cycle is before and was_whole == self._is_whole():
            return
        if self._is_whole():
            self._end_after(_TAKING_SECONDS)
        else:
            self._end_after(_BODY_SECONDS)

    def on_response_complete(self) -> None:
        """Wait for another request; uvicorn does so until a first byte of it comes."""
        self._end_after(_HEAD_SECONDS)
        super().on_response_complete()

    def _is_whole(self) -> bool:
        """Return whether a request is here with its body."""
        cycle: object = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not self.cycle.more_body

    def _end_after(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Close a connection whose other side is too slow; one that waits for us may stay."""
        waits_for_us = self._is_whole() and not self.cycle.response_complete
        if waits_for_us and not self.transport.get_write_buffer_size():
            self._end_after(_TAKING_SECONDS)
            return
        self.transport.close()
        self.loop.call_later(_CLOSING_SECONDS, self.transport.abort)


def _with_certificate(app: ASGIApp, certificate: bytes | None) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, PEER_CERTIFICATE: certificate}, receive, send)

    return wrapped


@final
class CrowdedSocket(socket.socket):
    """Listens for one server; asyncio takes connections from it as from any socket."""

    def __init__(self, family: int, most: int) -> None:
        """Take the address family, and how many connections may be open at once."""
        super().__init__(family, socket.SOCK_STREAM)
        self._most = most
        self._lock = threading.Lock()
        self._open: dict[_Counted, str] = {}  # by age; with the address of the other side

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection, and make room for it if there is none."""
        taken, address = super().accept()
        timeout = taken.gettimeout()
        counted = _Counted(self, taken)
        counted.settimeout(timeout)
        with self._lock:
            late = self._ousted() if len(self._open) >= self._most else None
            self._open[counted] = str(address[0])
        if late is not None:
            late.end()
        return counted, address

    def forget(self, ended: _Counted) -> None:
        """Count a connection no more."""
        with self._lock:
            self._open.pop(ended, None)

    def _ousted(self) -> _Counted:
        """Return whose turn it is to go: the oldest of the address with the most."""
        greediest, _ = Counter(self._open.values()).most_common(1)[0]
        late = next(one for one, address in self._open.items() if address == greediest)
        del self._open[late]
        return late


@final
class _Counted(socket.socket):
    """A connection that says when it is closed."""

    def __init__(self, listener: CrowdedSocket, taken: socket.socket) -> None:
        super().__init__(taken.family, taken.type, taken.proto, fileno=taken.detach())
        self._listener = listener

    def end(self) -> None:
        """Let its server find it ended; the server alone closes it."""
        with suppress(OSError):  # it has gone meanwhile
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, and make room for another."""
        self._listener.forget(self)
        super().close()


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the whole body.

    Args:
        request: That went through the door.
        most_bytes: Beyond it nothing more is read.

    Raises:
        MalformedRequest: If it is too long.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise MalformedRequest
    return body
