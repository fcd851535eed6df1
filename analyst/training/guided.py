"""A run whose gradients also follow a guide, which sees the same images and costs nothing.

A guide is made of releases, so nothing is asked or charged for what it says. It is added here, on
the analyst's side, to whatever the run answers.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast, final

from torch import Tensor

from analyst.generators.generator import ImageShape
from analyst.training.run_source import AheadRun, ImageRun, is_made_here


@dataclass(frozen=True, kw_only=True, slots=True)
class Guide:
    """What one other run says of generated images."""

    gradient: Callable[[Tensor, Tensor], Tensor]  # of images and labels, with respect to the images
    shape: ImageShape
    run_id: str


@final
class GuidedRun:
    """The gradients of a run and of a guide, added."""

    def __init__(self, run: ImageRun, guide: Guide, weight: float) -> None:
        """Take an open run.

        Args:
            run: Asked, charged and counted as ever.
            guide: Sees the same images.
            weight: Of its gradient.
        """
        self._run, self._guide, self._weight = run, guide, weight
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

    @property
    def is_made_here(self) -> bool:
        """See `LocalRun`."""
        return is_made_here(self._run)

    def close(self) -> None:
        """See `OpenRun`."""
        self._run.close()

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient with respect to `images`, of the same shape; zeros stay zeros."""
        return self._guided(self._run.gradient(images, labels), images, labels)

    def first_gradient(self, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """See `AheadRun`; the guide sees the first batch, as the curator did."""
        return self._guided(cast("AheadRun", self._run).first_gradient(batches), *batches[0])

    def go_back(self, step: int) -> None:
        """See `AgainRun`."""
        cast("AheadRun", self._run).go_back(step)

    def _guided(self, answer: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        if not bool(answer.any()):  # the curator's critic is to learn more first
            return answer
        return answer + self._weight * self._guide.gradient(images, labels).to(answer)
