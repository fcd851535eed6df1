"""Release the average of what many critics say of each image, each critic bounded alone.

A critic's gradients are clipped image by image, truncated to a lattice and certified in exact
integers before critics are added as integers, so the sum has the same bits in any order and one
critic moves it by at most two points of its ball.

The lattice is 128 times finer than that of other releases: a sum over a thousand critics needs much
noise for each of them, and truncation on the coarse one would leave little of a gradient. Its noise
is 128 N1 + N2 with N1 and N2 of the usual law, which is the discrete Gaussian of `FINE_STD`.

Shape legend: K critics, k of them at a time, B images, D pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import torch
from torch import Tensor

from curator.privacy.event_numbers import check_noise_multiplier
from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.lattice import truncate

_STRIDE: Final = 128
FINE_STD: Final = 512 * 16385  # of 128 N1 + N2: sqrt(128^2 + 1) times LATTICE_STD, an integer
MAX_CRITICS: Final = 1 << 12  # sums of this many coordinates below 2^29 are far inside int64
MAX_COORDINATES: Final = 1 << 28  # of one critic: see `_certified`
_MARGIN: Final = 1 - 2.0**-30  # keeps float64 rounding inside the ball; the integer check decides
_HALF: Final = 15  # bits


def fine_radius(noise_multiplier: float) -> int:
    """Return the largest integer radius at which the noise is worth `noise_multiplier`.

    Args:
        noise_multiplier: Noise standard deviation over the sensitivity, twice the radius.

    Returns:
        Z >= 1 with FINE_STD / (2 Z) >= noise_multiplier, in exact integers.

    Raises:
        ValueError: If the multiplier is out of range, or so large that no lattice point is left.
    """
    check_noise_multiplier(noise_multiplier)
    numerator, denominator = float(noise_multiplier).as_integer_ratio()
    radius = FINE_STD * denominator // (2 * numerator)
    if radius < 1:
        msg = "noise_multiplier is too large for the lattice"
        raise ValueError(msg)
    return radius


def fine_noise(noise: NoiseSource, num_values: int) -> Tensor:
    """Return int64 draws from the discrete Gaussian of standard deviation `FINE_STD`.

    Args:
        noise: Secret randomness.
        num_values: How many.

    Privacy:
        128 N1 + N2 has the law within a relative 4 exp(-2 pi^2 t^2), where t = LATTICE_STD /
        sqrt(128^2 + 1) = 512: nothing beside the tables' own error. Proof: gs_wgan_mean.md.
    """
    drawn = noise.discrete_gaussian(2 * num_values)
    return _STRIDE * drawn[:num_values] + drawn[num_values:]


def release_critic_mean(
    compute: Callable[[], Iterable[Tensor]],
    *,
    num_critics: int,
    shape: tuple[int, int],
    clip_norm: float,
    noise_multiplier: float,
    noise: NoiseSource,
) -> Release:
    """Compute every critic's gradients and return their clipped, noised average.

    An image's gradient that is not finite counts as zero. So does a critic whose integers are not
    certified. What raises makes all critics zero, and the answer is noised like any other.

    Args:
        compute: Yields (k, B, D) for the critics in their order; everything private is inside.
        num_critics: Public number K of them.
        shape: Public (B, D).
        clip_norm: Bound C > 0 on the norm of each image's gradient.
        noise_multiplier: Noise standard deviation over the sensitivity 2 C sqrt(B) / K.
        noise: Secret randomness.

    Returns:
        A release of one lattice block of `shape`, in the units of the average.

    Raises:
        ValueError: If a size or the multiplier is out of range.

    Privacy:
        If neighbours differ in one critic's values alone, the sensitivity of the average is
        2 C sqrt(B) / K, whatever that critic does. Proof: gs_wgan_mean.md, lemma 1.
    """
    if not 1 <= num_critics <= MAX_CRITICS or not 1 <= math.prod(shape) <= MAX_COORDINATES:
        msg = "too many critics or coordinates"
        raise ValueError(msg)
    radius = fine_radius(noise_multiplier)
    grid = clip_norm * math.sqrt(shape[0]) / radius
    integers = _sum_of_points(compute, (num_critics, *shape), clip_norm, radius)
    drawn = fine_noise(noise, integers.numel()).reshape(shape)
    return Release(blocks=(LatticeBlock(integers=integers + drawn, grid=grid / num_critics),))


def _sum_of_points(
    compute: Callable[[], Iterable[Tensor]],
    shape: tuple[int, int, int],
    clip_norm: float,
    radius: int,
) -> Tensor:
    """Return the sum of all critics' certified integers, or zeros; never raises."""
    zeros = torch.zeros(shape[1:], dtype=torch.int64)
    try:
        sums, num_seen = zeros.clone(), 0
        for part in compute():
            if part.shape[1:] != shape[1:]:  # a smaller one would be spread after its check
                return zeros
            sums += _lattice_points(part, clip_norm, radius).sum(dim=0)
            num_seen += len(part)
    except Exception:  # noqa: BLE001 - an abort would be an answer that is not noised
        return zeros
    return sums if num_seen == shape[0] else zeros


def _lattice_points(gradients_kBD: Tensor, clip_norm: float, radius: int) -> Tensor:
    """Return each critic's clipped and truncated gradients, zero where not certified."""
    clipped = clip_images(gradients_kBD.detach().to("cpu", torch.float64), clip_norm)
    grid = clip_norm * math.sqrt(gradients_kBD.shape[1]) / radius
    integers = truncate(clipped, grid)
    certified = torch.tensor(_certified(integers, radius), dtype=torch.int64)
    return integers * certified.reshape(-1, 1, 1)


def clip_images(gradients_kBD: Tensor, clip_norm: float) -> Tensor:
    """Scale each image's gradient into the ball; one that is not finite becomes zero.

    Args:
        gradients_kBD: float64 values.
        clip_norm: Bound C > 0.

    Returns:
        Rows of norm at most `clip_norm`, shape as `gradients_kBD`.
    """
    norms = torch.linalg.vector_norm(gradients_kBD, dim=-1, keepdim=True)
    limit = clip_norm * _MARGIN
    factors = torch.where(norms > limit, limit / norms, torch.ones_like(norms))
    return torch.where(norms.isfinite(), gradients_kBD * factors, torch.zeros_like(gradients_kBD))


def _certified(integers_kBD: Tensor, radius: int) -> list[bool]:
    """Return, for each critic, whether sum(v^2) <= radius^2 in exact integers.

    Coordinates are bounded by radius + 1 < 2^30 and split as v = 2^15 h + l; of at most 2^28
    coordinates, sums of h^2 <= 2^28, |h l| < 2^30 and l^2 < 2^30 stay below 2^58, and are put
    together as Python integers.
    """
    bounded = integers_kBD.flatten(1).clamp(-radius - 1, radius + 1)
    high, low = bounded >> _HALF, bounded & ((1 << _HALF) - 1)
    parts = torch.stack(
        (high.square().sum(dim=1), (high * low).sum(dim=1), low.square().sum(dim=1)), dim=1
    )
    squares = ((hh << 2 * _HALF) + (hl << _HALF + 1) + ll for hh, hl, ll in parts.tolist())
    return [square <= radius**2 for square in squares]
