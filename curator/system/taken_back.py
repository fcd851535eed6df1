"""A folder that appears whole or not at all, though it is made file by file."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def taken_back_on_failure(root: Path) -> Iterator[None]:
    """Remove what the block made in a folder, and the folder if it was made, should it fail.

    What was there before stays, and one block at a time works on a folder.

    Args:
        root: The folder, which is made with its parents.

    Yields:
        Nothing.
    """
    made = [one for one in (root, *root.parents) if not one.exists()]
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    alone = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(alone, fcntl.LOCK_EX)
        before = set(root.rglob("*"))
        try:
            yield
        except BaseException:
            _remove_all_but(root, before)
            for one in made:
                with suppress(OSError):  # somebody else has put something there
                    one.rmdir()
            raise
    finally:
        os.close(alone)


def _remove_all_but(root: Path, before: set[Path]) -> None:
    """Remove what is new below a folder."""
    for path in sorted(set(root.rglob("*")) - before):  # folders before what is in them
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
