"""The losses of mechanisms without clip and noise, in process: beside them privacy has a price.

Nothing here is served, and no epsilon holds for what was trained so.

Shapes: N rows of a step, M records of a batch, D pixels, K directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from analyst.recipes import Recipe
from curator.divergences.backend import Backend, choose_backend, dense_solver
from curator.divergences.cost import LabelledCost, uniform_points
from curator.divergences.schedule import converged, public_diameter, published
from curator.divergences.sinkhorn import private_half, public_half
from curator.divergences.sliced import clip_rows, clip_rows_gradient, sliced_gradient
from curator.privacy.batches import ImageSpace

Gradient = Callable[[Tensor, Tensor], Tensor]
"""From images [N, D] in [-1, 1] and labels [N] to the gradient of the loss [N, D]."""


def exact_gradient(
    recipe: Recipe, pixels_MD: Tensor, labels_M: Tensor, space: ImageSpace
) -> Gradient:
    """Return the gradient of a recipe's loss to a fresh sample of all records, exactly.

    Args:
        recipe: Its mechanism must be one of those below.
        pixels_MD: All records, in [-1, 1].
        labels_M: Theirs.
        space: Of the images.

    Raises:
        ValueError: If the mechanism's loss is not written here.
    """
    kind = recipe.mechanism.kind
    if kind not in _LOSSES:
        msg = f"without privacy there are {', '.join(_LOSSES)}, not {kind}"
        raise ValueError(msg)
    randomness = torch.Generator().manual_seed(recipe.training.seed + 7)
    stated = dict(recipe.mechanism)
    chance = stated["expected_batch_size"] / len(labels_M)

    def sample() -> tuple[Tensor, Tensor]:
        drawn = torch.rand(len(labels_M), generator=randomness) < chance
        return pixels_MD[drawn], labels_M[drawn]

    return _LOSSES[kind](stated, sample, space, randomness)


Sample = Callable[[], tuple[Tensor, Tensor]]


def _sinkhorn(
    stated: Mapping[str, Any], sample: Sample, space: ImageSpace, _: torch.Generator
) -> Gradient:
    choose_backend(Backend.AUTO)
    cost = LabelledCost(l1_weight=stated["l1_weight"], label_scale=stated["label_scale"])
    schedule = {"published": published, "converged": converged}[stated["schedule"]]
    temperatures = schedule(public_diameter(space, stated["label_scale"]), stated["reg"])
    solver = dense_solver(cost, temperatures, torch.float32)
    count = stated["num_samples"]

    def gradient(images_ND: Tensor, labels_N: Tensor) -> Tensor:
        records_MD, record_labels_M = sample()
        whole_ND = public_half(solver, images_ND, labels_N, count)
        if len(record_labels_M):
            records = uniform_points(records_MD, record_labels_M)
            ours = uniform_points(images_ND[:count], labels_N[:count])
            mask = torch.ones(len(record_labels_M), dtype=torch.bool)
            whole_ND[:count] += private_half(solver, ours, records, mask)
        return whole_ND

    return gradient


def _sliced(
    stated: Mapping[str, Any], sample: Sample, space: ImageSpace, randomness: torch.Generator
) -> Gradient:
    zero = {"black": -1.0, "grey": 0.0, "white": 1.0}[stated["origin"]]
    classes, radius, slots = space.num_classes, stated["clip_norm"], stated["capacity"]

    def rows(pixels_ND: Tensor, labels_N: Tensor) -> Tensor:
        onehot = one_hot(labels_N, classes).to(pixels_ND) * stated["label_scale"]
        return torch.cat((pixels_ND - zero, onehot), dim=1)

    def padded(rows_ND: Tensor) -> Tensor:
        full = rows_ND.new_zeros((slots, rows_ND.shape[1]))
        full[: len(rows_ND)] = rows_ND[:slots]
        return full

    def gradient(images_ND: Tensor, labels_N: Tensor) -> Tensor:
        ours = rows(images_ND, labels_N)
        size = (ours.shape[1], stated["num_projections"])
        units = normalize(torch.randn(size, generator=randomness), dim=0)
        clipped = padded(clip_rows(ours, radius))
        theirs = padded(clip_rows(rows(*sample()), radius))
        slopes = sliced_gradient(clipped @ units, theirs @ units) @ units.T
        back = clip_rows_gradient(ours, radius, slopes[: len(ours)])
        return back[:, : space.dimension] * len(units)

    return gradient


_LOSSES = {"dp-sinkhorn": _sinkhorn, "dp-swd": _sliced}
