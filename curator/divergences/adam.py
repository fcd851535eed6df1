"""Adam, for stacked networks, single ones and vectors; elementwise, so all of them stay apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from curator.divergences.critics import Parameters

_EPSILON = 1e-8

Betas = tuple[float, float]
"""How long means and squares of slopes last."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Ensemble:
    """Parameters of all critics with Adam's moments; every tensor has a first axis of K."""

    critics: Parameters
    means: Parameters
    squares: Parameters
    num_updates: int

    @classmethod
    def start(cls, critics: Parameters) -> Ensemble:
        """Return an ensemble that was never updated."""
        zeros = {name: torch.zeros_like(value) for name, value in critics.items()}
        return cls(critics=critics, means=zeros, squares=zeros, num_updates=0)


def adam_step_in_place(
    learning_rate: float, betas: Betas, turn: int, slopes: Parameters, parts: Sequence[Parameters]
) -> None:
    """Move parameters and their moments.

    Args:
        learning_rate: Of the step.
        betas: Of the moments.
        turn: Number of the step, counted from one.
        slopes: Of the loss, by the names of the parameters.
        parts: Parameters, means and squares.
    """
    rate, share = learning_rate / (1 - betas[0] ** turn), 1 - betas[1] ** turn
    values, means, squares = parts
    for name, slope in slopes.items():
        means[name].lerp_(slope, 1 - betas[0])
        squares[name].mul_(betas[1]).addcmul_(slope, slope, value=1 - betas[1])
        sizes = (squares[name] / share).sqrt_().add_(_EPSILON)
        values[name].addcdiv_(means[name], sizes, value=-rate)


def adam_step(
    ensemble: Ensemble, slopes: Parameters, learning_rate: float, betas: Betas
) -> Ensemble:
    """Return parameters and moments one step on; those that were given are unchanged."""
    turn = ensemble.num_updates + 1
    critics, means, squares = parts = [
        {name: part[name].detach().clone() for name in slopes}
        for part in (ensemble.critics, ensemble.means, ensemble.squares)
    ]
    adam_step_in_place(learning_rate, betas, turn, slopes, parts)
    return Ensemble(critics=critics, means=means, squares=squares, num_updates=turn)
