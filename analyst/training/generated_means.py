"""A running mean of the features of generated images, beside those of one step.

A step has few images of a class, so their mean says little of what the generator makes: of ten
rows of norm 1 the mean of nine has a spread of a third, many times what is left to learn in the
end. Earlier steps say more, and are a little behind; so the window grows while the learning rate
falls.

Shapes: K classes, R features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from analyst.training.state import half_cosine

_FIRST_WINDOW = 2.8  # steps


def others_of(sums_KR: Tensor, sizes_K1: Tensor) -> Tensor:
    """Return what a row's companions of its class are on average; zeros where it has none.

    The part that is a row's own is among the sums; of rows of one norm it has no slope.

    Args:
        sums_KR: Of the rows of each class.
        sizes_K1: How many rows that are.
    """
    return torch.where(sizes_K1 > 1, sums_KR / (sizes_K1 - 1).clamp_min(1), 0.0)


@final
class GeneratedMeans:
    """What a run remembers of the rows of earlier steps, in tensors that steps change in place."""

    def __init__(self, num_classes: int, num_features: int, window: float) -> None:
        """Remember nothing yet.

        Args:
            num_classes: K.
            num_features: R.
            window: Steps that the mean is of in the end; above 1.
        """
        self._window = window
        self._means_KR = torch.zeros((num_classes, num_features))
        self._steps_K1 = torch.zeros((num_classes, 1))
        self._least_fresh = torch.zeros((), dtype=torch.float64)
        self.reached(0.0)

    def reached(self, share: float) -> None:
        """Say which share of the declared steps is behind, from 0 to 1."""
        last = 1 / self._window
        first = max(last, 1 / _FIRST_WINDOW)  # a shorter window is as short all the time
        self._least_fresh.fill_(last + (first - last) * half_cosine(share))

    def others(self, sums_KR: Tensor, sizes_K1: Tensor) -> Tensor:
        """Return what `others_of` does, with earlier steps; this one is remembered.

        Args:
            sums_KR: Of the rows of each class.
            sizes_K1: How many rows that are.
        """
        self._means_KR = self._means_KR.to(sums_KR)
        self._steps_K1 = self._steps_K1.to(sums_KR)
        self._least_fresh = self._least_fresh.to(sums_KR)
        fresh_K1 = torch.maximum(1 / (self._steps_K1 + 1), self._least_fresh)
        is_there_K1 = sizes_K1 > 0
        fresh_K1 = torch.where(is_there_K1, fresh_K1, 0.0)
        others_KR = self._means_KR.lerp(others_of(sums_KR, sizes_K1), fresh_K1)
        self._means_KR.lerp_(sums_KR / sizes_K1.clamp_min(1), fresh_K1)
        self._steps_K1.add_(is_there_K1)
        return others_KR

    def tensors(self) -> dict[str, Tensor]:
        """Return what is remembered as named CPU tensors, copied."""
        named = {"past.means": self._means_KR, "past.steps": self._steps_K1}
        return {name: one.to("cpu", copy=True).contiguous() for name, one in named.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned.

        Raises:
            ValueError: If a tensor is missing or has another shape or type.
        """
        means_KR, steps_K1 = tensors.get("past.means"), tensors.get("past.steps")
        held = self._means_KR
        if means_KR is None or (means_KR.shape, means_KR.dtype) != (held.shape, held.dtype):
            msg = "'past.means' is missing or has another shape or type"
            raise ValueError(msg)
        if steps_K1 is None or steps_K1.shape != self._steps_K1.shape:
            msg = "'past.steps' is missing or has another shape"
            raise ValueError(msg)
        self._means_KR.copy_(means_KR)
        self._steps_K1.copy_(steps_K1)
