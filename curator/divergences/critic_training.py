"""Train many critics at once: Adam steps of the Wasserstein loss with a gradient penalty.

The loss of a critic is mean D(image) - mean D(record) + penalty mean (|slope| - 1)^2 + drift
mean D(record)^2. Its slopes are written out as products of matrices, so no graph is recorded.
Critic k sees its own row of every tensor with an axis K, and generated images that all share;
nothing is summed over K. Work depends on shapes only.

Shape legend: K critics, k of them at a time, R records of a minibatch, N generated images, M = 2 R
+ N rows, D pixels, L classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from curator.divergences.adam import Ensemble, adam_step_in_place
from curator.divergences.critics import CriticShape, Parameters
from curator.divergences.device import compute_device
from curator.divergences.ensemble import EnsemblePass

_BYTES_AT_ONCE = {"cpu": 1 << 27, "cuda": 1 << 32}  # of activations
_BETAS = 0.5, 0.9  # as published
_DRIFT = 1e-3  # weight of the squared score of a record, as published
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Minibatch:
    """What one update compares: each critic's own records, and generated images."""

    records_KRD: Tensor
    record_labels_KRL: Tensor
    images_ND: Tensor
    image_labels_NL: Tensor
    mixing_KR: Tensor  # in [0, 1): where the penalty looks between a record and an image


@dataclass(frozen=True, kw_only=True, slots=True)
class CriticOptimizer:
    """How critics learn."""

    learning_rate: float
    penalty: float


def update(
    shape: CriticShape,
    optimizer: CriticOptimizer,
    ensemble: Ensemble,
    batches: Iterable[Minibatch],
) -> Ensemble:
    """Return the ensemble after one step of Adam a batch; the one that was given is unchanged.

    Args:
        shape: Sizes of each critic.
        optimizer: How they learn.
        ensemble: All of them.
        batches: What they compare; each is asked for after the step before it.
    """
    critics, means, squares = (
        {name: value.detach().clone() for name, value in part.items()}
        for part in (ensemble.critics, ensemble.means, ensemble.squares)
    )
    turn = ensemble.num_updates
    for batch in batches:
        turn += 1
        rows = 2 * batch.records_KRD.shape[1] + len(batch.images_ND)
        for some in chunks(len(batch.records_KRD), fitting(shape, rows, batch.images_ND)):
            parts = [{n: v[some] for n, v in part.items()} for part in (critics, means, squares)]
            slopes = _slopes(EnsemblePass(shape, parts[0]), optimizer.penalty, batch, some)
            adam_step_in_place(optimizer.learning_rate, _BETAS, turn, slopes, parts)
    return Ensemble(critics=critics, means=means, squares=squares, num_updates=turn)


def image_gradients(
    shape: CriticShape, critics: Parameters, images_ND: Tensor, onehot_NL: Tensor
) -> Iterator[Tensor]:
    """Yield the gradients of minus every critic's score with respect to the images.

    Yields:
        (k, N, D) for the critics in their order, a public number of them at a time.
    """
    num_images = len(images_ND)
    for some in chunks(len(critics["score"]), fitting(shape, num_images, images_ND)):
        asked = EnsemblePass(shape, {name: value[some] for name, value in critics.items()})
        count = len(critics["score"][some])
        passed = asked.forward(images_ND.expand(count, -1, -1))
        slopes = asked.backward(passed, asked.tops(onehot_NL.expand(count, -1, -1)))
        yield -asked.to_images(slopes[0])


def chunks(num_critics: int, at_once: int) -> Iterator[slice]:
    """Yield the critics that are evaluated together."""
    for start in range(0, num_critics, at_once):
        yield slice(start, min(start + at_once, num_critics))


