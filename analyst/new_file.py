"""Files that appear whole or not at all, replace nothing unasked, and never a curator's own files.

What is written goes to a temporary name in the same folder, is synced, and then gets its name.
Where a steward and an analyst share a machine, nothing goes into a curator's folder.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from analyst.errors import OutputExists, OutputRefused
from analyst.os_errors import naming

_CURATOR: Final = "curator.toml"  # the file that makes a folder a curator's
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_OTHER: Final = "Choose another --out, or add --force."


def check_place(path: Path) -> None:
    """Check that a file or folder does not lie in a curator's folder, however it is spelt.

    Raises:
        OutputRefused: If it does.
    """
    for place in (_real(path), _real(path.parent) / path.name):
        for above in (place, *place.parents):
            if _is_file(above / _CURATOR):
                message = f"{path} lies in the curator's folder {above}"
                raise OutputRefused(message, "Choose a place outside of it.")


def check_output(path: Path, *, force: bool) -> None:
    """Check that a file may be written, before anything is computed for it.

    Raises:
        OutputRefused: If it is no plain file, or a curator's.
        OutputExists: If it exists and may not be replaced.
    """
    check_place(path)
    if path.parent.exists() and not path.parent.is_dir():
        message = f"{path.parent} is no folder"
        raise OutputRefused(message, "Choose another --out.")
    if not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        message = f"{path} is no plain file"
        raise OutputRefused(message, "Give the name of a file.")
    if not force:
        message = f"{path} exists already"
        raise OutputExists(message, _OTHER)


@contextmanager
def new_file(path: Path, *, replace: bool) -> Iterator[Path]:
    """Give a temporary file to write, and let it appear under its name when it is whole.

    Args:
        path: Where to; folders are made.
        replace: Whether a file that exists is replaced; else one that appears meanwhile is kept.

    Yields:
        The temporary file, empty; whatever happens, it is gone afterwards.

    Raises:
        OutputExists: If there is one that is not to be replaced.
        OSError: If it cannot be written; it names `path`.
    """
    target = _real(path)  # a link is written through, to where it was checked
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    with naming(path, also=partial):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.touch(exist_ok=False)
            yield partial
            _sync(partial)
            if replace:
                partial.replace(target)
            else:
                _publish(partial, target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file whole or not at all."""
    with new_file(path, replace=replace) as partial:
        partial.write_bytes(content)


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
        message = f"{target} exists already"
        raise OutputExists(message, _OTHER) from None


def _sync(path: Path) -> None:
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
