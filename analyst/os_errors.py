"""What the operating system refuses, in plain words: which file, why, and what to do next."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_OWNER: Final = "Change its permissions, or run this as its owner."
_WORDS: Final = {
    errno.ENOSPC: ("its disk is full", "Make room there, then run the same command again."),
    errno.EDQUOT: ("your quota is used up", "Delete files there, or ask for more room."),
    errno.EFBIG: ("it would be larger than this process may make it", "Raise 'ulimit -f'."),
    errno.EACCES: ("permission denied", _OWNER),
    errno.EPERM: ("this user may not do that", _OWNER),
    errno.EROFS: ("it lies on a read-only file system", "Choose another place."),
    errno.EMFILE: ("this process has too many files open", "Raise 'ulimit -n'."),
    errno.ENFILE: ("this machine has too many files open", "Close some, or raise its limit."),
    errno.ENOENT: ("there is no such file or folder", "Check the path."),
    errno.ENOTDIR: ("a part of the path is no folder", "Check the path."),
    errno.EISDIR: ("it is a folder", "Give the name of a file."),
    errno.EEXIST: ("it exists already", "Choose another name."),
    errno.ENAMETOOLONG: ("its name is too long", "Choose a shorter one."),
    errno.ELOOP: ("its symbolic links lead in a circle", "Check the path."),
    errno.EIO: ("its disk reports a fault", "Check the disk, and write to another one."),
    errno.ENOMEM: ("there is not enough memory", "Close other programs, or ask for less at once."),
}
_NEXT: Final = "Check the path, its permissions and the room on its disk."


@contextmanager
def naming(path: Path, *, also: Path | None = None) -> Iterator[None]:
    """Let an error of the operating system name the file that it is about.

    Args:
        path: What the user knows it as; an error that names another file keeps that.
        also: A temporary name that stands for it.

    Yields:
        Nothing.

    Raises:
        OSError: As it came, with the name.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename) == str(also):
            error.filename, error.filename2 = str(path), None
        raise


def explain_os_error(error: OSError | MemoryError, where: str = "") -> tuple[str, str]:
    """Return what was refused, and what to do next.

    Args:
        error: Of the operating system.
        where: The file that it is about, where the error does not say.
    """
    if isinstance(error, MemoryError):
        return _WORDS[errno.ENOMEM]
    place, known = error.filename or where, None
    if error.errno is not None:
        known = _WORDS.get(error.errno)
    elif error.strerror is None and not error.filename:  # NumPy's, of a file that took less
        known = ("it could not be written whole; its disk may be full", _NEXT)
    cause, remedy = known or (error.strerror or "it cannot be used", _NEXT)
    return (f"{place}: {cause}" if place else cause), remedy
