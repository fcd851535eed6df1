"""Many feature extractors, each with a transport problem of its own: cost, gradient and ascent.

Extractor k has its own records; generated images are shared. The ground cost is the squared length
on [pixels, onehot labels, features of length `feature_scale`]. Transport plans come from a fixed
number of Sinkhorn updates and are held fixed when the cost is differentiated. Nothing is summed
over extractors but for slopes, of which each has its own. Work depends on shapes only.

Shape legend: K extractors, k of them at a time, N = n + n' images, M padded records of each,
D pixels, F features.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import conv2d, leaky_relu, linear

from curator.divergences.adam import Ensemble, adam_step
from curator.divergences.critic_training import chunks, fitting
from curator.divergences.critics import KERNEL, SLOPE, CriticShape, Parameters

_BETAS = (0.5, 0.9)
_TINY = 1e-12
_LOWEST_EXPONENT = -80.0
_MATRICES = 16  # of images and records that a loss and its slopes hold, about


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureCost:
    """The ground cost, and the temperatures of the updates under it; all of it is public."""

    label_scale: float
    feature_scale: float
    temperatures: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class OwnRecords:
    """Records of each extractor, padded; False in `mask_KM` marks padding."""

    pixels_KMD: Tensor
    labels_KM: Tensor
    mask_KM: Tensor

    def some(self, places: slice) -> OwnRecords:
        """Return those of some extractors."""
        return OwnRecords(
            pixels_KMD=self.pixels_KMD[places],
            labels_KM=self.labels_KM[places],
            mask_KM=self.mask_KM[places],
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Generated:
    """Images of a step: the first n meet records, the last n serve the self term."""

    images_ND: Tensor
    labels_N: Tensor
    num_samples: int


def features(shape: CriticShape, extractor: Parameters, images_ND: Tensor) -> Tensor:
    """Return the features of images, of length 1, by one extractor: the layers of a critic.

    Args:
        shape: Its sizes; the heads are not used.
        extractor: Its parameters, without an axis of extractors.
        images_ND: Pixels in [-1, 1].

    Returns:
        Rows (N, F).
    """
    if shape.kind == "mlp":
        rows_NF = images_ND
        for number in range(2):
            weight, bias = extractor[f"weight{number}"], extractor[f"bias{number}"]
            rows_NF = leaky_relu(linear(rows_NF, weight, bias), SLOPE)
    else:
        grid = images_ND.reshape(-1, shape.channels, shape.height, shape.pixels_per_row)
        for number in range(3):
            weight, bias = extractor[f"weight{number}"], extractor[f"bias{number}"]
            grid = leaky_relu(conv2d(grid, weight, bias, stride=2, padding=KERNEL // 2), SLOPE)
        rows_NF = grid.flatten(1)
    return rows_NF / (rows_NF.square().sum(dim=1, keepdim=True) + _TINY).sqrt()


def losses(
    shape: CriticShape,
    cost: FeatureCost,
    extractors: Parameters,
    records: OwnRecords,
    generated: tuple[Tensor, Generated],
) -> Tensor:
    """Return 2 W(X[0:n], Y) - W(X[0:n], X[n':n'+n]) of some extractors, plans held fixed.

    Args:
        shape: Sizes of each.
        cost: The ground cost.
        extractors: Parameters with a first axis of k.
        records: Of the same extractors.
        generated: A copy of the images for each, (k, N, D), and what they are.

    Returns:
        k values. Without a record the first term is zero, by a factor and not by a branch.

    References:
        [cao:21], section 4.3.
    """
    images_kND, what = generated
    n, labels_N = what.num_samples, what.labels_N
    of_images_kNF = vmap(functools.partial(features, shape))(extractors, images_kND)
    of_records_kMF = vmap(functools.partial(features, shape))(extractors, records.pixels_KMD)

    def distances(
        first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], differs: Tensor
    ) -> Tensor:
        pixels = _squared(first[0], second[0])
        likeness = first[1] @ second[1].mT
        gap = 2 * cost.label_scale**2 * differs.to(pixels.dtype)
        return pixels + gap + 2 * cost.feature_scale**2 * (1 - likeness)

    starts = images_kND[:, :n], of_images_kNF[:, :n]
    ends = images_kND[:, -n:], of_images_kNF[:, -n:]
    differs_knM = labels_N[:n, None] != records.labels_KM.unsqueeze(1)
    to_records_knM = distances(starts, (records.pixels_KMD, of_records_kMF), differs_knM)
    to_images_knn = distances(starts, ends, labels_N[:n, None] != labels_N[-n:])
    weights_kM = _log_weights(records.mask_KM, to_records_knM.dtype)
    plans_knM = _plans(to_records_knM.detach(), weights_kM, cost.temperatures)
    equal_kn = torch.full_like(to_images_knn[:, 0], -math.log(n))
    plans_knn = _plans(to_images_knn.detach(), equal_kn, cost.temperatures)
    factors_k = 2 * records.mask_KM.any(dim=1).to(to_records_knM.dtype)
    transport_k = (plans_knM * to_records_knM).sum(dim=(1, 2)) * factors_k
    return transport_k - (plans_knn * to_images_knn).sum(dim=(1, 2))


def ascend(
    shape: CriticShape,
    cost: FeatureCost,
    learning_rate: float,
    extractors: Ensemble,
    data: tuple[OwnRecords, Generated],
) -> Ensemble:
    """Return the extractors after one step of Adam that raises each one's loss."""
    records, what = data
    names = list(extractors.critics)
    parts: list[tuple[Tensor, ...]] = []
    for some in _parts(shape, records, what):
        own = {n: extractors.critics[n][some].detach().requires_grad_() for n in names}
        images_kND = what.images_ND.expand(len(own[names[0]]), -1, -1)
        with torch.enable_grad():
            total = -losses(shape, cost, own, records.some(some), (images_kND, what)).sum()
        parts.append(torch.autograd.grad(total, [own[name] for name in names]))
    slopes = {n: torch.cat(rows) for n, rows in zip(names, zip(*parts, strict=True), strict=True)}
    return adam_step(extractors, slopes, learning_rate, _BETAS)


