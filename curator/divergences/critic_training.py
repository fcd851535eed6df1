"""Train many critics at once: one Adam step of the Wasserstein loss with a gradient penalty.

Critic k sees its own row of every tensor with an axis K, and generated images that all share;
nothing is ever summed over K. Work depends on shapes only.

Shape legend: K critics, R records of a minibatch, N generated images, D pixels, L classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad, vmap

from curator.divergences.critics import CriticShape, Parameters, scores

CRITICS_AT_ONCE = 50  # so that the activations of a large ensemble stay within megabytes
_BETA_1, _BETA_2, _ADAM_EPSILON = 0.5, 0.9, 1e-8  # as published
_DRIFT = 1e-3  # weight of the squared score of a record, as published
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Minibatch:
    """What one update compares: each critic's own records, and generated images."""

    records_KRD: Tensor
    record_labels_KRL: Tensor
    images_ND: Tensor
    image_labels_NL: Tensor
    mixing_KR: Tensor  # in [0, 1): where the penalty looks between a record and an image


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Ensemble:
    """Parameters of all critics with Adam's moments; every tensor has a first axis of K."""

    critics: Parameters
    means: Parameters
    squares: Parameters
    num_updates: int

    @classmethod
    def start(cls, critics: Parameters) -> Ensemble:
        """Return an ensemble that was never updated.

        Args:
            critics: Its parameters.
        """
        zeros = {name: torch.zeros_like(value) for name, value in critics.items()}
        return cls(critics=critics, means=zeros, squares=zeros, num_updates=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CriticOptimizer:
    """How critics learn."""

    learning_rate: float
    penalty: float


def critic_loss(
    shape: CriticShape, penalty: float, critic: Parameters, batch: tuple[Tensor, ...]
) -> Tensor:
    """Return the loss of one critic.

    Args:
        shape: Its sizes.
        penalty: Weight of the gradient penalty.
        critic: Its parameters.
        batch: Records (R, D), their labels (R, L), images (N, D), their labels (N, L), mixing (R).

    Returns:
        mean D(image) - mean D(record) + penalty mean (|slope| - 1)^2 + drift mean D(record)^2.

    References:
        [chen:20], appendix.
    """
    records_RD, record_labels_RL, images_ND, image_labels_NL, mixing_R = batch
    of_records_R = scores(shape, critic, records_RD, record_labels_RL)
    of_images_N = scores(shape, critic, images_ND, image_labels_NL)
    partners_RD = images_ND[torch.arange(len(records_RD)) % len(images_ND)]
    share_R1 = mixing_R.unsqueeze(1)

    def total(mixed_RD: Tensor) -> Tensor:
        return scores(shape, critic, mixed_RD, record_labels_RL).sum()

    slopes_RD = grad(total)(share_R1 * records_RD + (1 - share_R1) * partners_RD)
    lengths_R = (slopes_RD.square().sum(dim=1) + _TINY).sqrt()
    distance = of_images_N.mean() - of_records_R.mean()
    drift = _DRIFT * of_records_R.square().mean()
    loss: Tensor = distance + penalty * (lengths_R - 1).square().mean() + drift
    return loss


def update(
    shape: CriticShape, optimizer: CriticOptimizer, ensemble: Ensemble, batch: Minibatch
) -> Ensemble:
    """Return the ensemble after one step of Adam; the one that was given is unchanged.

    Args:
        shape: Sizes of each critic.
        optimizer: How they learn.
        ensemble: All of them.
        batch: What they compare.
    """

    def slope_of(critic: Parameters, *rows: Tensor) -> Parameters:
        slopes: Parameters = grad(lambda one: critic_loss(shape, optimizer.penalty, one, rows))(
            critic
        )
        return slopes

    every = vmap(slope_of, in_dims=(0, 0, 0, None, None, 0))
    parts = [
        every(
            {name: value[some] for name, value in ensemble.critics.items()},
            batch.records_KRD[some],
            batch.record_labels_KRL[some],
            batch.images_ND,
            batch.image_labels_NL,
            batch.mixing_KR[some],
        )
        for some in chunks(len(batch.records_KRD))
    ]
    slopes = {name: torch.cat([part[name] for part in parts]) for name in ensemble.critics}
    return _adam(optimizer.learning_rate, ensemble, slopes)


def image_gradients(
    shape: CriticShape, critics: Parameters, images_ND: Tensor, onehot_NL: Tensor
) -> Iterator[Tensor]:
    """Yield the gradients of minus every critic's score with respect to the images.

    Args:
        shape: Sizes of each critic.
        critics: Parameters of all of them.
        images_ND: Generated images.
        onehot_NL: Their labels.

    Yields:
        (k, N, D) for the critics in their order, a public number of them at a time.
    """

    def slope_of(critic: Parameters) -> Tensor:
        slopes: Tensor = grad(lambda images: -scores(shape, critic, images, onehot_NL).sum())(
            images_ND
        )
        return slopes

    for some in chunks(len(next(iter(critics.values())))):
        yield vmap(slope_of)({name: value[some] for name, value in critics.items()})


def chunks(num_critics: int) -> Iterator[slice]:
    """Yield the critics that are evaluated together.

    Args:
        num_critics: K.
    """
    for start in range(0, num_critics, CRITICS_AT_ONCE):
        yield slice(start, start + CRITICS_AT_ONCE)


def _adam(learning_rate: float, ensemble: Ensemble, slopes: Parameters) -> Ensemble:
    """Return the ensemble one step on; elementwise, so critics stay apart."""
    turn = ensemble.num_updates + 1
    rate, share = learning_rate / (1 - _BETA_1**turn), 1 - _BETA_2**turn
    critics, means, squares = {}, {}, {}
    for name, slope in slopes.items():
        means[name] = _BETA_1 * ensemble.means[name] + (1 - _BETA_1) * slope
        squares[name] = _BETA_2 * ensemble.squares[name] + (1 - _BETA_2) * slope.square()
        step = means[name] / ((squares[name] / share).sqrt() + _ADAM_EPSILON)
        critics[name] = ensemble.critics[name] - rate * step
    return Ensemble(critics=critics, means=means, squares=squares, num_updates=turn)
