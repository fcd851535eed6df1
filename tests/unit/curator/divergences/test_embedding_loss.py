"""The closed-form gradient against autograd of the written-out loss."""

from __future__ import annotations

import torch
from torch import Tensor

from curator.divergences.feature_maps import PixelFeatures, class_gradients
from curator.divergences.random_features import fourier_features

FEATURES = PixelFeatures(
    fourier=fourier_features(
        dimension=6, largest_input=512.0, num_features=20, bandwidths=(1.0, 2.0), seed=3
    ),
    max_level=16,
)


def written_out_loss(images_ND: Tensor, labels_N: Tensor, means_K2F: Tensor) -> Tensor:
    total = images_ND.new_zeros(())
    for label, mean in enumerate(means_K2F):
        rows = FEATURES.rows(images_ND[labels_N == label])
        size = rows.shape[0]
        if size == 0:
            continue
        total = total + mean.square().sum() - 2 * rows.mean(0) @ mean
        if size > 1:
            products = rows @ rows.T
            total = total + (products.sum() - products.trace()) / (size * (size - 1))
    return total / means_K2F.shape[0]


def test_gradient_matches_autograd_with_lone_and_absent_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(8, 6, dtype=torch.float64, generator=generator) * 2 - 1
    labels = torch.tensor([0, 0, 0, 2, 2, 2, 2, 3])  # class 1 absent, class 3 alone
    means = torch.randn(4, 20, dtype=torch.float64, generator=generator) / 4
    moving = images.clone().requires_grad_()
    (expected,) = torch.autograd.grad(written_out_loss(moving, labels, means), moving)
    torch.testing.assert_close(class_gradients(FEATURES, images, labels, means), expected)


def test_an_absent_class_contributes_nothing() -> None:
    images = torch.zeros(2, 6, dtype=torch.float64)
    labels = torch.tensor([0, 0])
    means = torch.zeros(2, 20, dtype=torch.float64)
    other = torch.stack((means[0], means[1] + 5))
    assert torch.equal(
        class_gradients(FEATURES, images, labels, means),
        class_gradients(FEATURES, images, labels, other),
    )
