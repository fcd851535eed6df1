"""Critics trained one after the other, by autograd and torch's Adam: what the curator must match.

Shape legend: R records of a minibatch, N generated images, D pixels, L classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from curator.divergences.critic_training import CriticOptimizer, Minibatch
from curator.divergences.critics import CriticShape, Parameters, scores


def loss_of(
    shape: CriticShape, penalty: float, critic: Parameters, batch: Minibatch, k: int
) -> Tensor:
    """Return the loss of one critic, by its definition.

    Args:
        shape: Its sizes.
        penalty: Weight of the gradient penalty.
        critic: Its parameters.
        batch: What all critics compare.
        k: Which one it is.

    References:
        [chen:20], appendix.
    """
    records_RD, labels_RL = batch.records_KRD[k], batch.record_labels_KRL[k]
    of_records_R = scores(shape, critic, records_RD, labels_RL)
    of_images_N = scores(shape, critic, batch.images_ND, batch.image_labels_NL)
    partners_RD = batch.images_ND[torch.arange(len(records_RD)) % len(batch.images_ND)]
    share_R1 = batch.mixing_KR[k].unsqueeze(1)
    mixed_RD = (share_R1 * records_RD + (1 - share_R1) * partners_RD).requires_grad_()
    total = scores(shape, critic, mixed_RD, labels_RL).sum()
    (slopes_RD,) = torch.autograd.grad(total, mixed_RD, create_graph=True)
    lengths_R = (slopes_RD.square().sum(dim=1) + 1e-12).sqrt()
    distance = of_images_N.mean() - of_records_R.mean()
    return (
        distance + penalty * (lengths_R - 1).square().mean() + 1e-3 * of_records_R.square().mean()
    )


def train_alone(
    shape: CriticShape,
    optimizer: CriticOptimizer,
    critic: Parameters,
    batches: list[Minibatch],
    k: int,
) -> Parameters:
    """Return a critic after one step of Adam a batch.

    Args:
        shape: Its sizes.
        optimizer: How it learns.
        critic: Its first parameters.
        batches: What all critics compare.
        k: Which one it is.
    """
    learned = {name: value.detach().clone().requires_grad_() for name, value in critic.items()}
    adam = torch.optim.Adam(learned.values(), lr=optimizer.learning_rate, betas=(0.5, 0.9))
    for batch in batches:
        adam.zero_grad()
        loss = loss_of(shape, optimizer.penalty, learned, batch, k)
        torch.autograd.backward([loss])
        adam.step()
    return {name: value.detach() for name, value in learned.items()}
