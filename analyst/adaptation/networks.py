"""A classifier in two parts: a feature extractor that the curator knows by name, and a head.

Only the extractor's weights are ever sent. Its layers are those of the curator's implementation,
which computes in integers; a test holds the two together.

Shapes: N rows, C channels, H height, W width, F features, L classes.
"""

from __future__ import annotations

from typing import Final, Literal, final

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample, max_pool2d, relu

from analyst.generators.generator import ImageShape, initialise
from analyst.recipes.mechanisms import MechanismConfig

Architecture = Literal["lenet-features", "mlp-features", "cnn-features"]

_HIDDEN: Final = 256


@final
class ConvFeatures(nn.Module):
    """Two convolutions, each rectified and pooled, and a linear layer."""

    def __init__(
        self, shape: ImageShape, num_features: int, *, channels: tuple[int, int], kernel: int
    ) -> None:
        """Build the layers.

        Args:
            shape: Of the images; only their size matters.
            num_features: F.
            channels: Of the two convolutions.
            kernel: Their side; the padding keeps the size.
        """
        super().__init__()
        first, second = channels
        places = (shape.height // 4) * (shape.width // 4)
        self.conv1 = nn.Conv2d(shape.channels, first, kernel, padding=kernel // 2)
        self.conv2 = nn.Conv2d(first, second, kernel, padding=kernel // 2)
        self.features = nn.Linear(second * places, num_features)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return features [N, F]."""
        maps = max_pool2d(relu(self.conv1(images_NCHW)), 2)
        maps = max_pool2d(relu(self.conv2(maps)), 2)
        features_NF: Tensor = self.features(maps.flatten(1))
        return features_NF


@final
class MlpFeatures(nn.Module):
    """A hidden layer of 256, rectified, and a linear layer."""

    def __init__(self, shape: ImageShape, num_features: int) -> None:
        """Build the layers.

        Args:
            shape: Of the images; only their size matters.
            num_features: F.
        """
        super().__init__()
        self.hidden = nn.Linear(shape.channels * shape.height * shape.width, _HIDDEN)
        self.features = nn.Linear(_HIDDEN, num_features)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return features [N, F]."""
        features_NF: Tensor = self.features(relu(self.hidden(images_NCHW.flatten(1))))
        return features_NF


Extractor = ConvFeatures | MlpFeatures


def build_extractor(architecture: Architecture, shape: ImageShape, num_features: int) -> Extractor:
    """Return an extractor whose weights are still to be drawn."""
    match architecture:
        case "lenet-features":
            return ConvFeatures(shape, num_features, channels=(6, 16), kernel=5)
        case "cnn-features":
            return ConvFeatures(shape, num_features, channels=(32, 64), kernel=3)
        case "mlp-features":
            return MlpFeatures(shape, num_features)


@final
class DomainClassifier(nn.Module):
    """h after g: features of norm at most `clip_norm`, as the curator compares them; then scores.

    The head sees clipped features, so that nothing it uses escapes the comparison.
    """

    def __init__(
        self,
        extractor: Extractor,
        num_classes: int,
        *,
        clip_norm: float,
    ) -> None:
        """Put a head on an extractor."""
        super().__init__()
        self.extractor: Extractor = extractor
        self.head = nn.Linear(extractor.features.out_features, num_classes)
        self.clip_norm = clip_norm

    def scores(self, features_NF: Tensor) -> Tensor:
        """Return a score per class [N, L] from features."""
        norms_N1 = torch.linalg.vector_norm(features_NF, dim=1, keepdim=True)
        clipped_NF = features_NF * (self.clip_norm / norms_N1.clamp_min(self.clip_norm))
        scores_NL: Tensor = self.head(relu(clipped_NF))
        return scores_NL

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return a score per class [N, L]."""
        return self.scores(self.extractor(images_NCHW))


@final
class SourceMap(nn.Module):
    """An affine map of images, from their own size to the target's, and a lens to compare them by.

    The lens is an extractor with random weights, the last layer scaled such that features of the
    source are about twice as long as the clip norm. It is never trained.
    """

    def __init__(self, lens: Extractor, shape: ImageShape) -> None:
        """Start with the map that changes nothing but the size."""
        super().__init__()
        self.lens = lens.requires_grad_(requires_grad=False)
        self.affine = nn.Parameter(torch.eye(2, 3))
        self._size = (shape.height, shape.width)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return mapped images at the target's size; what lies outside is black."""
        size = [*images_NCHW.shape[:2], *self._size]
        affine_N23 = self.affine.expand(len(images_NCHW), 2, 3)
        grid_NHW2 = affine_grid(affine_N23, size, align_corners=False)
        return grid_sample(images_NCHW + 1, grid_NHW2, align_corners=False) - 1


def build_source_map(
    architecture: Architecture,
    shape: ImageShape,
    some_NCHW: Tensor,
    *,
    mechanism: MechanismConfig,
    seed: int,
) -> SourceMap:
    """Return the identity and a random lens.

    Args:
        architecture: Of the lens.
        shape: Of the target.
        some_NCHW: Images of the source, which fix the scale of the lens.
        mechanism: Number and norm of features.
        seed: Of the lens.
    """
    made = build_classifier(
        architecture,
        shape,
        torch.Generator().manual_seed(seed),
        num_features=mechanism.num_features,
        clip_norm=mechanism.clip_norm,
    )
    source_map = SourceMap(made.extractor, shape)
    with torch.no_grad():
        features_NF = source_map.lens(source_map(some_NCHW))
        norm = torch.linalg.vector_norm(features_NF, dim=1).mean()
        for parameter in source_map.lens.features.parameters():
            parameter.mul_(2 * mechanism.clip_norm / norm)
    return source_map


def build_classifier(
    architecture: Architecture,
    shape: ImageShape,
    randomness: torch.Generator,
    *,
    num_features: int,
    clip_norm: float,
) -> DomainClassifier:
    """Return a classifier with fresh weights."""
    with torch.device("meta"):  # torch would draw from the global random state
        extractor = build_extractor(architecture, shape, num_features)
        model = DomainClassifier(extractor, shape.num_classes, clip_norm=clip_norm)
    initialise(model, randomness)
    return model


def weight_bytes(extractor: nn.Module) -> bytes:
    """Return the weights of an extractor in the safetensors layout."""
    return save(
        {
            name: parameter.detach().to("cpu", torch.float32).contiguous()
            for name, parameter in extractor.named_parameters()
        }
    )