def transport_gradients(
    shape: CriticShape,
    cost: FeatureCost,
    extractors: Parameters,
    data: tuple[OwnRecords, Generated],
) -> Iterator[Tensor]:
    """Yield the gradient of each extractor's loss with respect to all images.

    Yields:
        (k, N, D) for the extractors in their order, a public number of them at a time.
    """
    records, what = data
    for some in _parts(shape, records, what):
        own = {name: value[some].detach() for name, value in extractors.items()}
        num = len(records.mask_KM[some])
        copies_kND = what.images_ND.expand(num, -1, -1).clone().requires_grad_()
        with torch.enable_grad():
            total = losses(shape, cost, own, records.some(some), (copies_kND, what)).sum()
        (slopes_kND,) = torch.autograd.grad(total, copies_kND)
        yield slopes_kND


def _parts(shape: CriticShape, records: OwnRecords, what: Generated) -> Iterator[slice]:
    """Yield the extractors that are evaluated together: as many as a device has memory for."""
    num_extractors, capacity = records.mask_KM.shape
    rows = 2 * (len(what.images_ND) + capacity)  # values and slopes
    others = _MATRICES * what.num_samples * max(what.num_samples, capacity)
    yield from chunks(num_extractors, fitting(shape, rows, what.images_ND, others))


def _squared(first_kND: Tensor, second_kMD: Tensor) -> Tensor:
    """Return squared distances, at least zero."""
    sizes = first_kND.square().sum(dim=2).unsqueeze(2) + second_kMD.square().sum(dim=2).unsqueeze(1)
    return (sizes - 2 * first_kND @ second_kMD.mT).clamp_min(0)


def _log_weights(mask_kM: Tensor, dtype: torch.dtype) -> Tensor:
    """Return logarithms of equal masses of unmasked rows; of all rows where none is unmasked."""
    kept_kM = mask_kM.to(dtype)
    kept_kM = torch.where(kept_kM.sum(dim=1, keepdim=True) > 0, kept_kM, torch.ones_like(kept_kM))
    return kept_kM.log() - kept_kM.sum(dim=1, keepdim=True).log()


@torch.no_grad()
def _plans(cost_knM: Tensor, log_weights_kM: Tensor, temperatures: tuple[float, ...]) -> Tensor:
    """Return for each extractor the plan whose rows sum to equal masses.

    Both potentials move half way at once, at each temperature; the last full update is the plan.

    References:
        [feydy:20], algorithm 3.5.
    """
    cost_kMn, num_samples = cost_knM.mT.contiguous(), cost_knM.shape[1]
    equal_kn = torch.full_like(cost_knM[:, :, 0], -math.log(num_samples))
    first_kn = _softmin(cost_kMn, torch.zeros_like(log_weights_kM), log_weights_kM, temperatures[0])
    second_kM = _softmin(cost_knM, torch.zeros_like(equal_kn), equal_kn, temperatures[0])
    for reg in temperatures:
        target_kn = _softmin(cost_kMn, second_kM, log_weights_kM, reg)
        target_kM = _softmin(cost_knM, first_kn, equal_kn, reg)
        first_kn, second_kM = (first_kn + target_kn) / 2, (second_kM + target_kM) / 2
    exponents_kMn = (log_weights_kM + second_kM / temperatures[-1]).unsqueeze(2)
    powers_kMn = _shifted_exp(exponents_kMn - cost_kMn / temperatures[-1])[0]
    return (powers_kMn / powers_kMn.sum(dim=1, keepdim=True)).mT / num_samples


def _softmin(cost_kab: Tensor, potential_ka: Tensor, log_weights_ka: Tensor, reg: float) -> Tensor:
    """Return -reg log sum_a exp(log_weights_a + (potential_a - cost_ab) / reg) for every b."""
    exponents_kab = (log_weights_ka + potential_ka / reg).unsqueeze(2) - cost_kab / reg
    powers_kab, tops_k1b = _shifted_exp(exponents_kab)
    return (powers_kab.sum(dim=1).log() + tops_k1b[:, 0]) * -reg


def _shifted_exp(exponents_kab: Tensor) -> tuple[Tensor, Tensor]:
    """Return exp(exponent - top), not below exp(-80), and tops; as in `sinkhorn.py`."""
    tops_k1b = exponents_kab.amax(dim=1, keepdim=True)
    return (exponents_kab - tops_k1b).clamp(min=_LOWEST_EXPONENT).exp(), tops_k1b
