"""Addresses of curators as researchers write them: HOST:PORT or unix:/path."""

from __future__ import annotations

import re
from typing import Final

from analyst.client.unix_socket import is_unix_socket

_HOST_AND_PORT: Final = re.compile(r"(?:\[[^\s\[\]/]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_LARGEST_PORT: Final = 65535


def address_problem(target: str) -> str | None:
    """Return what is wrong with how an address is written; None if nothing is."""
    if is_unix_socket(target):
        return None
    found = _HOST_AND_PORT.fullmatch(target)
    if found and 0 < int(found[1]) <= _LARGEST_PORT:
        return None
    return "HOST:PORT is needed, such as localhost:50051"
