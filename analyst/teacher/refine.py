"""Labelled synthetic images as a teacher sees them: labelled anew, or dropped where it disagrees.

Post-processing of what was released: it asks no curator and costs nothing.

Shapes: N images, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from analyst.errors import ImageFileError
from analyst.evaluation.image_file import LabelledImages
from analyst.teacher.session import Teacher

How = Literal["label", "drop"]

_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Refined:
    """What came of it, with how many labels differ and how many images are left out."""

    images: LabelledImages
    num_disagreed: int
    num_dropped: int


def refine(
    data: LabelledImages, teacher: Teacher, *, how: How, least_share: float = 0.0
) -> Refined:
    """Compare the label of each image with the class that a teacher gives it.

    Args:
        data: Synthetic images.
        teacher: Of the same data set.
        how: What happens where they differ: the image gets the teacher's label, or is dropped.
        least_share: Images are dropped of whose class the teacher is less sure.

    Raises:
        CheckpointError: If it has no map.
        ImageFileError: If the images are not the teacher's, or none is left.
    """
    teacher.check_map()
    shape = teacher.shape
    expected = (shape.channels, shape.height, shape.width)
    if data.images.shape[1:] != expected:
        message = f"the images are {data.images.shape[1:]}, and the teacher's {expected}"
        raise ImageFileError(message, "Give images and a teacher of one data set.")
    shares_NK = _shares(teacher.model, torch.from_numpy(data.images))
    given_N = shares_NK.argmax(dim=1).numpy()
    sure_N = shares_NK.amax(dim=1).numpy() >= least_share
    agrees_N = given_N == data.labels
    kept_N = sure_N if how == "label" else sure_N & agrees_N
    if not kept_N.any():
        message = "no image is left"
        raise ImageFileError(message, "Label instead of dropping, or ask for a smaller share.")
    labels_N = (given_N if how == "label" else data.labels)[kept_N].astype(np.int64)
    return Refined(
        images=replace(data, images=data.images[kept_N], labels=labels_N),
        num_disagreed=int((~agrees_N).sum()),
        num_dropped=int((~kept_N).sum()),
    )


@torch.no_grad()
def _shares(model: nn.Module, levels_NCHW: Tensor) -> Tensor:
    """Return the teacher's probabilities [N, K]."""
    chunks = torch.split(levels_NCHW, _AT_ONCE)
    return torch.cat([model(one.float() / 127.5 - 1).softmax(dim=1) for one in chunks])
