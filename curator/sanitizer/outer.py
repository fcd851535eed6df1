"""Release a sum over all records of outer products of two bounded rows of integers.

The gradient of a linear map is such a sum. A record's two rows are certified alone, in exact
integers, so that the norm of its product is known without making it, and all products of a batch
are added by one exact product of matrices. The sum is far finer than the noise; it is rounded to
the lattice as a whole, which moves every coordinate by less than one point more.

Shape legend: M rows of a batch, K and F coordinates of the two rows of a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock, Release
from curator.privacy.toward_zero import toward_zero
from curator.sanitizer.averaged import fine_noise, fine_radius

LEFT_RADIUS: Final = 1 << 15
RIGHT_RADIUS: Final = (1 << 15) - 1  # so that a coordinate fits int16
MAX_VALUES: Final = 1 << 23
_MOST_ROWS: Final = 1 << 22  # 2^22 products of at most 2^30 add up to 2^52: exact in float64
_BEYOND: Final = 2.0**17  # of a row that is not certified, and small enough to be multiplied by 0
_VALUES_AT_ONCE: Final = 1 << 22  # of right rows: 32 MiB in float64, however many rows there are
_LEAST_SPACINGS: Final = 4  # rounding may take a quarter of the sensitivity

Factors = tuple[Tensor, Tensor, Tensor]
"""Left rows (M, K) and right rows (M, F) of integers, and the unit (M) of each, -1 for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OuterBounds:
    """How far one unit may move the sum, and the noise that hides it.

    Attributes:
        shape: Public (K, F).
        clip_norm: What `LEFT_RADIUS` times `RIGHT_RADIUS` stands for.
        noise_multiplier: Noise standard deviation over `clip_norm`.
    """

    shape: tuple[int, int]
    clip_norm: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range, or rounding would take much of the sensitivity.
        """
        if not 0 < self.clip_norm < math.inf:
            msg = "clip_norm must be positive"
            raise ValueError(msg)
        if not 1 <= math.prod(self.shape) <= MAX_VALUES:
            msg = f"a sum may have at most {MAX_VALUES} values, and would have {self.shape}"
            raise ValueError(msg)
        if 2 * fine_radius(self.noise_multiplier) < _LEAST_SPACINGS * self._rounding:
            msg = f"noise_multiplier is too large for a sum of {math.prod(self.shape)} values"
            raise ValueError(msg)

    @property
    def spacing(self) -> int:
        """Points of the fine sum to one of the lattice.

        With two sums at most L R apart, their rounded quotients are at most the radius apart.
        """
        room = 2 * fine_radius(self.noise_multiplier) - self._rounding
        return -(-LEFT_RADIUS * RIGHT_RADIUS // room)

    @property
    def grid(self) -> float:
        """Lattice spacing, in the units of `clip_norm`."""
        return self.spacing * self.clip_norm / (LEFT_RADIUS * RIGHT_RADIUS)

    @property
    def _rounding(self) -> int:
        """At least the norm of a vector of ones."""
        return math.isqrt(math.prod(self.shape) - 1) + 1


def right_rows(levels_MD: Tensor, rows_of: Callable[[Tensor], Tensor], width: int) -> Tensor:
    """Return right rows of records, to be kept; one that cannot be computed is zero.

    Args:
        levels_MD: Stored levels.
        rows_of: Maps levels to float64 rows (M, F) of integers; each must be a function of its own
            record alone, bit for bit.
        width: Public F.

    Returns:
        int16 rows of norm at most `RIGHT_RADIUS`.

    Privacy:
        Row i is a function of record i alone, whatever its companions do.
    """
    try:
        parts = [
            _right_rows(rows_of(part), (len(part), width)) for part in in_parts(levels_MD, width)
        ]
        return torch.cat(parts)
    except Exception:  # noqa: BLE001 - one record must not decide the fate of its companions
        return torch.cat([_lone_row(levels, rows_of, width) for levels in levels_MD])


def in_parts(rows: Tensor, width: int) -> tuple[Tensor, ...]:
    """Split rows so that as many right rows have few values, whatever the number of all rows."""
    return torch.split(rows, max(1, _VALUES_AT_ONCE // width))


def _lone_row(levels_D: Tensor, rows_of: Callable[[Tensor], Tensor], width: int) -> Tensor:
    try:
        return _right_rows(rows_of(levels_D.unsqueeze(0)), (1, width)).to("cpu")
    except Exception:  # noqa: BLE001 - the record contributes zero
        return torch.zeros((1, width), dtype=torch.int16)


def _right_rows(rows_MF: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return certified rows as int16.

    Raises:
        ValueError: If the rows have another shape.
    """
    if rows_MF.shape != shape:
        msg = "rows have the wrong shape"
        raise ValueError(msg)
    whole_MF = _integers(rows_MF)
    return (whole_MF * _is_certified(whole_MF, RIGHT_RADIUS)).to(torch.int16)


