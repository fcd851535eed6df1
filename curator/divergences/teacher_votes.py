"""What teachers say of generated images: which are real, or which of two is more so.

A teacher is a critic of `critics.py`; all of them are evaluated together and nothing is summed over
them.

Shape legend: K teachers, k of them at a time, N images, R records of a minibatch, D pixels,
L classes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

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
