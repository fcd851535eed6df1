"""Addresses of curators as researchers write them: HOST:PORT, or a socket on this machine.

`unix:/path` is gRPC over a socket. `local:/path` is the same, with steps over a socket beside it
that knows no gRPC and takes less time.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from analyst.errors import CredentialsError

_HOST_AND_PORT: Final = re.compile(r"(?:\[[^\s\[\]/]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_LARGEST_PORT: Final = 65535
_PREFIX = "unix:"
_LOCAL: Final = "local:"
_STEPS: Final = ".steps"
_OTHERS_ANY: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_REMEDY_FOLDER = "Let the steward choose a folder that only the curator's user may write to."
_REMEDY = "Ask the steward which socket to use; it must be your own user's or root's."


def address_problem(target: str) -> str | None:
    """Return what is wrong with how an address is written; None if nothing is."""
    if is_unix_socket(target):
        return None
    found = _HOST_AND_PORT.fullmatch(target)
    if found and 0 < int(found[1]) <= _LARGEST_PORT:
        return None
    return "HOST:PORT is needed, such as localhost:50051"


def is_unix_socket(target: str) -> bool:
    """Return whether a target is a socket on this machine."""
    return target.startswith((_PREFIX, _LOCAL))


def socket_path(target: str) -> Path:
    """Return the path of a socket on this machine."""
    return Path(target.removeprefix(_PREFIX).removeprefix(_LOCAL)).absolute()


def steps_path(target: str) -> Path | None:
    """Return the socket that steps go over; None if they go over gRPC."""
    if not target.startswith(_LOCAL):
        return None
    path = socket_path(target)
    return path.with_name(path.name + _STEPS)


def grpc_target(target: str) -> str:
    """Return a target as gRPC reads it: it decodes the path of a socket like that of a URL."""
    if not is_unix_socket(target):
        return target
    return _PREFIX + quote(target.removeprefix(_PREFIX).removeprefix(_LOCAL))


def check_unix_socket(path: Path) -> None:
    """Check that nobody else could have put the socket there: a token goes over it.

    A socket that does not exist is no error here, since a curator may come back; but then nobody
    else may be able to make one at that place.

    Raises:
        CredentialsError: If it is not a socket, or another user's, or open to others, or in a
            folder where others may make files.
    """
    try:
        for folder in (path.parent, path.parent.resolve()):
            _check_folder(folder)
        if not path.exists():
            return
        status = path.stat()
    except OSError as error:
        msg = f"{path} cannot be looked at: {error.strerror}."
        raise CredentialsError(msg, _REMEDY) from None
    if not stat.S_ISSOCK(status.st_mode) or not _is_ours(status, _OTHERS_ANY):
        msg = f"{path} is not a socket that only its owner may open."
        raise CredentialsError(msg, _REMEDY)


def _check_folder(folder: Path) -> None:
    """Check that nobody else could put something at a place in a folder, made or not.

    Raises:
        CredentialsError: If others may make files in it, or in the first folder above it that there
            is; or if they may put another in its place.
    """
    there, *above = [one for one in (folder, *folder.parents) if one.exists()]
    links = [one for one in (there, *above) if one.is_symlink()]
    is_safe = _is_ours(there.stat(), _OTHERS_WRITE)
    is_safe &= all(_is_ours(link.lstat(), 0) for link in links)
    is_safe &= all(_keeps_names(one.stat()) for one in above)
    if not is_safe:
        msg = f"others may make files in {there}, so nothing is sent to a socket there."
        raise CredentialsError(msg, _REMEDY_FOLDER)


def _keeps_names(status: os.stat_result) -> bool:
    """Return whether others cannot rename what is ours in a folder."""
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    return _is_ours(status, 0 if is_sticky else _OTHERS_WRITE)


def _is_ours(status: os.stat_result, others: int) -> bool:
    """Return whether something is this user's or root's, and others have no such permission."""
    return status.st_uid in {os.getuid(), 0} and not status.st_mode & others
