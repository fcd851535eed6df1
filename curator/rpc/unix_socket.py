"""Unix sockets for analysts on the same machine, which one user may open: by default the curator's.

Nothing is encrypted there, since nothing leaves the machine's memory; callers still show a token.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from curator.identity.listen import PortUnavailable

LONGEST_PATH: Final = 100  # of the 107 bytes that the operating system allows
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OWNER_ONLY: Final = 0o177  # mask of the permissions that others would get


@dataclass(frozen=True, kw_only=True, slots=True)
class SocketPlace:
    """A path, and the user who may open the socket there; None for the curator's own."""

    path: Path
    user: int | None = None


def bind_unix_socket(
    place: SocketPlace, bind: Callable[[Path], object], longest: int = LONGEST_PATH
) -> None:
    """Bind a socket, never open to others, in place of one that a killed process left.

    Args:
        place: Where, and for whom.
        bind: Binds to a path.
        longest: Bytes that the path may have.

    Raises:
        PortUnavailable: If something else is at the path or is served there, nothing can be bound
            there, the socket cannot be given to its user, or others could put a socket of theirs
            there: analysts would send it no token.
    """
    path = place.path
    if len(os.fsencode(path)) > longest or not path.is_absolute():
        msg = f"{path}: the path of a Unix socket must be absolute, of {longest} bytes at most"
        raise PortUnavailable(msg)
    if _is_served(path):
        msg = f"another process answers at {path}; choose another unix_socket, or stop it"
        raise PortUnavailable(msg)
    if _others_may_write(path.parent):
        msg = (
            f"others may make files in {path.parent}, so analysts trust no socket there; choose a "
            "folder for unix_socket that only the curator's user may write to"
        )
        raise PortUnavailable(msg)
    try:
        if _is_socket(path):
            path.unlink()
        with _only_for_owner():
            bind(path)
        path.chmod(0o600)
    except (OSError, RuntimeError):
        msg = f"cannot listen on {path}; choose another unix_socket"
        raise PortUnavailable(msg) from None
    if place.user is not None:
        _give(path, place.user)


def _give(path: Path, user: int) -> None:
    """Let another user open a socket, and only that one.

    Raises:
        PortUnavailable: If this process may not give files away.
    """
    try:
        os.chown(path, user, -1)
    except OSError:
        path.unlink()
        msg = (
            f"{path} cannot be given to user {user}: serve as root or with CAP_CHOWN, or leave "
            "unix_socket_user out"
        )
        raise PortUnavailable(msg) from None


def remove_unix_socket(path: Path) -> None:
    """Remove a socket that is no longer served."""
    if _is_socket(path):
        path.unlink()


def _is_socket(path: Path) -> bool:
    return path.exists() and stat.S_ISSOCK(path.lstat().st_mode)


def _is_served(path: Path) -> bool:
    """Return whether somebody takes connections there; what a killed process left takes none."""
    if not _is_socket(path):
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # noqa: FBT003 - as Python has it
        return probe.connect_ex(os.fsencode(path)) in {0, errno.EAGAIN}  # with a full queue


def _others_may_write(folder: Path) -> bool:
    """Return whether others than this user and root may make files in a folder that there is."""
    try:
        status = folder.stat()
    except OSError:  # binding says what is wrong
        return False
    return status.st_uid not in {os.getuid(), 0} or bool(status.st_mode & _OTHERS_WRITE)


@contextmanager
def _only_for_owner() -> Iterator[None]:
    """Let what is made meanwhile be its owner's alone; before any other thread makes files."""
    before = os.umask(_OWNER_ONLY)
    try:
        yield
    finally:
        os.umask(before)
