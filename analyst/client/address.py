"""Addresses of curators as researchers write them: HOST:PORT or unix:/path."""

from __future__ import annotations

from analyst.client.unix_socket import is_unix_socket


def address_problem(target: str) -> str | None:
    """Return what is wrong with how an address is written; None if nothing is.

    Args:
        target: HOST:PORT or unix:/path.
    """
    host, _, port = target.rpartition(":")
    if is_unix_socket(target) or (host and port.isdecimal()):
        return None
    return "HOST:PORT is needed, such as localhost:50051"
