"""DP-SWD: sliced Wasserstein distance to noised projections of a private sample, paid per step.

Statement and proof: dp_swd.md. The private rows meet fresh random directions in the sanitizer:
`sliced_step.py`.

Shape legend: N samples, M slots, P pixels, D = P + classes coordinates of a row, K directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal, final

import torch
from pydantic import Field
from torch import Tensor

from curator.mechanisms.sliced_step import SlicedMechanism, SlicedSpecification
from curator.mechanisms.specification import refuse_beyond
from curator.privacy.batches import ImageSpace, Samples
from curator.sanitizer.projected import LONGEST_SQUARE, RowBounds, longest_row

_MAX_DIMENSION = 250_000  # the projections of such rows are exact whatever their levels
_MAX_DIRECTION_ENTRIES = 1 << 25
_MAX_ROW_ENTRIES = 1 << 26
_ZERO: Final = {"black": 0, "grey": 1, "white": 2}  # the level of a zero row, in max_level / 2


class DpSwdSpec(SlicedSpecification):
    """Public parameters of one DP-SWD run.

    A row is a record's pixels less those of the `origin`, in units where white less black is 2,
    and `label_scale` at the place of its class; it is scaled to norm `clip_norm` if it is longer.
    `num_samples` generated rows are compared with `capacity` slots, the other slots zero.
    `noise_multiplier` is over `clip_norm`. `max_size` and `max_records_per_unit` repeat, or exceed,
    what the data set declares: how often the slots are full is part of the cost.
    """

    label_scale: Annotated[float, Field(ge=0, le=1e3)]
    origin: Literal["black", "grey", "white"]


@final
class DpSwd(SlicedMechanism):
    """The distance of images with their labels in the row.

    References:
        [rakotomamonjy:21], algorithm 1, with labels in the row.
    """

    name = "dp-swd"
    specification = DpSwdSpec
    prices_by_image = True
    spec: DpSwdSpec

    def __init__(self, spec: DpSwdSpec, space: ImageSpace) -> None:
        """See `Mechanism`.

        Raises:
            MalformedRequest: If the sizes are absurd for images of this size.
        """
        super().__init__(spec, space)
        self._label_value = round(spec.label_scale * space.max_level)
        brightest = (1 if spec.origin == "grey" else 2) * space.max_level
        is_long = space.dimension * brightest + self._label_value > longest_row()
        longest = space.dimension * brightest**2 + self._label_value**2
        refuse_beyond(
            {
                "label_scale: too large for images of this size and depth": (
                    longest,
                    LONGEST_SQUARE,
                ),
                f"images of this size: rows have at most {_MAX_DIMENSION} pixels and classes": (
                    self.width,
                    _MAX_DIMENSION,
                ),
                "num_projections: too many for images of this size": (
                    self.width * spec.num_projections,
                    _MAX_DIRECTION_ENTRIES,
                ),
                "capacity: too many for images of this size": (
                    self.width * spec.capacity,
                    _MAX_ROW_ENTRIES // (2 if is_long else 1),
                ),
            }
        )
        self.bounds = RowBounds(
            clip_norm=spec.clip_norm * space.max_level,
            rows_per_unit=spec.max_records_per_unit,
            noise_multiplier=spec.noise_multiplier,
            is_long=is_long,
        )

    @property
    def width(self) -> int:
        """See `SlicedMechanism`."""
        return self.space.dimension + self.space.num_classes

    def record_rows(self, samples: Samples) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what makes rows: 2 v less the origin's, then the label's value at its class.

        Privacy:
            Row i is a function of record i alone, computed in exact integers; a label outside the
            classes is no label.
        """
        del samples
        zero = _ZERO[self.spec.origin] * self.space.max_level

        def rows(levels_MP: Tensor, labels_M: Tensor) -> Tensor:
            pixels_MP = levels_MP.to(torch.float64) * 2 - zero
            return torch.cat((pixels_MP, self._label_rows(labels_M)), dim=1)

        return rows

    def sample_rows(self, samples: Samples) -> Tensor:
        """See `SlicedMechanism`."""
        zero = _ZERO[self.spec.origin] - 1
        pixels_NP = (samples.images_ND.to(torch.float64) - zero) * self.space.max_level
        return torch.cat((pixels_NP, self._label_rows(samples.labels_N)), dim=1)

    def gradient_of(self, slopes_ND: Tensor) -> Tensor:
        """See `SlicedMechanism`; labels have none."""
        return slopes_ND[:, : self.space.dimension] / self.space.max_level

    def _label_rows(self, labels_M: Tensor) -> Tensor:
        """Return the label's value at the place of its class.

        Privacy:
            Elementwise: row i is a function of label i.
        """
        classes = torch.arange(self.space.num_classes)
        return (labels_M.unsqueeze(1) == classes).to(torch.float64) * self._label_value
