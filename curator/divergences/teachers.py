"""What teachers say of generated images: which are real or more so, and in which direction.

A teacher is a critic of `critics.py`; all of them are evaluated together and nothing is summed over
them.

Directions are of public projections: each teacher names a bin, and the bins of a majority are
released.

Shape legend: K teachers, k of them at a time, N or B images, R records of a minibatch, D pixels,
L classes, P projections, Q = B P questions, O bins.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from curator.divergences.critic_training import Minibatch, chunks, fitting
from curator.divergences.critics import CriticShape, Parameters, scores


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Questions:
    """Images to judge; with `seconds_ND`, each against another one of the same label."""

    firsts_ND: Tensor
    seconds_ND: Tensor | None
    onehot_NL: Tensor


def opinions(
    shape: CriticShape, teachers: Parameters, asked: Questions, shown: Minibatch
) -> Iterator[Tensor]:
    """Yield what each teacher says.

    A teacher calls an image real if its score is nearer to the mean score of the records that it
    was shown than to that of the images; of two images the one of the higher score is more so.
    A score that is not a number says no.

    Args:
        shape: Sizes of each teacher.
        teachers: Parameters of all of them.
        asked: What they judge.
        shown: Records of each, and images, that it last learned from.

    Yields:
        Booleans (k, N) for the teachers in their order, a public number of them at a time.
    """
    of_shared = vmap(functools.partial(scores, shape), in_dims=(0, None, None))
    of_own = vmap(functools.partial(scores, shape))
    rows = 2 * len(asked.firsts_ND) + shown.records_KRD.shape[1] + len(shown.images_ND)
    for some in chunks(len(teachers["score"]), fitting(shape, rows, asked.firsts_ND)):
        these = {name: value[some] for name, value in teachers.items()}
        firsts_kN = of_shared(these, asked.firsts_ND, asked.onehot_NL)
        if asked.seconds_ND is not None:
            yield firsts_kN > of_shared(these, asked.seconds_ND, asked.onehot_NL)
            continue
        records_kR = of_own(these, shown.records_KRD[some], shown.record_labels_KRL[some])
        images_kN = of_shared(these, shown.images_ND, shown.image_labels_NL)
        middle_k1 = (records_kR.mean(dim=1) + images_kN.mean(dim=1)).unsqueeze(1) / 2
        yield firsts_kN > middle_k1


_TINY = 1e-20


def projected_directions(gradients_kBD: Tensor, projection_DP: Tensor) -> Tensor:
    """Return each teacher's direction for each image, of length 1, on the projections.

    Args:
        gradients_kBD: Slopes in the images.
        projection_DP: Public normal numbers, so that a coordinate is about standard normal.

    Returns:
        (k, B, P); not finite where a slope is not.
    """
    lengths_kB1 = (gradients_kBD.square().sum(dim=2, keepdim=True) + _TINY).sqrt()
    return (gradients_kBD / lengths_kB1) @ projection_DP


def bins_of(values: Tensor, reach: float, num_bins: int) -> Tensor:
    """Return the bin of each value in equal parts of [-reach, reach]; -1 if it is not finite.

    Args:
        values: Any; those outside fall into the first or the last bin.
        reach: C > 0.
        num_bins: O.

    Returns:
        int64, shape as `values`.
    """
    places = ((values / reach + 1) * (num_bins / 2)).floor().clamp(0, num_bins - 1)
    return torch.where(values.isfinite(), places.nan_to_num(), -1).to(torch.int64)


def middles_of_winners(counts_QO: Tensor, reach: float) -> Tensor:
    """Return the middle of the bin with the largest count, for each question.

    Args:
        counts_QO: Released counts.
        reach: C > 0; bins are equal parts of [-C, C].

    References:
        [long:21], algorithm 2, without its test of confidence.
    """
    num_bins = counts_QO.shape[1]
    return reach * ((2 * counts_QO.argmax(dim=1) + 1) / num_bins - 1)


def back_projected(values_BP: Tensor, projection_DP: Tensor) -> Tensor:
    """Return rows (B, D) whose expectation over projections is the direction itself.

    Args:
        values_BP: What was agreed on, per projection.
        projection_DP: The same as before.
    """
    return values_BP @ projection_DP.T / projection_DP.shape[1]