def release_outer_sum(
    compute: Callable[[], Iterable[Factors]], *, bounds: OuterBounds, noise: NoiseSource
) -> Release:
    """Return the noised sum of the outer products of all records' rows.

    A record whose rows are not certified adds zero. The left rows of a unit of n records are
    divided by n. What raises makes the sum zero, and it is noised like any other.

    Args:
        compute: Yields the factors of every record once, all of a unit together; everything private
            is inside. The rows of a record must be functions of that record and of public values
            alone, bit for bit, and nothing may raise because of a record.
        bounds: Sizes, norm and noise.
        noise: Secret randomness.

    Returns:
        A release of one lattice block (K, F), in the units of `clip_norm`.

    Privacy:
        Adding or removing one unit moves the integers by at most twice `fine_radius` in norm, so
        the sensitivity is `clip_norm` under add-or-remove-one-unit. Proof: sanitizer.md, part 4.
    """
    sums_KF = _fine_sum(compute, bounds.shape)
    integers_KF = torch.div(sums_KF, bounds.spacing, rounding_mode="floor")
    drawn = fine_noise(noise, integers_KF.numel()).reshape(bounds.shape)
    return Release(blocks=(LatticeBlock(integers=integers_KF + drawn, grid=bounds.grid),))


def _fine_sum(compute: Callable[[], Iterable[Factors]], shape: tuple[int, int]) -> Tensor:
    """Return the exact sum of all certified products, or zeros; never raises."""
    zeros = torch.zeros(shape, dtype=torch.int64)
    try:
        sums = zeros.clone()
        for left_MK, right_MF, units_M in compute():
            sizes = [(len(units_M), width) for width in shape]
            if [left_MK.shape, right_MF.shape] != sizes or len(units_M) > _MOST_ROWS:
                return zeros
            sums += _product(_integers(left_MK), right_MF, units_M)
    except Exception:  # noqa: BLE001 - an abort would be an answer that is not noised
        return zeros
    return sums


def _product(left_MK: Tensor, right_MF: Tensor, units_M: Tensor) -> Tensor:
    """Return the exact sum of the products of certified rows, each shared with its unit."""
    left_MK = left_MK * _is_certified(left_MK, LEFT_RADIUS)
    shared_MK = _shared(left_MK, units_M.to(left_MK.device))
    sums_KF = shared_MK.new_zeros((left_MK.shape[1], right_MF.shape[1]))
    width = right_MF.shape[1]
    for left, right in zip(in_parts(shared_MK, width), in_parts(right_MF, width), strict=True):
        whole = _integers(right)
        sums_KF += (left * _is_certified(whole, RIGHT_RADIUS)).T @ whole
    return sums_KF.to("cpu", torch.int64)


def _integers(rows: Tensor) -> Tensor:
    """Return rows as float64 integers of moderate size; what is not finite is beyond any radius."""
    if not rows.is_floating_point():
        return rows.to(torch.float64)
    whole = toward_zero(rows.to(torch.float64)).nan_to_num(_BEYOND, _BEYOND, -_BEYOND)
    return whole.clamp_(-_BEYOND, _BEYOND)


def _is_certified(whole: Tensor, radius: int) -> Tensor:
    """Return, for each row of integers, whether sum(k^2) <= radius^2, as a column.

    Squares of at most 2^34 add up exactly as far as 2^53, far above the bound of 2^30, and beyond
    it a sum never comes back down.
    """
    return whole.square().sum(dim=1, keepdim=True) <= radius**2


def _shared(left_MK: Tensor, units_M: Tensor) -> Tensor:
    """Return rows divided by the number of records of their unit; rows of no unit become zero."""
    known_M = (units_M >= 0) & (units_M < len(units_M))
    counts = torch.bincount(torch.where(known_M, units_M, 0), minlength=len(units_M))
    counts[:1] -= (~known_M).sum()  # those that only seem to be of the first unit
    sizes_M = counts[torch.where(known_M, units_M, 0)].clamp_min(1).to(left_MK)
    return toward_zero(left_MK / sizes_M.unsqueeze(1)).masked_fill(~known_M.unsqueeze(1), 0.0)
