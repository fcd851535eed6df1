"""An ensemble of critics as plain tensors, for a disk of the curator's own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from curator.divergences.adam import Ensemble
from curator.divergences.device import compute_device

_PARTS = ("critics", "means", "squares")


def pack_ensemble(ensemble: Ensemble) -> dict[str, Tensor]:
    """Return parameters, moments and the number of updates, as tensors of the processor.

    Returns:
        Tensors named `critics.weight0` and so on.
    """
    tensors = {
        f"{part}.{name}": value.detach().cpu().contiguous()
        for part in _PARTS
        for name, value in getattr(ensemble, part).items()
    }
    return {**tensors, "num_updates": torch.tensor([ensemble.num_updates])}


def unpack_ensemble(tensors: Mapping[str, Tensor]) -> Ensemble:
    """Return the ensemble that was packed, on the device that this process computes on.

    Args:
        tensors: Of `pack_ensemble`, perhaps among others.
    """
    found: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        if part in found:
            found[part][rest] = value.to(compute_device())
    return Ensemble(**found, num_updates=int(tensors["num_updates"]))
