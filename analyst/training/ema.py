"""An exponential moving average of the generator's weights: free, and usually better to sample."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn


@final
class Ema:
    """Averages that follow a module's parameters; decay 0 keeps the last weights."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        """Start the averages at the current weights.

        Args:
            module: Whose parameters to follow.
            decay: Weight of the past, in [0, 1).
        """
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Move every average towards the current weight by `1 - decay`."""
        for name, parameter in module.named_parameters():
            self.weights[name].lerp_(parameter, 1 - self.decay)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Replace the averages, keeping device and type."""
        for name, average in self.weights.items():
            average.copy_(weights[name])

    @contextmanager
    def applied_to(self, module: nn.Module) -> Iterator[None]:
        """Lend the averages to `module` while the block runs, then put its own weights back."""
        own = {name: p.detach().clone() for name, p in module.named_parameters()}
        _copy(self.weights, module)
        try:
            yield
        finally:
            _copy(own, module)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        parameter.copy_(weights[name])
