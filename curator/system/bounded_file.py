"""Files that somebody hands over, read up to a size: an endless one is refused, not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


class TooLarge(RuntimeError):
    """There is more in a file than can be meant."""

    def __init__(self, what: str, most: int, meant: str) -> None:
        """Say so.

        Args:
            what: The file, or a line of it.
            most: Bytes that it may have.
            meant: The file that should be given.
        """
        super().__init__(f"{what} has more than {size_text(most)}: give {meant}")


def read_bounded(path: Path, most: int, meant: str) -> bytes:
    """Read a whole file.

    Args:
        path: The file, of any kind.
        most: Bytes that it may have.
        meant: The file that should be given, for the message.

    Raises:
        TooLarge: If it has more.
    """
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise TooLarge(str(path), most, meant)
    return content


def bounded_lines(path: Path, stream: BinaryIO, longest: int, meant: str) -> Iterator[bytes]:
    """Yield the lines of a file one by one, with their ends.

    Args:
        path: Its name, for the message.
        stream: The file.
        longest: Bytes that one line may have.
        meant: The file that should be given, for the message.

    Raises:
        TooLarge: If one has more.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest:
            what = f"{path}: line {number}"
            raise TooLarge(what, longest, meant)
        yield line


def size_text(size: int) -> str:
    """Return a size for people.

    Args:
        size: Bytes.
    """
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.4g} {unit}"
    return f"{size} bytes"
