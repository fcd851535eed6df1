"""The numbers that pixels are stored as: bytes, or two bytes where white is above 255."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Levels = npt.NDArray[np.unsignedinteger[Any]]

SHALLOW: Final[np.dtype[np.unsignedinteger[Any]]] = np.dtype(np.uint8)
DEEP: Final[np.dtype[np.unsignedinteger[Any]]] = np.dtype("<u2")
_LARGEST_BYTE: Final = 255


def level_type(max_level: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return how levels are stored, by the declared level of white and by nothing in the images.

    Args:
        max_level: At most 65,535.
    """
    return SHALLOW if max_level <= _LARGEST_BYTE else DEEP


def level_bytes(image: Levels) -> bytes:
    """Return an image's levels as bytes, the same however deep the array is that holds them.

    Args:
        image: Of any shape.
    """
    if image.dtype == SHALLOW or image.max(initial=0) <= _LARGEST_BYTE:
        return image.astype(SHALLOW, copy=False).tobytes()
    return image.astype(DEEP, copy=False).tobytes()
