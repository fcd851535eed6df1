"""What one update shows to the critics of shards: to each its own records, to all the same images.

Shape legend: K critics or teachers, k of them that are shown something, R records of a minibatch,
N images, D pixels, L classes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from curator.divergences.critic_training import Minibatch
from curator.mechanisms.shards import Shards
from curator.privacy.records import ImageSpace


def shard_minibatch(
    shards: Shards,
    drawn_2KR: Tensor,
    images: tuple[Tensor, Tensor],
    space: ImageSpace,
    some: slice = slice(None),
) -> Minibatch:
    """Return what one update shows to some critics.

    Args:
        shards: All of them.
        drawn_2KR: Public uniforms in [0, 1): which records, and where the penalty looks.
        images: Generated images (N, D), and their labels as rows of an identity matrix.
        space: Public image space.
        some: Which critics, public.

    Returns:
        Rows of the shards of these critics, and all images, on the shards' device.

    Privacy:
        Row k depends on shard k and public numbers. An empty shard shows padding.
    """
    device = shards.levels_KPD.device
    picks_kR, mixing_kR = drawn_2KR[:, some]
    most_k1 = shards.counts_K[some].clamp_min(1).unsqueeze(1)
    places_kR = torch.minimum((picks_kR * most_k1).to(torch.int64), most_k1 - 1).to(device)
    rows_k1 = torch.arange(drawn_2KR.shape[1], device=device)[some].unsqueeze(1)
    levels_kRD = shards.levels_KPD[rows_k1, places_kR].to(torch.float32)
    return Minibatch(
        records_KRD=levels_kRD * (2 / space.max_level) - 1,
        record_labels_KRL=onehot(shards.labels_KP[rows_k1, places_kR], space),
        images_ND=images[0],
        image_labels_NL=images[1],
        mixing_KR=mixing_kR.to(device, torch.float32),
    )


def onehot(labels: Tensor, space: ImageSpace) -> Tensor:
    """Return labels as float32 rows of an identity matrix.

    Args:
        labels: Class indices, of any shape.
        space: Public image space.

    Privacy:
        Elementwise.
    """
    return one_hot(labels, space.num_classes).to(torch.float32)
