"""Files that somebody hands over, read up to a size: an endless one is refused, not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


class TooLarge(ValueError):
    """There is more in a file than can be meant; the text names the file and the size."""


def read_bounded(path: Path, most: int) -> bytes:
    """Read a whole file.

    Args:
        path: The file, of any kind.
        most: Bytes that it may have.

    Raises:
        TooLarge: If it has more.
    """
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        msg = f"{path} has more than {size_text(most)}, so it is not the file that is meant here"
        raise TooLarge(msg)
    return content


def bounded_lines(path: Path, stream: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file one by one, without their ends.

    Args:
        path: Its name, for the message.
        stream: The file.
        longest: Bytes that one line may have.

    Raises:
        TooLarge: If one has more.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest:
            msg = f"{path}: line {number} has more than {size_text(longest)}"
            raise TooLarge(msg)
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def size_text(size: int) -> str:
    """Return a size for people.

    Args:
        size: Bytes.
    """
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.4g} {unit}"
    return f"{size} bytes"
