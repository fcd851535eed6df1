"""One HTTP connection: its client certificate, and how long it may wait for the other side.

ASGI servers hand on no certificate, and of them this one waits without end for the rest of a body,
of a second request's head, and for an answer to be read.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

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
