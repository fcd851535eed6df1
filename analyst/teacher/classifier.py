"""A linear map on rows of features of norm 1, as the curator computes them in integers.

What is learned without a curator is learned here: the network, and the map that the curator's
gradients start from.

Shapes: N rows, C channels, H height, W width, F features, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast, final, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from analyst.adaptation.networks import Architecture, Extractor, build_extractor, weight_bytes
from analyst.adaptation.public_images import PublicImages
from analyst.embedding.scattering import num_coefficients, scattering
from analyst.generators.generator import ImageShape, initialise
from analyst.teacher.recipe import SourceConfig, TeacherRecipe
from analyst.training.state import half_cosine

LARGEST_WEIGHT: Final = 4096.0
_LARGEST_FEATURE: Final = 32.0
_LARGEST_NETWORK_WEIGHT: Final = 16.0
_GROUPS_PER_CHANNEL: Final = 27
_LEAST_SPREAD: Final = 2.0**-7
_PACE_OF_MAP: Final = 30  # over the network's: rows have norm 1, so weights of a map grow large


@final
class TeacherClassifier(nn.Module):
    """Rows, and a score for each class."""

    def __init__(self, recipe: TeacherRecipe, shape: ImageShape) -> None:
        """Build the network, if the features are of one, and the map.

        Args:
            recipe: Features and their bias.
            shape: Public facts of the data set.
        """
        super().__init__()
        mechanism = recipe.mechanism
        self._features: str = mechanism.features
        self._bias: float = mechanism.bias
        self.extractor: Extractor | None = None
        if mechanism.features in get_args(Architecture):
            architecture = cast("Architecture", mechanism.features)
            self.extractor = build_extractor(architecture, shape, mechanism.num_features)
            width = mechanism.num_features
        elif mechanism.features == "scattering":
            width = num_coefficients(shape.channels, shape.height, shape.width)
        else:
            width = shape.channels * shape.height * shape.width
        self.linear = nn.Linear(width + 1, shape.num_classes, bias=False)

    def rows(self, images_NCHW: Tensor) -> Tensor:
        """Return [f, b] scaled to norm 1 [N, F + 1]."""
        features_NF = self._features_of(images_NCHW)
        bias_N1 = features_NF.new_full((len(features_NF), 1), self._bias)
        return normalize(torch.cat((features_NF, bias_N1), dim=1), dim=1)

    def moments(self, images_NCHW: Tensor) -> Tensor:
        """Return rows of norm 1, and their squares scaled to norm 1 [N, 2 (F + 1)]."""
        rows_NF = self.rows(images_NCHW)
        return torch.cat((rows_NF, normalize(rows_NF.square(), dim=1)), dim=1)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return a score per class [N, K]."""
        scores_NK: Tensor = self.linear(self.rows(images_NCHW))
        return scores_NK

    def network_bytes(self) -> bytes:
        """Return the network's weights in the safetensors layout; of no network, no weights."""
        return weight_bytes(self.extractor or nn.Identity())

    def is_bounded(self) -> bool:
        """Return whether a curator takes all weights, of the network and of the map."""
        network = [] if self.extractor is None else [*self.extractor.parameters()]
        bounds = [(one, _LARGEST_NETWORK_WEIGHT) for one in network]
        parts = [*bounds, (self.linear.weight, LARGEST_WEIGHT)]
        return all(bool((one.abs() <= bound).all()) for one, bound in parts)  # false for NaN

    def _features_of(self, images_NCHW: Tensor) -> Tensor:
        if self.extractor is not None:
            outputs_NF: Tensor = self.extractor(images_NCHW)
            return outputs_NF.clamp(0, _LARGEST_FEATURE)
        if self._features == "pixels":
            return (images_NCHW.flatten(1) + 1) / 2
        num_groups = _GROUPS_PER_CHANNEL * images_NCHW.shape[1]
        maps_NGS = scattering(images_NCHW).reshape(len(images_NCHW), num_groups, -1)
        spread_NG1 = maps_NGS.var(dim=2, correction=0, keepdim=True) + _LEAST_SPREAD**2
        centred_NGS: Tensor = maps_NGS - maps_NGS.mean(dim=2, keepdim=True)
        return (centred_NGS / spread_NG1.sqrt()).flatten(1)


def new_teacher(
    recipe: TeacherRecipe, shape: ImageShape
) -> tuple[TeacherClassifier, torch.Generator]:
    """Return a map of zeros on a network with fresh weights, and the randomness that goes on."""
    randomness = torch.Generator().manual_seed(recipe.training.seed)
    with torch.device("meta"):  # torch would draw from the global random state
        model = TeacherClassifier(recipe, shape)
    initialise(model, randomness)
    nn.init.zeros_(model.linear.weight)
    return model, randomness


def learn_source(
    model: TeacherClassifier,
    recipe: TeacherRecipe,
    source: PublicImages,
    randomness: torch.Generator,
) -> None:
    """Train the network and the map on labelled images that are public, or synthetic.

    Args:
        model: In place.
        recipe: How long, and how.
        source: The images.
        randomness: Of the batches.
    """
    paces: list[tuple[nn.Module, float]] = [(model.linear, _PACE_OF_MAP)]
    if model.extractor is not None:
        paces.append((model.extractor, 1.0))
    fit(model, recipe.source, source, randomness, paces=paces)


def fit(
    model: nn.Module,
    config: SourceConfig,
    source: PublicImages,
    randomness: torch.Generator,
    *,
    paces: Sequence[tuple[nn.Module, float]],
) -> None:
    """Train a classifier by its cross-entropy on labelled images that are public, or synthetic.

    Args:
        model: In place; maps images to scores.
        config: How long, and how.
        source: The images.
        randomness: Of the batches.
        paces: The parts that learn, with what the learning rate of each is multiplied by.
    """
    optimizer = torch.optim.Adam([{"params": [*part.parameters()]} for part, _ in paces])
    size = min(config.batch, len(source.labels_N))
    num_updates = config.epochs * (len(source.labels_N) // size)
    for update in range(num_updates):
        rate = config.lr * half_cosine(update / num_updates)
        for group, (_, pace) in zip(optimizer.param_groups, paces, strict=True):
            group["lr"] = rate * pace
        rows_N = torch.randint(len(source.labels_N), (size,), generator=randomness)
        loss = cross_entropy(model(source.images_NCHW[rows_N]), source.labels_N[rows_N])
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        optimizer.step()
