"""Train many critics at once: one Adam step of the Wasserstein loss with a gradient penalty.

Critic k sees its own row of every tensor with an axis K, and generated images that all share. Of
what is summed over K only slopes are used, and the slope of a critic's part is its own. Work
depends on shapes only.

Shape legend: K critics, R records of a minibatch, N generated images, D pixels, L classes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import vmap

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


def critic_losses(
    shape: CriticShape, penalty: float, critics: Parameters, batch: Minibatch
) -> Tensor:
    """Return the loss of each critic.

    Slopes within the loss are taken of the sum over critics and records, of which each record's
    score is the only part that it is in.

    Args:
        shape: Sizes of each critic.
        penalty: Weight of the gradient penalty.
        critics: Parameters with a first axis of K.
        batch: What they compare.

    Returns:
        K values: mean D(image) - mean D(record) + penalty mean (|slope| - 1)^2 + drift
        mean D(record)^2.

    References:
        [chen:20], appendix.
    """
    of_own = vmap(functools.partial(scores, shape))
    of_shared = vmap(functools.partial(scores, shape), in_dims=(0, None, None))
    of_records_KR = of_own(critics, batch.records_KRD, batch.record_labels_KRL)
    of_images_KN = of_shared(critics, batch.images_ND, batch.image_labels_NL)
    num_records = batch.records_KRD.shape[1]
    partners_RD = batch.images_ND[torch.arange(num_records) % len(batch.images_ND)]
    share_KR1 = batch.mixing_KR.unsqueeze(2)
    mixed_KRD = share_KR1 * batch.records_KRD + (1 - share_KR1) * partners_RD
    mixed_KRD.requires_grad_()
    total = of_own(critics, mixed_KRD, batch.record_labels_KRL).sum()
    (slopes_KRD,) = torch.autograd.grad(total, mixed_KRD, create_graph=True)
    lengths_KR = (slopes_KRD.square().sum(dim=2) + _TINY).sqrt()
    distance = of_images_KN.mean(dim=1) - of_records_KR.mean(dim=1)
    drift = _DRIFT * of_records_KR.square().mean(dim=1)
    losses: Tensor = distance + penalty * (lengths_KR - 1).square().mean(dim=1) + drift
    return losses


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
    names = list(ensemble.critics)
    parts: list[tuple[Tensor, ...]] = []
    for some in chunks(len(batch.records_KRD)):
        critics = {
            n: value[some].detach().requires_grad_() for n, value in ensemble.critics.items()
        }
        own = replace(
            batch,
            records_KRD=batch.records_KRD[some],
            record_labels_KRL=batch.record_labels_KRL[some],
            mixing_KR=batch.mixing_KR[some],
        )
        with torch.enable_grad():
            total = critic_losses(shape, optimizer.penalty, critics, own).sum()
        parts.append(torch.autograd.grad(total, [critics[name] for name in names]))
    slopes = {
        name: torch.cat(rows) for name, rows in zip(names, zip(*parts, strict=True), strict=True)
    }
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
    every = vmap(functools.partial(scores, shape), in_dims=(0, 0, None))
    for some in chunks(len(next(iter(critics.values())))):
        asked = {name: value[some].detach() for name, value in critics.items()}
        copies_kND = images_ND.expand(len(asked["score"]), *images_ND.shape).clone()
        copies_kND.requires_grad_()
        with torch.enable_grad():
            total = every(asked, copies_kND, onehot_NL).sum()
        (slopes_kND,) = torch.autograd.grad(total, copies_kND)
        yield -slopes_kND


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
