"""Images as both sides agree on them: the public image space, public samples, private records.

Shape legend: N samples, M capacity (padded private rows), D = channels * height * width.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch
    from torch import Tensor


LARGEST_LEVEL: Final = (1 << 16) - 1
"""Of a white pixel, at most."""

_LARGEST_BYTE: Final = 255

PASS_ROWS: Final = 512
"""Rows of a batch where all records are passed over, unless units may have many."""


def shape_of_pass(max_units: int, max_rows_per_unit: int, rows: int = PASS_ROWS) -> tuple[int, int]:
    """Return how many batches have room for every unit in whole, and the rows of each.

    A batch has almost twice the rows of a unit, or more, so that units fill half of it: in all
    there are less than two rows for each that there may be, beside those of one batch.

    Args:
        max_units: Public upper bound.
        max_rows_per_unit: Public upper bound.
        rows: Of a batch, at least.
    """
    rows = max(rows, 2 * max_rows_per_unit - 1)
    filled = rows - max_rows_per_unit + 1  # of each batch but the last, at least
    return math.ceil(max_units * max_rows_per_unit / filled), rows


def level_dtype(max_level: int) -> torch.dtype:
    """Return what levels are held as in a `RecordBatch`.

    Args:
        max_level: Of a white pixel, as declared.
    """
    import torch  # here, as the facts of a data set need none

    return torch.uint8 if max_level <= _LARGEST_BYTE else torch.int32


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSpace:
    """Public facts about every image of a data set, typed in by the steward.

    A stored level v in 0..max_level stands for the pixel value 2 v / max_level - 1 in [-1, 1].
    """

    channels: int
    height: int
    width: int
    max_level: int
    num_classes: int

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If a size is not positive or the image is absurdly large.
        """
        sizes = (self.channels, self.height, self.width, self.max_level, self.num_classes)
        if not all(type(size) is int and size >= 1 for size in sizes):
            msg = "image sizes, max_level and num_classes must be positive integers"
            raise ValueError(msg)
        too_deep = self.max_level > LARGEST_LEVEL
        if too_deep or self.dimension > 1 << 20 or self.num_classes > 10_000:
            msg = "images may have at most 2**20 values of 16 bits and 10,000 classes"
            raise ValueError(msg)

    @property
    def dimension(self) -> int:
        """Number of values in one image."""
        return self.channels * self.height * self.width

    @property
    def level_bytes(self) -> int:
        """Bytes of a level in the rows of a `RecordBatch`."""
        return level_dtype(self.max_level).itemsize


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Samples:
    """Rows that the analyst's generator made; public to the analyst, already validated.

    `images_ND` is float32 in [-1, 1]; `labels_N` is int64 in [0, num_classes). With `weights` (of a
    feature extractor, as safetensors) rows are features of public images instead, of any size, and
    every label is 0.
    """

    images_ND: Tensor
    labels_N: Tensor
    weights: bytes = b""

    def digested(self) -> Samples:
        """Return the same rows with a digest in place of weights, to be kept and compared."""
        if not self.weights:
            return self
        digest = hashlib.sha256(self.weights).digest()
        return Samples(images_ND=self.images_ND, labels_N=self.labels_N, weights=digest)

    def equals(self, other: Samples) -> bool:
        """Return whether another request asks for the same."""
        return (
            self.weights == other.weights
            and self.labels_N.equal(other.labels_N)
            and self.images_ND.equal(other.images_ND)
        )

    def copied(self) -> Samples:
        """Return the same rows in memory of their own, laid out as any new tensor is."""
        return Samples(
            images_ND=self.images_ND.clone(),
            labels_N=self.labels_N.clone(),
            weights=self.weights,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RecordBatch:
    """Private rows padded to a public capacity; always travels inside `Private`.

    `levels_MD` is in 0..max_level, uint8 or, where that is above 255, int32, which all operations
    take; `labels_M` is int64, `mask_M` bool (False marks padding,
    whose levels and label are zero). `units_M` is int64: rows with the same number in [0, M) are
    the whole of one unit, in stored order; -1 in padding. A unit is never in two batches of a pass.
    """

    levels_MD: Tensor
    labels_M: Tensor
    mask_M: Tensor
    units_M: Tensor
