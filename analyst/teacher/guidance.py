"""What a teacher says of generated images: a gradient for the generator, free like the teacher.

A map says how far an image is from its class, by the cross-entropy. Class sums say how far the
images of a class are from the records of that class, in the means of the network's features and of
their squares.

Shapes: N images, C channels, H height, W width, K classes, R moments.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analyst.embedding.offline import mmd_gradient
from analyst.teacher.session import Teacher
from analyst.training.guided import Guide


def guide_of(teacher: Teacher) -> Guide:
    """Return the guide that a teacher is: by its class means if it has them, else by its map."""
    model = teacher.model.requires_grad_(requires_grad=False)

    def by_map(images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        with torch.enable_grad():
            moving_NCHW = images_NCHW.detach().requires_grad_()
            loss = cross_entropy(model.to(images_NCHW.device)(moving_NCHW), labels_N)
        (gradient_NCHW,) = torch.autograd.grad(loss, moving_NCHW)
        return gradient_NCHW

    def by_means(images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        means_KR = teacher.means_KR.to(images_NCHW)
        return mmd_gradient(model.to(images_NCHW.device).moments, means_KR, images_NCHW, labels_N)

    gradient = by_means if len(teacher.means_KR) else by_map
    return Guide(gradient=gradient, shape=teacher.shape, run_id=teacher.run_id)
