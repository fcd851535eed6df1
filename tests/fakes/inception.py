"""A small TorchScript file that is called as Inception's is."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class Pretender(nn.Module):
    """Mean and contrast as features, three classes by the brightest third."""

    def forward(
        self, images: Tensor, return_features: bool = False, no_output_bias: bool = False
    ) -> Tensor:
        pixels = images.float()
        if return_features:
            return torch.stack([pixels.mean((1, 2, 3)), pixels.flatten(1).std(1)], 1)
        columns = pixels[:, :, :, :6].mean((1, 2)).reshape(-1, 3, 2).sum(2)
        return (columns * 10).softmax(1) if no_output_bias else columns


def saved(module: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted: Any = torch.jit.script(module)
        scripted.save(str(path))
    return path
