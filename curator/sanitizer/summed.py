"""Release class-wise sums of bounded rows, one row per private record.

A sum over the data set has no bound as a whole, so every record's row is bounded, truncated and
certified alone, before the rows are added as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import RecordBatch
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.lattice import lattice_radius, truncate

FeatureRows = Callable[[Tensor], Tensor]

_MAX_FEATURES = 1 << 17


def release_class_sums(
    batches: Iterable[Private[RecordBatch]],
    feature_rows: FeatureRows,
    *,
    num_features: int,
    num_classes: int,
    noise_multiplier: float,
    noise: NoiseSource,
) -> Release:
    """Return the noised sums, over the records of each class, of their feature rows.

    A record whose row cannot be computed, is not finite, or exceeds norm 1 contributes zero.

    Args:
        batches: Every record once, in batches of one padded shape.
        feature_rows: Maps levels (M, D) to float64 rows (M, num_features); each row must be a
            function of its own record alone, bit for bit, and have norm at most 1.
        num_features: Width of a row.
        num_classes: Public number of classes.
        noise_multiplier: Noise standard deviation over the sensitivity 1.
        noise: Secret randomness.

    Returns:
        A release of one lattice block of shape (num_classes, num_features), grid 1 / radius.

    Raises:
        ValueError: If `num_features` or `noise_multiplier` is out of range.

    Privacy:
        Adding or removing one record changes one class's sum by one certified row, so the
        sensitivity is 1 under add-or-remove-one-record. Proof: sanitizer.md, theorem 2.
    """
    if not 1 <= num_features <= _MAX_FEATURES:
        msg = f"num_features must be in [1, {_MAX_FEATURES}]"
        raise ValueError(msg)
    radius = lattice_radius(noise_multiplier, sensitivity_in_radii=1)
    sums = torch.zeros((num_classes, num_features), dtype=torch.int64)
    for sealed in batches:
        batch = sealed.unseal()
        rows = _certified_rows(batch.levels_MD, feature_rows, num_features, radius)
        labels = batch.labels_M.clamp(0, num_classes - 1)
        known = batch.mask_M & (labels == batch.labels_M)
        sums.index_add_(0, labels, rows * known.to(torch.int64).unsqueeze(1))
    drawn = noise.discrete_gaussian(sums.numel()).reshape(sums.shape)
    return Release(blocks=(LatticeBlock(integers=sums + drawn, grid=1.0 / radius),))


def _certified_rows(
    levels_MD: Tensor, feature_rows: FeatureRows, num_features: int, radius: int
) -> Tensor:
    """Return integer rows, each of norm at most `radius`; a row that fails is zero."""
    try:
        rows = _truncated(feature_rows(levels_MD), (levels_MD.shape[0], num_features), radius)
    except Exception:  # noqa: BLE001 - one record must not decide the fate of its companions
        lone = [_lone_row(levels, feature_rows, num_features, radius) for levels in levels_MD]
        rows = torch.cat(lone)
    bounded = rows.clamp(-radius - 1, radius + 1)  # 2^17 squares of less than 2^46 fit int64
    certified = bounded.square().sum(dim=1) <= radius**2
    return rows * certified.to(torch.int64).unsqueeze(1)


def _lone_row(levels_D: Tensor, feature_rows: FeatureRows, width: int, radius: int) -> Tensor:
    """Return one record's truncated row, or zeros when it cannot be computed."""
    try:
        return _truncated(feature_rows(levels_D.unsqueeze(0)), (1, width), radius)
    except Exception:  # noqa: BLE001 - the record contributes zero
        return torch.zeros((1, width), dtype=torch.int64)


def _truncated(rows: Tensor, shape: tuple[int, int], radius: int) -> Tensor:
    """Return lattice rows; rows that are not finite become zero.

    Raises:
        ValueError: If the rows have another shape.
    """
    if rows.shape != shape:
        msg = "feature rows have the wrong shape"
        raise ValueError(msg)
    rows = rows.detach().to("cpu", torch.float64)
    finite = torch.isfinite(rows).all(dim=1, keepdim=True)
    bounded = torch.where(finite, rows, torch.zeros_like(rows)).clamp(-2.0, 2.0)
    return truncate(bounded, 1.0 / radius)
