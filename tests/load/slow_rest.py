"""Hold connections to REST open with a byte now and then, and open a new one for each that ends."""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final

from tests.load.harness import Target

_CONNECTIONS: Final = 300
_DRIP_SECONDS: Final = 1.0


def _open(target: Target, tls: ssl.SSLContext, beginning: bytes) -> ssl.SSLSocket | None:
    try:
        plain = socket.create_connection(("127.0.0.1", target.rest_port), 2)
        secured = tls.wrap_socket(plain, server_hostname="localhost")
        secured.sendall(beginning)
    except OSError:
        return None
    return secured


def _drip(held: list[ssl.SSLSocket], drip: bytes) -> int:
    """Send a little on each connection; return how many had ended, which are held no more."""
    ended = 0
    for one in list(held):
        try:
            one.sendall(drip)
            while select.select([one], [], [], 0)[0]:
                if not one.recv(1 << 16):
                    raise ConnectionError
        except OSError:
            held.remove(one)
            ended += 1
            with suppress(OSError):
                one.close()
    return ended


def hold(target: Target, beginning: bytes, drip: bytes, until: float) -> dict[str, int]:
    """Return how many connections were opened and how many of them the curator ended.

    Args:
        target: The curator.
        beginning: What each connection sends at first.
        drip: What it sends each second.
        until: Monotonic seconds.
    """
    tls = target.tls()
    held: list[ssl.SSLSocket] = []
    opened = ended = 0
    while time.monotonic() < until:
        while len(held) < _CONNECTIONS and time.monotonic() < until:
            one = _open(target, tls, beginning)
            if one is None:
                break
            held.append(one)
            opened += 1
        time.sleep(_DRIP_SECONDS)
        ended += _drip(held, drip)
    for one in held:
        one.close()
    return {"opened": opened, "ended_by_the_curator": ended}
