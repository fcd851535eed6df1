"""Files that appear whole or not at all, replace nothing unasked, and never a curator's own files.

What is written goes to a temporary name in the same folder, is synced, and then gets its name. No
command that a steward gives a place to writes into a curator's folder, however the place is spelt.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from curator.system.os_errors import naming

CONFIG_NAME: Final = "curator.toml"
"""The file that makes a folder a curator's."""

_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_BESIDE: Final = ("-journal", "-wal", "-shm")  # what SQLite leaves when it is interrupted


class OutputRefused(ValueError):
    """A file must not be written there; the text says what to do instead."""


class OutputExists(OutputRefused):
    """There is a file of that name."""

    def __init__(self, path: Path) -> None:
        """Say so of `path`."""
        super().__init__(f"{path} exists already: choose another --out, or add --force")


def curator_folder_of(path: Path) -> Path | None:
    """Return the curator's folder that a path is, or lies in, as spelt or behind links."""
    for place in (_real(path), _real(path.parent) / path.name):
        for above in (place, *place.parents):
            if _is_file(above / CONFIG_NAME):
                return above
    return None


def check_output(path: Path, *, force: bool, own: Iterable[Path] = ()) -> None:
    """Check that a file may be written, before anything is done for it.

    Args:
        path: As the steward gave it.
        force: Whether a file that exists may be replaced.
        own: Files and folders of the curator's, which links may have led out of its folder.

    Raises:
        OutputRefused: If it is no plain file, or is a curator's.
        OutputExists: If it exists and may not be replaced.
    """
    home = curator_folder_of(path)
    if home is not None:
        msg = (
            f"{path} lies in the curator's folder {home}, where no command writes what it is "
            "asked for: choose a place outside of it"
        )
        raise OutputRefused(msg)
    if any(_touches(path, one) for one in own):
        msg = f"{path} is one of the curator's own files: choose another place"
        raise OutputRefused(msg)
    if not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        msg = f"{path} is no plain file: give the name of a file"
        raise OutputRefused(msg)
    if not force:
        raise OutputExists(path)


def check_new_folder(path: Path) -> None:
    """Check that a curator's folder may be made.

    Raises:
        OutputRefused: If it lies in another curator's.
    """
    around = curator_folder_of(_real(path).parent)
    if around is not None:
        msg = f"{path} lies in the curator's folder {around}: choose a place outside of it"
        raise OutputRefused(msg)


@contextmanager
def new_file(path: Path, *, replace: bool, mode: int = 0o600) -> Iterator[Path]:
    """Give a temporary file to write, and let it appear under its name when it is whole.

    Args:
        path: Where to.
        replace: Whether a file that exists is replaced; else one that appears meanwhile is kept.
        mode: Permissions, less what the process's mask takes away.

    Yields:
        The temporary file, empty; whatever happens, it is gone afterwards.

    Raises:
        OutputExists: If there is one that is not to be replaced.
        OSError: If it cannot be written; it names `path`.
    """
    target = _real(path)  # a link is written through, to where it was checked
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    with naming(path, also=partial):
        try:
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
            yield partial
            sync(partial)
            if replace:
                partial.replace(target)
            else:
                _publish(partial, target)
            sync(target.parent)
        finally:
            for ending in ("", *_BESIDE):
                partial.with_name(partial.name + ending).unlink(missing_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """Write a file of the curator's own that only the owner may read, whole or not at all.

    Args:
        path: Where to; replaced if it exists.
        data: What to write.
    """
    with new_file(path, replace=True) as partial:
        partial.write_bytes(data)


def _publish(partial: Path, target: Path) -> None:
    """Give a file its name, unless there is one of that name.

    Where there are no hard links, the name is taken first, as whoever comes second cannot.

    Raises:
        OutputExists: If there is.
        OSError: If it cannot be named.
    """
    try:
        try:
            os.link(partial, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            target.touch(exist_ok=False)
            partial.replace(target)
    except FileExistsError:
        raise OutputExists(target) from None


def sync(path: Path) -> None:
    """Make a file's content or a folder's names durable.

    Args:
        path: Of either; an `OSError` if it cannot be synced.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _real(path: Path) -> Path:
    """Return where a path leads; links in a circle lead nowhere, which opening the file says."""
    return Path(os.path.realpath(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # of a folder that may not be looked into, which no file can be made in either
        return False


def _touches(path: Path, own: Path) -> bool:
    """Whether a path is one of a curator's files, lies in it, or is what SQLite keeps beside it."""
    target, place = _real(path), _real(own)
    beside = {place.with_name(place.name + ending) for ending in (*_BESIDE, ".lock")}
    return target in beside or place in {target, *target.parents} or _is_same(path, own)


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False
