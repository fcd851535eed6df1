"""What the operating system refuses, in plain words: which file, why, and what to do next."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FULL: Final = ("its disk is full", "make room there, then run the same command again")
_READ_ONLY: Final = ("it lies on a read-only file system", "choose another place")
_WORDS: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: ("the quota of this user is used up", "delete files there or ask for more room"),
    errno.EFBIG: ("it would be larger than this process may make it", "raise 'ulimit -f'"),
    errno.EACCES: ("permission denied", "change its permissions, or run this as its owner"),
    errno.EPERM: ("this user may not do that", "change its permissions, or run this as its owner"),
    errno.EROFS: _READ_ONLY,
    errno.EMFILE: ("this process has too many files open", "raise 'ulimit -n'"),
    errno.ENFILE: ("this machine has too many files open", "close some, or raise its limit"),
    errno.ENOENT: ("there is no such file or folder", "check the path"),
    errno.ENOTDIR: ("a part of the path is no folder", "check the path"),
    errno.EISDIR: ("it is a folder", "give the name of a file"),
    errno.EEXIST: ("it exists already", "choose another name"),
    errno.ENAMETOOLONG: ("its name is too long", "choose a shorter one"),
    errno.ELOOP: ("its symbolic links lead in a circle", "check the path"),
    errno.EIO: ("its disk reports a fault", "check the disk, and put a backup on another one"),
    errno.ENOMEM: ("there is not enough memory", "close other programs, or use a larger machine"),
}  # fmt: skip
_NEXT: Final = "check the path, its permissions and the room on its disk"
_SQLITE: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: ("it cannot be written", "change its or its folder's permissions"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the path and its permissions"),
    sqlite3.SQLITE_IOERR: ("its disk reports a fault, or is full", "check the disk and its room"),
    sqlite3.SQLITE_BUSY: ("another process holds it", "wait until that ends, then run this again"),
}  # fmt: skip
_PRIMARY: Final = 0xFF  # the low byte of SQLite's extended codes


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


def in_words(problem: BaseException, where: str = "") -> str | None:
    """Return what the operating system or SQLite refused, from a problem or what caused it.

    Args:
        problem: Any error; those that it was raised from are looked at too.
        where: The file that it is about, where the error does not say.

    Returns:
        Words that end in what to do; None if nothing of the kind is behind it.
    """
    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, OSError):
            return _said(str(seen.filename or where), *_of_system(seen))
        if isinstance(seen, MemoryError):
            return _said(where, *_WORDS[errno.ENOMEM])
        if isinstance(seen, sqlite3.Error):
            return _said(where, *_of_sqlite(seen))
        seen = getattr(seen, "orig", None) or seen.__cause__  # SQLAlchemy keeps the driver's
    return None


def _of_system(error: OSError) -> tuple[str, str]:
    if error.errno is None:  # NumPy's, where a file took less than was to be written
        return error.strerror or "it could not be written whole; its disk may be full", _NEXT
    return _WORDS.get(error.errno, (error.strerror or "it cannot be used", _NEXT))


def _of_sqlite(error: sqlite3.Error) -> tuple[str, str]:
    code = getattr(error, "sqlite_errorcode", None)
    known = None if code is None else _SQLITE.get(code & _PRIMARY)
    return known or (str(error), _NEXT)


def _said(where: str, cause: str, next_step: str) -> str:
    return f"{where}: {cause}; {next_step}" if where else f"{cause}; {next_step}"


__all__ = ["in_words", "naming"]