def fitting(shape: CriticShape, num_rows: int, images_ND: Tensor, others: int = 0) -> int:
    """Return how many critics' activations fit what a device has for them; public sizes only."""
    held = num_rows * shape.activations + others
    return max(1, _BYTES_AT_ONCE[images_ND.device.type] // (4 * held))


def _slopes(asked: EnsemblePass, penalty: float, batch: Minibatch, some: slice) -> Parameters:
    """Return the slope of each critic's loss in its parameters.

    Rows are records, images, and points between them; the last matter by their slope alone, so
    their part of a weight's slope is the tangent that the penalty pulls along.
    """
    records_KRD, own_KRL = batch.records_KRD[some], batch.record_labels_KRL[some]
    num_critics, num_records, _ = records_KRD.shape
    num_images = len(batch.images_ND)
    partners_RD = batch.images_ND[torch.arange(num_records) % num_images]
    mixed_KRD = torch.lerp(partners_RD, records_KRD, batch.mixing_KR[some].unsqueeze(2))
    images_KND = batch.images_ND.expand(num_critics, -1, -1)
    shared_KNL = batch.image_labels_NL.expand(num_critics, -1, -1)
    onehot_KML = torch.cat((own_KRL, shared_KNL, own_KRL), dim=1)
    ends = num_records + num_images
    passed = asked.forward(torch.cat((records_KRD, images_KND, mixed_KRD), dim=1))
    tops_KMF = asked.tops(onehot_KML)
    slopes = asked.backward(passed, tops_KMF)

    slopes_KRD = asked.to_images(slopes[0][:, ends:])
    lengths_KR1 = (slopes_KRD.square().sum(dim=2, keepdim=True) + _TINY).sqrt()
    pulls_KRD = slopes_KRD * ((2 * penalty / num_records) * (1 - 1 / lengths_KR1))
    pulled, features_KRF = asked.tangent([held[:, ends:] for held in passed.signs], pulls_KRD)

    scores_KR = (passed.features_KMF[:, :num_records] * tops_KMF[:, :num_records]).sum(dim=2)
    shares_KM = tops_KMF.new_ones(num_critics, onehot_KML.shape[1])
    shares_KM[:, :num_records] = (2 * _DRIFT * scores_KR - 1) / num_records
    shares_KM[:, num_records:ends] = 1 / num_images
    features_KMF = passed.features_KMF * shares_KM.unsqueeze(2)
    features_KMF[:, ends:] = features_KRF
    found = {
        "score": features_KMF.sum(dim=1, keepdim=True),
        "classes": torch.bmm(onehot_KML.transpose(1, 2), features_KMF),
    }
    for number, (layer, slope) in enumerate(zip(asked.layers, slopes, strict=True)):
        slope *= shares_KM.reshape(shares_KM.shape + (1,) * (slope.ndim - 2))  # noqa: PLW2901
        passed.inputs[number][:, ends:] = pulled[number]
        found[f"weight{number}"] = layer.weight_slopes(slope, passed.inputs[number])
        places = [axis for axis in range(1, slope.ndim) if axis != 2]
        found[f"bias{number}"] = slope[:, :ends].sum(dim=places)
    return found


_PARTS = ("critics", "means", "squares")


def pack_ensemble(ensemble: Ensemble) -> dict[str, Tensor]:
    """Return parameters, moments and the number of updates, as tensors of the processor.

    Returns:
        Tensors named `critics.weight0` and so on.
    """
    tensors = {
        f"{part}.{name}": value.detach().cpu().contiguous()
        for part in _PARTS
        for name, value in getattr(ensemble, part).items()
    }
    return {**tensors, "num_updates": torch.tensor([ensemble.num_updates])}


def unpack_ensemble(tensors: Mapping[str, Tensor]) -> Ensemble:
    """Return the ensemble that was packed, on the device that this process computes on.

    Args:
        tensors: Of `pack_ensemble`, perhaps among others.
    """
    found: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        if part in found:
            found[part][rest] = value.to(compute_device())
    return Ensemble(**found, num_updates=int(tensors["num_updates"]))
