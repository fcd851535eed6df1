"""Whether the configured ports are free, or held by the curator of this folder.

A free port is bound for a moment. Of one that is taken the certificate is asked, which everybody
may see, and compared with the folder's.
"""

from __future__ import annotations

import errno
import socket
import ssl
from pathlib import Path
from typing import Final

from curator.doctor.finding import Finding, attention, fault, well
from curator.doctor.locks import are_listed
from curator.doctor.subject import Subject
from curator.identity.listen import address, reachable

_SECONDS: Final = 2.0
_FREE, _OURS, _OTHER = "free", "held by the curator of this folder", "held by another program"
_UNKNOWN: Final = "held by a program that shows no certificate, perhaps this folder's curator"


def ports(subject: Subject) -> Finding:
    """Look at every port of the configuration.

    Args:
        subject: Its configuration names the ports, its folder holds the certificate.
    """
    grpc, rest = subject.config.grpc, subject.config.rest
    wanted = {"grpc": (grpc.host, grpc.port), "rest": (rest.host, rest.port)}
    if grpc.certificate_port is not None:
        wanted["client certificates"] = (grpc.host, grpc.certificate_port)
    found = {name: _held(subject, *where) for name, where in wanted.items()}
    words = [f"{name} {_shown(*wanted[name])} {held}" for name, held in found.items()]
    is_ours = _OURS in found.values()
    is_coming = not subject.is_served and (subject.is_busy or is_ours)
    words.append(_who_serves(subject, is_coming=is_coming))
    facts = {
        "serving": subject.is_served,
        "busy": is_coming,
        "ports": {
            name: {"host": wanted[name][0], "port": wanted[name][1], "held": held}
            for name, held in found.items()
        },
    }
    said = "; ".join(words)
    if any(held.startswith("cannot") for held in found.values()):
        return fault(said, "choose another host or port in curator.toml", **facts)
    if is_coming:
        return attention(
            said, "wait for the ready line of 'curator serve', then ask again", **facts
        )
    if _OTHER in found.values() and not subject.is_served:
        return attention(said, "stop what listens there, or choose another port", **facts)
    return well(said, **facts)


def _who_serves(subject: Subject, *, is_coming: bool) -> str:
    if subject.is_served:
        return "a curator serves this folder"
    if is_coming:
        return "a curator of this folder is starting or stopping, or a command of it is running"
    if not are_listed():
        return "no curator answers for it; whether one is starting, this system does not say"
    return "no curator serves it"


def _shown(host: str, port: int) -> str:
    return address(host, port) if port else f"{host}, any port:"


def _held(subject: Subject, host: str, port: int) -> str:
    """Return who holds a port."""
    if not port:
        return _FREE
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, number, _, address = found[0]
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as problem:
        if problem.errno != errno.EADDRINUSE:
            return f"cannot be bound: {problem.strerror}"
        return _holder(subject, host, port)
    return _FREE


def _holder(subject: Subject, host: str, port: int) -> str:
    shown = _certificate_at(reachable(host), port)
    if shown is None:
        return _UNKNOWN if subject.is_served or subject.is_busy else _OTHER
    ours = None if subject.folder is None else _own_certificate(subject.folder.tls.certificate)
    return _OURS if shown == ours else _OTHER


def _own_certificate(path: Path) -> bytes | None:
    """Return the first certificate of a file."""
    try:
        text = path.read_text()
        return ssl.PEM_cert_to_DER_cert(text[: text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)])
    except (OSError, ValueError):
        return None


def _certificate_at(host: str, port: int) -> bytes | None:
    """Return the certificate that is shown at a port, None if none is."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is only compared
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        with (
            socket.create_connection((host, port), timeout=_SECONDS) as plain,
            context.wrap_socket(plain) as secured,
        ):
            return secured.getpeercert(binary_form=True)
    except OSError:
        return None
