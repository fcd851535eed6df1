"""Why nothing answers at an address: a proxy, its name, its port, its certificate, or a clock.

gRPC says only that it could not connect. This looks once more by itself, when that has happened,
and sends nothing but the beginning of a TLS handshake, and one question of HTTP without TLS.
"""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from analyst.client.address import is_unix_socket

_SECONDS: Final = 3.0
_HTTP: Final = b"HTTP/1"
_PROXY_VARIABLES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_NO_PROXY: Final = ("no_grpc_proxy", "no_proxy")


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
    return _proxy_between(host) or _what_is_there(host, port, authority)


def _proxy_between(host: str) -> str | None:
    """Return which variable sends gRPC's connections through a proxy.

    gRPC reads these variables itself, in this order and in lower case only.
    """
    named = next((name for name in _PROXY_VARIABLES if os.environ.get(name)), None)
    excepted = next((os.environ[name] for name in _NO_PROXY if os.environ.get(name)), "")
    if named is None or any(
        host.endswith(end) for end in (one.strip() for one in excepted.split(",")) if end
    ):
        return None
    return (
        f"The environment variable {named} sends this connection through a proxy, which may not "
        f"know the way: set no_proxy={host} if the curator can be reached without one."
    )


def _what_is_there(host: str, port: str, authority: str | None) -> str | None:
    """Return what is found wrong when the address is asked directly."""
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
    """Return whether what listens speaks HTTP/1 as a REST port does, or TLS as a curator does."""
    answer = b""
    with suppress(OSError):
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: curator\r\nConnection: close\r\n\r\n")
        answer = connection.recv(len(_HTTP))
    if answer == _HTTP:
        return _rest(host, port)
    return _needs_credentials(host, port) if _speaks_tls(host, int(port)) else None


def _needs_credentials(host: str, port: str) -> str:
    return (
        f"What listens at {host}:{port} speaks TLS: give the credentials file that the steward "
        "handed over, and leave --insecure-loopback (insecure_loopback) out."
    )


def _speaks_tls(host: str, port: int) -> bool:
    """Return whether TLS is spoken there, whoever it is."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing of it is believed
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, port), _SECONDS) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False


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
    if "expired" in what or "not yet valid" in what:
        return _out_of_time(host, port)
    if "match" in what or "mismatch" in what:
        return f"The curator is at {host}:{port}, but its certificate is not for the name {host}."
    return f"Another curator, or none, is at {host}:{port}: these credentials do not trust it."


def _out_of_time(host: str, port: int) -> str:
    """Compare this machine's clock with the times of the certificate that is shown.

    Nothing else is believed of it.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    at = f"The curator is at {host}:{port}, but its certificate"
    clock = f"this machine's clock says {now:%Y-%m-%d %H:%M} UTC"
    try:
        shown = ssl.get_server_certificate((host, port), timeout=_SECONDS)
        certificate = x509.load_pem_x509_certificate(shown.encode())
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (OSError, ValueError):
        return f"{at} is not valid now: {clock}."
    if now < begins:
        return (
            f"{at} is valid from {begins:%Y-%m-%d %H:%M} UTC only, and {clock}, {begins - now} "
            "earlier: one of the two clocks is wrong."
        )
    return f"{at} expired on {ends:%Y-%m-%d}; {clock}."
