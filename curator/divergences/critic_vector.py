"""A critic as one vector of parameters with Adam's moments: a function of slopes it was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from curator.divergences.adam import adam_step_in_place

_BETAS = 0.5, 0.999  # as published


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CriticVector:
    """Parameters with Adam's moments, all of one length and on one device."""

    values: Tensor
    means: Tensor
    squares: Tensor
    num_updates: int

    @classmethod
    def start(cls, values: Tensor) -> CriticVector:
        """Return parameters that were never updated: float32, one after the other."""
        zeros = torch.zeros_like(values)
        return cls(values=values, means=zeros, squares=zeros, num_updates=0)

    def pack(self) -> dict[str, Tensor]:
        """Return everything as tensors of the processor."""
        return {
            "values": self.values.cpu(),
            "means": self.means.cpu(),
            "squares": self.squares.cpu(),
            "num_updates": torch.tensor([self.num_updates]),
        }

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], device: torch.device) -> CriticVector:
        """Return what was packed.

        Args:
            tensors: Of `pack`.
            device: Where to compute.
        """
        return cls(
            values=tensors["values"].to(device),
            means=tensors["means"].to(device),
            squares=tensors["squares"].to(device),
            num_updates=int(tensors["num_updates"]),
        )


def adam_step(critic: CriticVector, slope: Tensor, learning_rate: float) -> CriticVector:
    """Return the parameters after one step; those that were given are unchanged.

    References:
        [bie:23], whose decays these are.
    """
    turn = critic.num_updates + 1
    values, means, squares = parts = [
        {"": part.clone()} for part in (critic.values, critic.means, critic.squares)
    ]
    adam_step_in_place(learning_rate, _BETAS, turn, {"": slope}, parts)
    return CriticVector(values=values[""], means=means[""], squares=squares[""], num_updates=turn)
