"""Numbers on a public grid, and functions of them that give the same bits in any company.

A processor adds, multiplies, divides and takes roots of single numbers in one way only, by the
IEEE standard; a sum is the same in any order where every partial sum is a multiple of a power of
two with less than 53 bits. Libraries compute exponentials of a few numbers in another way than
those of many, so here they are polynomials. All of it is branchless, and no number that is met is
subnormal: work does not depend on what is computed.

Shape legend: T tokens, W numbers of a token, E numbers of a head.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from curator.privacy.toward_zero import toward_zero

WEIGHT_STEP: Final = 2.0**-14
SCALE_STEP: Final = 2.0**-24
"""Of weights by which single numbers are multiplied: no sum is made of these products."""

ACTIVATION_STEP: Final = 2.0**-12
LARGEST_ACTIVATION: Final = 512.0
MAX_TOKENS: Final = 1 << 11
MAX_WIDTH: Final = 1 << 9

SHARE_UNITS: Final = 1 << 20
"""What the largest share of attention is, in integers."""

_LEAST_EXPONENT: Final = -16.0  # e^-16 of the largest share is less than half a unit
_SQUARINGS: Final = 5
_TERMS: Final = 10
_ERFC_SCALE: Final = 0.3275911
_ERFC: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def on_grid(values: Tensor, step: float) -> Tensor:
    """Return the nearest multiples of a step, in float64."""
    return torch.round(values.to(torch.float64) / step) * step


def settled(
    values: Tensor, low: float = -LARGEST_ACTIVATION, high: float = LARGEST_ACTIVATION
) -> Tensor:
    """Return activations between bounds, truncated to their grid."""
    return toward_zero(values.clamp(low, high) / ACTIVATION_STEP) * ACTIVATION_STEP


def exponential(exponents: Tensor) -> Tensor:
    """Return e to the power of float64 numbers; of those below -16, e^-16.

    Its relative error is below 1e-8 where exponents are at most 0.
    """
    small = exponents.clamp(_LEAST_EXPONENT, 0.0) * 2.0**-_SQUARINGS
    found = torch.ones_like(small)
    for term in range(_TERMS, 0, -1):
        found = found.mul_(small).div_(term).add_(1.0)
    for _ in range(_SQUARINGS):
        found = found.mul_(found)
    return found


def gelu(values: Tensor) -> Tensor:
    """Return x times the share of a standard normal variable below x, within 1e-6.

    References:
        [abramowitz:64], formula 7.1.26 for the tail of the normal distribution.
    """
    sizes = values.abs()
    nearness = 1.0 / (sizes * (_ERFC_SCALE / math.sqrt(2)) + 1.0)
    tail = torch.zeros_like(nearness)
    for coefficient in reversed(_ERFC):
        tail = tail.add_(coefficient).mul_(nearness)
    tail = tail.mul_(exponential(values.square() * -0.5))
    return values.clamp_min(0.0) - sizes * tail * 0.5


def standardised(tokens_TW: Tensor, epsilon: float) -> Tensor:
    """Return activations about the mean of their row, over the row's standard deviation.

    The mean is truncated to the grid, so what is left of an activation is a multiple of 2^-12
    of at most 2^10, and the squares of 2^9 of them add up to less than 2^53 units.

    Args:
        tokens_TW: Multiples of `ACTIVATION_STEP`, at most `LARGEST_ACTIVATION` in size; W is at
            most `MAX_WIDTH`.
        epsilon: Added to variances, positive.
    """
    width = tokens_TW.shape[-1]
    left_TW = tokens_TW - settled(tokens_TW.sum(dim=-1, keepdim=True) / width)
    variances_T1 = left_TW.square().sum(dim=-1, keepdim=True) / width
    return left_TW / (variances_T1 + epsilon).sqrt()


def attended(queries_TE: Tensor, keys_TE: Tensor, values_TE: Tensor) -> Tensor:
    """Return for each query the mean of values, weighed by the exponentials of their scores.

    Scores are sums of E products below 2^42 units each. The exponentials are integers of at most
    `SHARE_UNITS` = 2^20, so their products with values of at most 2^21 units add up to less than
    2^52 for `MAX_TOKENS` = 2^11 tokens. The largest score has the largest share, so no sum of
    shares is 0.

    Args:
        queries_TE: Multiples of `ACTIVATION_STEP`, at most `LARGEST_ACTIVATION` in size; E is at
            most `MAX_WIDTH`.
        keys_TE: The same.
        values_TE: The same.
    """
    scores_TT = (queries_TE @ keys_TE.transpose(-1, -2)) / math.sqrt(queries_TE.shape[-1])
    exponents_TT = scores_TT - scores_TT.amax(dim=-1, keepdim=True)
    shares_TT = torch.round(exponential(exponents_TT) * SHARE_UNITS)
    return (shares_TT @ values_TE) / shares_TT.sum(dim=-1, keepdim=True)


def cubic_weights(inputs: int, outputs: int) -> Tensor:
    """Return by what a row of numbers is multiplied to have another length [outputs, inputs].

    They are those of cubic convolution with parameter -3/4, whose ends are repeated, rounded to
    `WEIGHT_STEP`.

    References:
        [keys:81], equation 15 with another parameter.
    """
    made = torch.zeros((outputs, inputs), dtype=torch.float64)
    for row in range(outputs):
        place = (row + 0.5) * inputs / outputs - 0.5
        first = math.floor(place) - 1
        for column in range(first, first + 4):
            made[row, min(max(column, 0), inputs - 1)] += _cubic(abs(place - column))
    return on_grid(made, WEIGHT_STEP)


def _cubic(distance: float) -> float:
    """Return the weight of a neighbour at a distance of at most 2."""
    if distance <= 1:
        return (1.25 * distance - 2.25) * distance * distance + 1
    return -0.75 * (((distance - 5) * distance + 8) * distance - 4)
