"""How many bytes runs keep: sums of public numbers, known before a run is opened."""

from __future__ import annotations

import math
from collections.abc import Collection

from curator.divergences.critics import CriticShape
from curator.privacy.batches import ImageSpace

LABEL_FLOATS = 2  # a label takes as much as two floats

_FLOAT_BYTES, _LABEL_BYTES = 4, 8
_FLOATS_PER_PARAMETER = 3  # the parameter and Adam's two moments


def networks_bytes(shape: CriticShape, count: int, *, without: Collection[str] = ()) -> int:
    """Return the bytes of networks of one shape with Adam's moments.

    Privacy:
        Reads the specification and public facts only.
    """
    each = sum(math.prod(size) for name, size in shape.sizes.items() if name not in without)
    return _FLOAT_BYTES * _FLOATS_PER_PARAMETER * count * each


def shards_bytes(num_shards: int, capacity: int, space: ImageSpace) -> int:
    """Return the bytes of padded shards.

    Privacy:
        Reads the specification and public facts only.
    """
    row_bytes = space.dimension * space.level_bytes + _LABEL_BYTES
    return num_shards * (capacity * row_bytes + _LABEL_BYTES)


def rows_bytes(count: int, numbers: int) -> int:
    """Return the bytes of rows of floats.

    Privacy:
        Reads the specification and public facts only.
    """
    return _FLOAT_BYTES * count * numbers
