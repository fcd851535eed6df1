"""Run the REST application in a thread of the curator's process."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import dataclass
from typing import final

import uvicorn
from fastapi import FastAPI

from curator.identity.listen import PortUnavailable, Reload, TlsFiles, address
from curator.rest.connections import CrowdedSocket, PeerProtocol

_STOP_SECONDS = 5.0
_BACKLOG = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class RestConfig:
    """Where and how to listen."""

    host: str
    port: int
    tls: TlsFiles | None
    most_connections: int = 256
    option: str = "--rest-port"  # that chooses another port


@final
class RestServer:
    """A bound REST server."""

    def __init__(self, app: FastAPI, config: RestConfig) -> None:
        """Bind the port; port 0 takes a free one.

        Raises:
            PortUnavailable: If the port cannot be bound.
        """
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        self._socket = CrowdedSocket(family, config.most_connections)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # '::' takes IPv4 too, as gRPC does
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            self._socket.bind((config.host, config.port))
        except OSError:
            self._socket.close()
            msg = (
                f"cannot listen on {address(config.host, config.port)}: the port is in use or not "
                f"allowed; choose {config.option}"
            )
            raise PortUnavailable(msg) from None
        self.port: int = self._socket.getsockname()[1]
        tls = config.tls
        serving = uvicorn.Config(
            app,
            http=PeerProtocol,
            loop="asyncio",  # others take connections from the descriptor, and nobody counts them
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.key,
        )
        serving.load()
        if tls is not None:
            serving.ssl = _reloading(tls)
        self._server = uvicorn.Server(serving)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True, name="rest"
        )

    def start(self) -> None:
        """Begin to answer; connections that come before the application is up wait for it."""
        self._socket.listen(_BACKLOG)
        self._thread.start()

    def stop(self) -> None:
        """Finish open requests and stop."""
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)


def _reloading(tls: TlsFiles) -> ssl.SSLContext:
    """Return a context whose every handshake uses the files as they are then."""
    reload = Reload(tls)
    latest = first = tls.context()

    def choose(connection: ssl.SSLSocket | ssl.SSLObject, *_: object) -> None:
        nonlocal latest
        latest = reload.changed() or latest
        connection.context = latest

    first.sni_callback = choose
    return first
