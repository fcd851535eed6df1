"""Why nothing answers at an address: its name, its port, or its certificate.

gRPC says only that it could not connect. This looks once more by itself, when that has happened,
and sends nothing but the beginning of a TLS handshake, or one question of HTTP without TLS.
"""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from analyst.client.unix_socket import is_unix_socket

_SECONDS: Final = 3.0
_HTTP: Final = b"HTTP/1"


def why_unreachable(target: str, authority: str | None) -> str | None:
    """Return what is wrong with an address, in one sentence.

    Args:
        target: HOST:PORT.
        authority: PEM of the authority that the credentials name; None without TLS.

    Returns:
        None if nothing is found wrong.
    """
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    if is_unix_socket(target) or not host or not port.isdecimal():
        return None
    try:
        with socket.create_connection((host, int(port)), _SECONDS) as connection:
            if authority is None:
                return _check_plain(connection, host, port)
            return _check_certificate(connection, host, int(port), authority)
    except (socket.gaierror, UnicodeError):  # the second: no name at all, such as a..b
        return f"There is no machine of the name {host}."
    except ConnectionRefusedError:
        return f"{host} answers, but nothing listens on port {port}."
    except TimeoutError:
        return f"{host} does not answer on port {port}: a firewall may be in between."
    except (OSError, OverflowError):
        return None


def _check_plain(connection: socket.socket, host: str, port: str) -> str | None:
    """Return whether what listens speaks HTTP/1 as a REST port does; a gRPC port never does."""
    try:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: curator\r\nConnection: close\r\n\r\n")
        answer = connection.recv(len(_HTTP))
    except OSError:
        return None
    return _rest(host, port) if answer == _HTTP else None


def _rest(host: str, port: str) -> str:
    return (
        f"{host}:{port} speaks HTTP but not gRPC, so this looks like the REST port; the line "
        "'ready: grpc HOST:PORT' of 'curator serve' names the right one."
    )


def _check_certificate(
    connection: socket.socket, host: str, port: int, authority: str
) -> str | None:
    """Return what is wrong with the certificate that is shown."""
    context = ssl.create_default_context(cadata=authority)
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(connection, server_hostname=host) as speaking:
            return None if speaking.selected_alpn_protocol() == "h2" else _rest(host, str(port))
    except ssl.SSLCertVerificationError as error:
        return _in_words(error.verify_message, host, port)
    except (ssl.SSLError, OSError):
        return "Something listens there, but it does not speak TLS as a curator does."


def _in_words(what: str, host: str, port: int) -> str:
    if "expired" in what:
        ended = _end_of(host, port)
        when = "" if ended is None else f" on {ended:%Y-%m-%d}"
        return f"The curator is at {host}:{port}, but its certificate expired{when}."
    if "match" in what or "mismatch" in what:
        return f"The curator is at {host}:{port}, but its certificate is not for the name {host}."
    return f"Another curator, or none, is at {host}:{port}: these credentials do not trust it."


def _end_of(host: str, port: int) -> datetime | None:
    """Return when the certificate that is shown ended; nothing else is believed of it."""
    try:
        shown = ssl.get_server_certificate((host, port), timeout=_SECONDS)
        return x509.load_pem_x509_certificate(shown.encode()).not_valid_after_utc.astimezone(UTC)
    except (OSError, ValueError):
        return None
