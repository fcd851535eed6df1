"""What one step does to the generator: images that can be sent, then an update from their gradient.

Shapes: N rows, Z latent dimensions, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Protocol, final

import torch
from torch import Tensor

from analyst.generators.decoded import sent_rows
from analyst.recipes import Recipe
from analyst.training.state import TrainingState


class Updates(Protocol):
    """Two calls a step; what the first one leaves behind serves the second."""

    def images(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W], or codes, to ask with, without their graph."""
        ...

    def apply(self, gradient_NCHW: Tensor, rate: float) -> None:
        """Pull a gradient through the last images and take an optimizer step."""
        ...

    def catch_up(self) -> None:
        """Do what a step leaves for the time in which the next one is waited for."""
        ...


@final
class EagerUpdates:
    """Operation by operation, on any device."""

    def __init__(self, state: TrainingState, device: str) -> None:
        """Take what is trained."""
        self._state = state
        self._device = device
        self._images: Tensor | None = None

    def images(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """See `Updates`."""
        latents, labels = latents_NZ.to(self._device), labels_N.to(self._device)
        self._images = sent_rows(self._state.model, latents, labels)
        return self._images.detach()

    def apply(self, gradient_NCHW: Tensor, rate: float) -> None:
        """See `Updates`; the processor does not wait for the card.

        Raises:
            ValueError: If there are no images.
        """
        images, self._images = self._images, None
        if images is None:
            msg = "a gradient needs images to flow through"
            raise ValueError(msg)
        self.catch_up()  # if nobody waited
        state = self._state
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        torch.autograd.backward([images], [gradient_NCHW.to(images)])
        state.optimizer.step()
        state.ema.owe(state.model)

    def catch_up(self) -> None:
        """See `Updates`."""
        self._state.optimizer.zero_grad(set_to_none=True)
        self._state.ema.settle()


def updates_of(state: TrainingState, recipe: Recipe, *, are_images_sent: bool = True) -> Updates:
    """Return the updates that a recipe asks for.

    Args:
        state: Changed in place.
        recipe: Says on which device, and whether steps are captured.
        are_images_sent: Whether who answers wants the images of captured steps on the processor.
    """
    session = recipe.session
    if not session.cuda_graph:
        return EagerUpdates(state, session.device)
    from analyst.training.captured import CapturedUpdates  # needs a graphics card

    return CapturedUpdates(state, torch.device(session.device), are_images_sent=are_images_sent)
