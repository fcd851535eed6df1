"""A run whose gradients also pull images towards what a teacher sees as their class.

The teacher was taught by releases, so what it says of generated images is free: nothing is asked
or charged for it. It is added here, on the analyst's side, to whatever the run answers.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analyst.generators.generator import ImageShape
from analyst.training.run_source import ImageRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Teacher:
    """A classifier of generated images, of one run of `analyst teacher train`."""

    model: nn.Module  # scores of images in [-1, 1]
    shape: ImageShape
    run_id: str


@final
class GuidedRun:
    """The gradients of a run and of a teacher's cross-entropy, added."""

    def __init__(self, run: ImageRun, teacher: Teacher, weight: float) -> None:
        """Take an open run.

        Args:
            run: Asked, charged and counted as ever.
            teacher: Sees the same images.
            weight: Of the mean cross-entropy over the images of a step.
        """
        self._run, self._weight = run, weight
        self._model = teacher.model.requires_grad_(requires_grad=False)
        self.run_id, self.num_steps = run.run_id, run.num_steps

    @property
    def next_step(self) -> int:
        """See `OpenRun`."""
        return self._run.next_step

    @property
    def spent_epsilon(self) -> float:
        """See `OpenRun`."""
        return self._run.spent_epsilon

    @property
    def budget_epsilon(self) -> float:
        """See `OpenRun`."""
        return self._run.budget_epsilon

    def close(self) -> None:
        """See `OpenRun`."""
        self._run.close()

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient with respect to `images`, of the same shape; zeros stay zeros."""
        answer = self._run.gradient(images, labels)
        if not bool(answer.any()):  # the curator's critic is to learn more first
            return answer
        return answer + self._weight * self._guidance(images, labels).to(answer)

    def _guidance(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return the gradient of the mean cross-entropy."""
        with torch.enable_grad():
            moving_NCHW = images_NCHW.detach().requires_grad_()
            loss = cross_entropy(self._model.to(images_NCHW.device)(moving_NCHW), labels_N)
        (gradient_NCHW,) = torch.autograd.grad(loss, moving_NCHW)
        return gradient_NCHW
