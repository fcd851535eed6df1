"""Curators on this machine, reached through a Unix socket: `unix:/path`."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from analyst.errors import CredentialsError

_PREFIX = "unix:"
_OTHERS_ANY: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_REMEDY_FOLDER = "Let the steward choose a folder that only the curator's user may write to."
_REMEDY = "Ask the steward which socket to use; it must be your own user's or root's."


def is_unix_socket(target: str) -> bool:
    """Return whether a target is a socket on this machine.

    Args:
        target: HOST:PORT or unix:/path.
    """
    return target.startswith(_PREFIX)


def check_unix_socket(target: str) -> None:
    """Check that nobody else could have put the socket there: a token goes over it.

    A socket that does not exist is no error here, since a curator may come back; but then nobody
    else may be able to make one at that place.

    Args:
        target: unix:/path.

    Raises:
        CredentialsError: If it is not a socket, or another user's, or open to others, or in a
            folder where others may make files.
    """
    path = Path(target.removeprefix(_PREFIX))
    if path.parent.exists() and not _is_ours(path.parent.stat(), _OTHERS_WRITE):
        msg = f"others may make files in {path.parent}, so nothing is sent to a socket there."
        raise CredentialsError(msg, _REMEDY_FOLDER)
    if not path.exists():
        return
    status = path.stat()
    if not stat.S_ISSOCK(status.st_mode) or not _is_ours(status, _OTHERS_ANY):
        msg = f"{path} is not a socket that only its owner may open."
        raise CredentialsError(msg, _REMEDY)


def _is_ours(status: os.stat_result, others: int) -> bool:
    """Return whether something is this user's or root's, and others have no such permission."""
    return status.st_uid in {os.getuid(), 0} and not status.st_mode & others
