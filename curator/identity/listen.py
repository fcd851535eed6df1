"""Where a server listens, and with which certificate; shared by the two shells."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import final


class PortUnavailable(RuntimeError):
    """The port cannot be bound."""


def address(host: str, port: int) -> str:
    """Return an address as programs read it: a numeric one of IPv6 stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_every_address(host: str) -> bool:
    """Return whether a server of this host listens on every address of the machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return not host


def reachable(host: str, host_names: Sequence[str] = ()) -> str:
    """Return a host under which a server can be asked.

    Args:
        host: Where it listens.
        host_names: By which the machine is known, for one that listens on every address.
    """
    return next(iter(host_names), "localhost") if is_every_address(host) else host


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """The server's certificate and key, and the authority of client certificates, as PEM files."""

    certificate: Path
    key: Path
    authority: Path

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Return what changes when a file is replaced or written."""
        states = [path.stat() for path in (self.certificate, self.key, self.authority)]
        return tuple((state.st_mtime_ns, state.st_ino) for state in states)

    def context(self) -> ssl.SSLContext:
        """Return a server's context; a client certificate is asked for and not required.

        A certificate and a key that do not fit are an `OSError`.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        context.load_verify_locations(self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


@final
class Reload:
    """Says when the files have changed and fit together; until then the old ones are served."""

    def __init__(self, files: TlsFiles) -> None:
        """Take the files as they are now."""
        self._files = files
        self._lock = threading.Lock()
        self._stamp = files.stamp()

    def changed(self) -> ssl.SSLContext | None:
        """Return the context of new files, once; None while there is nothing new that fits."""
        with self._lock:
            try:
                stamp = self._files.stamp()
                if stamp == self._stamp:
                    return None
                context = self._files.context()
            except OSError:  # one is missing, or not yet replaced like the other
                return None
            self._stamp = stamp
            return context
