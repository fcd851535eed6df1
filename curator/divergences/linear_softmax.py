"""A linear map with softmax on rows of norm 1, its gradient factored, all of it in integers.

A record's gradient with respect to the map is the outer product of its residual p - y and its row;
with y in the place of the residual, the sum over records is that of the rows of each class.
Rows, weights and probabilities are integers on public grids, sums of products stay below 2^53, and
the exponential is a table, so no bit of a record's factors depends on its companions. The analyst's
own implementation is in floats; `tests/unit/analyst/teacher/test_features.py` holds the two
together.

Shape legend: M records, F features, K classes, P pixels, S scattering coefficients.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from curator.divergences.scattering import MAP_BITS, Scattering
from curator.privacy.toward_zero import toward_zero

FEATURE_STEP: Final = 2.0**-10
LARGEST_WEIGHT: Final = 4096.0
MAX_FEATURES: Final = 1 << 16
GROUPS_PER_CHANNEL: Final = 27
"""As many groups are scaled alike: three of the 81 maps of a channel each."""

LEAST_SPREAD: Final = 2.0**-7
"""What a flat group of scattering coefficients is divided by; pixels are in [0, 1]."""

_WEIGHT_STEP: Final = 2.0**-10
_MARGIN: Final = 1 - 2.0**-40  # keeps rounding inside the ball
_COARSER_BITS: Final = 4  # of coefficients, so that 2^12 squares of 2^15 times 2^12 are exact
_TABLE_STEPS: Final = 1 << 10  # of a unit of a score
_LOWEST_SCORE: Final = 24
_EXP_BITS, _SHARE_BITS = 24, 20
_SQUARE_STEP: Final = 16.0  # squares of a row of norm 2^15 are 2^26 together, theirs 2^52
_EXPONENTIALS: Final = torch.tensor(
    [
        float(round(math.exp(-step / _TABLE_STEPS) * 2**_EXP_BITS))
        for step in range(_LOWEST_SCORE * _TABLE_STEPS + 1)
    ],
    dtype=torch.float64,
)
"""exp(-i / 1024) as integers: the rounding hides what mathematics libraries differ in."""


def pixel_integers(levels_MP: Tensor, max_level: int) -> Tensor:
    """Return pixels in [0, 1] as float64 multiples of `FEATURE_STEP`.

    Privacy:
        Row i is a function of record i alone.
    """
    return torch.floor(levels_MP.to(torch.float64) / (FEATURE_STEP * max_level))


def scattering_integers(scattering: Scattering, levels_MP: Tensor, max_level: int) -> Tensor:
    """Return scattering coefficients, each group of maps with mean 0 and variance 1.

    Returns:
        Rows (M, S) of float64 multiples of `FEATURE_STEP`.

    Privacy:
        Row i is a function of record i alone: sums of a group are exact, and what follows is
        elementwise.
    """
    fine_MS = scattering.record_rows(levels_MP, max_level)  # below 2^19
    groups = GROUPS_PER_CHANNEL * scattering.channels
    maps_MGS = (fine_MS >> _COARSER_BITS).reshape(len(fine_MS), groups, -1)
    size = maps_MGS.shape[2]
    sums_MG1 = maps_MGS.sum(dim=2, keepdim=True)
    centred_MGS = (maps_MGS * size - sums_MG1).to(torch.float64)
    spread_MG1 = size * maps_MGS.square().sum(dim=2, keepdim=True) - sums_MG1.square()
    least = size * LEAST_SPREAD * 2.0 ** (MAP_BITS - _COARSER_BITS)
    scale_MG1 = (spread_MG1.to(torch.float64) + least**2).sqrt() * FEATURE_STEP
    return toward_zero(centred_MGS / scale_MG1).flatten(1)


def unit_rows(integers_MF: Tensor, bias: float, radius: int) -> Tensor:
    """Return [f, b] scaled to norm `radius`, truncated to integers.

    Args:
        integers_MF: float64 multiples of `FEATURE_STEP`, of less than 2^16 each.
        bias: The constant b > 0 below the features, in their units.
        radius: Of the ball of integers.

    Returns:
        float64 rows (M, F + 1) of norm at most `radius`.

    Privacy:
        Row i is a function of row i alone, bit for bit.
    """
    constant = max(1.0, round(bias / FEATURE_STEP))
    whole = torch.cat((integers_MF, integers_MF.new_full((len(integers_MF), 1), constant)), dim=1)
    norms_M1 = whole.square().sum(dim=1, keepdim=True).sqrt()  # of exact sums below 2^49
    return toward_zero(whole * (radius * _MARGIN / norms_M1))


def moment_rows(rows_MF: Tensor, radius: int) -> Tensor:
    """Return [phi, phi^2 / |phi^2|, 1] / sqrt(3), truncated to integers.

    Args:
        rows_MF: float64 rows of `unit_rows`.
        radius: Of the ball of integers.

    Returns:
        float64 rows (M, 2 F + 1) of norm at most `radius`; the last number is a constant.

    Privacy:
        Row i is a function of row i alone, bit for bit.

    References:
        [harder:23], section 4 (means of perceptual features, and of their squares).
    """
    share = _MARGIN / math.sqrt(3)
    squares_MF = torch.floor(rows_MF.square() / _SQUARE_STEP)
    norms_M1 = squares_MF.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1.0)  # exact sums
    parts = (
        toward_zero(rows_MF * share),
        toward_zero(squares_MF * (radius * share / norms_M1)),
        torch.full_like(norms_M1, math.floor(radius * share)),
    )
    return torch.cat(parts, dim=1)


def indicators(labels_M: Tensor, num_classes: int, radius: int) -> Tensor:
    """Return `radius` in the place of each record's class; nothing for one that does not exist.

    Returns:
        float64 integers (M, K) of norm at most `radius`.

    Privacy:
        Row i is a function of record i alone.
    """
    classes_K = torch.arange(num_classes, device=labels_M.device)
    return (labels_M.unsqueeze(1) == classes_K).to(torch.float64) * radius


def residuals(
    rows_MF: Tensor, weights_KF: Tensor, labels_M: Tensor, *, clip: float, radii: tuple[int, int]
) -> Tensor:
    """Return softmax(W phi) - y of each record, clipped.

    Args:
        rows_MF: Integers of norm at most the second radius, which stands for 1.
        weights_KF: W, finite and at most `LARGEST_WEIGHT` in size.
        labels_M: Classes; a row of one that does not exist is zero.
        clip: The norm to which residuals are clipped.
        radii: Of the residuals, which stands for `clip`, and of the rows.

    Returns:
        float64 integers (M, K) of norm at most the first radius.

    Privacy:
        Row i is a function of record i and the weights, bit for bit, and never NaN.

    References:
        [abadi:16], algorithm 1, whose gradient is in two factors here.
    """
    whole_KF = torch.round(weights_KF.to(rows_MF.device, torch.float64) / _WEIGHT_STEP)
    scores_MK = rows_MF.to(torch.float64) @ whole_KF.T  # integers below 2^46
    below_MK = scores_MK.amax(dim=1, keepdim=True) - scores_MK
    steps_MK = torch.floor(below_MK * _WEIGHT_STEP * _TABLE_STEPS / radii[1])
    table = _EXPONENTIALS.to(rows_MF.device)
    powers_MK = table[steps_MK.clamp(max=len(table) - 1).to(torch.int64)]
    shares_MK = powers_MK * 2.0**_SHARE_BITS / powers_MK.sum(dim=1, keepdim=True)
    known_M1 = ((labels_M >= 0) & (labels_M < len(weights_KF))).unsqueeze(1)
    places_M1 = torch.where(known_M1, labels_M.unsqueeze(1), 0)
    said_MK = torch.floor(shares_MK)
    said_MK.scatter_add_(1, places_M1, torch.full_like(said_MK[:, :1], -(2.0**_SHARE_BITS)))
    norms_M1 = said_MK.square().sum(dim=1, keepdim=True).sqrt()  # of an exact sum below 2^42
    limit = clip * 2.0**_SHARE_BITS
    scale_M1 = radii[0] * _MARGIN / norms_M1.clamp_min(limit)
    return toward_zero(said_MK * scale_M1).masked_fill(~known_M1, 0.0)
