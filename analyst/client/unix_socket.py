"""Curators on this machine, reached through a Unix socket: `unix:/path`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from analyst.errors import CredentialsError

_PREFIX = "unix:"
_REMEDY = "Ask the steward which socket to use; it must be your own user's or root's."


def is_unix_socket(target: str) -> bool:
    """Return whether a target is a socket on this machine.

    Args:
        target: HOST:PORT or unix:/path.
    """
    return target.startswith(_PREFIX)


def check_unix_socket(target: str) -> None:
    """Check that nobody else could have put the socket there: a token goes over it.

    A socket that does not exist is no error here, since a curator may come back.

    Args:
        target: unix:/path.

    Raises:
        CredentialsError: If it is not a socket, or another user's, or open to others.
    """
    path = Path(target.removeprefix(_PREFIX))
    if not path.exists():
        return
    status = path.stat()
    others = stat.S_IRWXG | stat.S_IRWXO
    trusted = status.st_uid in {os.getuid(), 0} and not status.st_mode & others
    if not stat.S_ISSOCK(status.st_mode) or not trusted:
        msg = f"{path} is not a socket that only its owner may open."
        raise CredentialsError(msg, _REMEDY)
