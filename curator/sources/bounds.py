"""How much a source may unpack to: a small file may hold gigabytes, so it is known before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from curator.data.errors import SourceError
from curator.sources.options import SourceOptions
from curator.system.bounded_file import size_text

_MOST: Final = 1 << 36  # of one array, where nothing is declared
_FLOOR: Final = 1 << 26  # what every machine has room for: the checks after reading say it better
_WIDEST_NUMBER: Final = 8
_LONGEST_NAME: Final = 1 << 10  # bytes of a group's name


class LargerThanMemory(SourceError):
    """This machine has not the memory that a source takes."""

    def __init__(self, path: Path) -> None:
        """Say so of the file at `path`."""
        super().__init__(
            f"{path}: there is not enough memory to read it: use a larger machine, or a folder "
            "of image files, which is read one by one"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Bytes that the images, their labels and their groups may unpack to."""

    images: int = _MOST
    labels: int = _MOST
    groups: int = _MOST

    @classmethod
    def of(cls, options: SourceOptions) -> Self:
        """Return what a declaration leaves room for; more would be refused after reading it.

        Args:
            options: With the declared shape and number of images; without both, or where images
                are resized, only what no machine reads is refused.
        """
        shape, count = options.conversion.shape, options.max_images
        if shape is None or count is None or options.conversion.resize != "none":
            return cls()
        return cls(
            images=max(_FLOOR, count * math.prod(shape) * _WIDEST_NUMBER),
            labels=max(_FLOOR, count * _WIDEST_NUMBER),
            groups=max(_FLOOR, count * _LONGEST_NAME),
        )


def check_size(what: str, size: int, most: int) -> None:
    """Check what something would unpack to.

    Args:
        what: The file, and the array in it.
        size: Bytes that its header declares.
        most: Bytes that it may have.

    Raises:
        SourceError: If it would have more.
    """
    if size > most:
        msg = (
            f"{what} would unpack to {size_text(size)}, and at most {size_text(most)} can be "
            "meant: correct the file, --image-shape or --max-size"
        )
        raise SourceError(msg)
