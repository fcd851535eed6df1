"""A listening socket that keeps so many connections open at most, whoever opens more.

It counts connections from the moment they are taken, before TLS and before any request. When one
more comes, the address that holds the most loses its oldest: whoever asks and is answered is here
for an instant and is never the oldest, and whoever only holds connections pays with its own.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from contextlib import suppress
from typing import Any, final


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
