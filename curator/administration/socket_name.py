"""A name of a socket that is short enough to be one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LONGEST_PATH: Final = 100


@contextmanager
def socket_name(path: Path) -> Iterator[str]:
    """Give a path of a socket; one that is too long goes by its open folder.

    Args:
        path: Of the socket; an `OSError` if it is too long and its folder cannot be opened.
    """
    if len(os.fsencode(path.absolute())) < _LONGEST_PATH:
        yield str(path.absolute())
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
