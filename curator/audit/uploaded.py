"""What an attacker sends to a mechanism on features: an extractor of one feature, made to tell.

The feature is a large multiple of an image's mean: every dark image lies at one end of the ball,
every light one at the other, and no record is at zero. One public image is at the light end and all
others are at the dark one, so that its gradient says how far the largest projection lies.
"""

from __future__ import annotations

import torch
from safetensors.torch import save

from curator.audit.canaries import SIDE, Pair
from curator.divergences.feature_nets import LARGEST_WEIGHT, FeatureShape
from curator.privacy.records import Samples

_INSIDE = 0.999  # a row on the sphere has no slope along itself
_ROWS = 8


def weights_and_features(pair: Pair, num_rows: int | None) -> Samples:
    """Return the request.

    Args:
        pair: The canary; every one is attacked alike.
        num_rows: Public images.
    """
    del pair
    shape = FeatureShape(
        architecture="mlp-features",
        channels=1,
        height=SIDE,
        width=SIDE,
        max_level=255,
        num_features=1,
    )
    weights = {name: torch.zeros(size) for name, size in shape.sizes.items()}
    for unit, sign in enumerate((1.0, -1.0)):
        weights["hidden.weight"][unit] = sign * LARGEST_WEIGHT
        weights["features.weight"][0, unit] = sign * LARGEST_WEIGHT
    features = torch.full((num_rows or _ROWS, 1), -_INSIDE)
    features[0] = _INSIDE
    labels = torch.zeros(len(features), dtype=torch.int64)
    return Samples(images_ND=features, labels_N=labels, weights=save(weights))
