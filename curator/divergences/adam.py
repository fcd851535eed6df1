"""One step of Adam on stacked or single networks; elementwise, so networks stay apart."""

from __future__ import annotations

from curator.divergences.critic_training import Ensemble
from curator.divergences.critics import Parameters

_EPSILON = 1e-8


def adam_step(
    ensemble: Ensemble, slopes: Parameters, learning_rate: float, betas: tuple[float, float]
) -> Ensemble:
    """Return parameters and moments one step on; those that were given are unchanged.

    Args:
        ensemble: Parameters and moments.
        slopes: Of the loss, by the same names.
        learning_rate: Of the step.
        betas: How long means and squares last.
    """
    turn = ensemble.num_updates + 1
    rate, share = learning_rate / (1 - betas[0] ** turn), 1 - betas[1] ** turn
    networks, means, squares = {}, {}, {}
    for name, slope in slopes.items():
        means[name] = ensemble.means[name].lerp(slope, 1 - betas[0])
        squares[name] = ensemble.squares[name] * betas[1] + (1 - betas[1]) * slope.square()
        sizes = (squares[name] / share).sqrt() + _EPSILON
        networks[name] = ensemble.critics[name].detach() - rate * means[name] / sizes
    return Ensemble(critics=networks, means=means, squares=squares, num_updates=turn)
