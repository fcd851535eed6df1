"""The client certificate of an HTTP connection, which ASGI servers do not hand on by themselves."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

PEER_CERTIFICATE: Final = "weir.peer_certificate"
"""Key of the scope: DER, verified by TLS; set by the protocol for each request."""

_FIRST_REQUEST_SECONDS = 10.0


@final
class PeerProtocol(H11Protocol):
    """HTTP/1.1 that tells the application whose certificate the connection has."""

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
        self.loop.call_later(_FIRST_REQUEST_SECONDS, self._end_unless_asked)

    def _end_unless_asked(self) -> None:
        """Close a connection that has not brought a whole request head."""
        begun: object = self.cycle  # None before the first request, whatever its type says
        if begun is None:
            self.transport.close()


def _with_certificate(app: ASGIApp, certificate: bytes | None) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, PEER_CERTIFICATE: certificate}, receive, send)

    return wrapped
