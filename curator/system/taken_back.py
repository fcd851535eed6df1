"""A folder that appears whole or not at all, though it is made file by file."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def taken_back_on_failure(root: Path, parts: Collection[str]) -> Iterator[None]:
    """Remove what the block made in a folder, and the folder if it was made, should it fail.

    What was there before stays, and so does whatever another program puts beside the block's own
    parts meanwhile. One block at a time works on a folder.

    Args:
        root: The folder, which is made with its parents.
        parts: Patterns of the names in it that the block makes.

    Yields:
        Nothing.
    """
    made = [one for one in (root, *root.parents) if not one.exists()]
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    alone = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(alone, fcntl.LOCK_EX)
        before = _found(root, parts)
        try:
            yield
        except BaseException:
            _remove(_found(root, parts) - before)
            for one in made:
                with suppress(OSError):  # somebody else has put something there
                    one.rmdir()
            raise
    finally:
        os.close(alone)


def _found(root: Path, parts: Collection[str]) -> set[Path]:
    """Return the parts that are there, with all that is in them."""
    tops = [top for part in parts for top in root.glob(part)]
    return {path for top in tops for path in (top, *top.rglob("*"))}


def _remove(new: set[Path]) -> None:
    for path in sorted(new):  # folders before what is in them
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
