"""The student: one network that learns noisy shares of votes, and whose slope is the answer.

It sees generated images and released numbers only, so nothing here is private.

Shape legend: N images, D pixels, L classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from curator.divergences.adam import Ensemble, adam_step
from curator.divergences.critics import CriticShape, Parameters, scores
from curator.divergences.teachers import Questions

_BETAS = (0.5, 0.99)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answered:
    """Questions with the share of teachers that said yes, in [0, 1]."""

    asked: Questions
    shares_N: Tensor


def student_logits(shape: CriticShape, student: Parameters, asked: Questions) -> Tensor:
    """Return what the student says of questions: scores, or their differences in pairs.

    References:
        For pairs [bradley:52].
    """
    logits_N = scores(shape, student, asked.firsts_ND, asked.onehot_NL)
    if asked.seconds_ND is not None:
        logits_N = logits_N - scores(shape, student, asked.seconds_ND, asked.onehot_NL)
    return logits_N


def student_loss(shape: CriticShape, student: Parameters, answered: Answered) -> Tensor:
    """Return the cross-entropy of the shares and what the student says.

    References:
        [jordon:19], algorithm 1.
    """
    logits_N = student_logits(shape, student, answered.asked)
    return binary_cross_entropy_with_logits(logits_N, answered.shares_N)


def teach(
    shape: CriticShape, learning_rate: float, student: Ensemble, lessons: Iterable[Answered]
) -> Ensemble:
    """Return the student after one step of Adam a lesson; the one that was given is unchanged."""
    for answered in lessons:
        network = {n: value.detach().requires_grad_() for n, value in student.critics.items()}
        with torch.enable_grad():
            loss = student_loss(shape, network, answered)
        slopes = torch.autograd.grad(loss, list(network.values()))
        named = dict(zip(network, slopes, strict=True))
        student = adam_step(student, named, learning_rate, _BETAS)
    return student


def student_gradients(
    shape: CriticShape, student: Parameters, images_ND: Tensor, onehot_NL: Tensor
) -> Tensor:
    """Return the gradients of minus the student's scores with respect to the images.

    Returns:
        Rows (N, D).
    """
    copies_ND = images_ND.detach().clone().requires_grad_()
    with torch.enable_grad():
        total = scores(shape, student, copies_ND, onehot_NL).sum()
    (slopes_ND,) = torch.autograd.grad(total, copies_ND)
    return -slopes_ND
