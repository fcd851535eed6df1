"""Release a sum over a fresh Poisson sample of one vector a record, each bounded alone.

A record's vector is clipped, truncated to the lattice and certified before records are added as
integers, so the sum has the same bits in any order. Records stand in uniformly random slots: what
one of them adds may depend on its slot, on itself and on public values, and on no other record.
All of it happens on the device that the vectors come on.

Shape legend: M slots, P pixels, m slots that are computed together, n of the V values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import check_noise_multiplier
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.gaussian_on_device import discrete_gaussian_on_device
from curator.sanitizer.lattice import lattice_radius
from curator.sanitizer.projected import random_order

ExampleVectors = Callable[[Tensor, Tensor], Iterable[Sequence[Tensor]]]
"""Maps levels (M, P) and labels (M) to the vectors of m slots at a time, in parts (m, n) that the
sum may overwrite."""

MAX_VALUES: Final = 1 << 23
_CLIP_MARGIN: Final = 1 - 2.0**-9  # float32 norms are within it; the certificate decides
_CERTIFIED: Final = 1 - 2.0**-10
_LEAST_SPACINGS: Final = 2  # about a fifth of a vector is lost there, and 1% at a hundred
_BLOCK: Final = 1 << 12  # float32 sums of so many squares err by a relative 2^-11 at most
_EXACT: Final = 1 << 24  # integers up to here are exact in float32, and so are sums below


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleBounds:
    """How far one unit may move the sum, and the noise that hides it.

    Attributes:
        clip_norm: Bound C on the norm of each record's vector.
        records_per_unit: Bound m on the records of one unit.
        noise_multiplier: Noise standard deviation over m C.
    """

    clip_norm: float
    records_per_unit: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range, or no lattice point is left for a record.
        """
        check_noise_multiplier(self.noise_multiplier)
        if not 0 < self.clip_norm < math.inf or self.records_per_unit < 1:
            msg = "clip_norm and records_per_unit must be positive"
            raise ValueError(msg)
        if self.radius < 1:
            msg = "noise_multiplier is too large for the lattice, for units of so many records"
            raise ValueError(msg)

    @property
    def radius(self) -> int:
        """Bound on a record's integer vector: m of them have norm at most Z, with s >= z Z."""
        return lattice_radius(self.noise_multiplier, sensitivity_in_radii=1) // (
            self.records_per_unit
        )

    @property
    def grid(self) -> float:
        """Lattice spacing, in the units of the vectors."""
        return self.clip_norm / self.radius

    def check_room(self, num_values: int) -> None:
        """Refuse vectors so long that the lattice is too coarse for their values.

        Values are truncated toward zero. Where those of a clipped vector are of a spacing or less,
        most of it is gone before noise is added, and the whole cost would be paid for little.

        Args:
            num_values: Public length of a vector.

        Raises:
            ValueError: If their root mean square is below two spacings.
        """
        if self.radius**2 < _LEAST_SPACINGS**2 * num_values:
            most = self.radius**2 // _LEAST_SPACINGS**2
            msg = (
                f"with this noise and {self.records_per_unit} records of a unit at most {most} "
                "parameters are worth their cost: of more, truncation would leave little"
            )
            raise ValueError(msg)


def release_example_sum(
    records: Private[RecordBatch],
    example_vectors: ExampleVectors,
    *,
    num_classes: int,
    num_values: int,
    bounds: ExampleBounds,
    noise: NoiseSource,
) -> Release:
    """Return the noised sum of the clipped vectors of the records of a sample.

    A record of an unknown class, or whose vector is not finite, adds zero. Of more than M // m
    units the last ones, which are as random as the first, are left out. If anything raises, the sum
    is zero, and noised like any other.

    Args:
        records: The sample, units in the random order in which they were drawn.
        example_vectors: The vectors, on the device that is to add them; that of a slot must be a
            function of what stands in that slot alone. Labels of empty slots are zero.
        num_classes: Public number of classes.
        num_values: Public length V of a vector.
        bounds: Norm of a vector, records of a unit, and noise.
        noise: Secret randomness.

    Returns:
        A release of one lattice block of shape (V,), on the vectors' device.

    Raises:
        ValueError: If there are too many values.

    Privacy:
        One unit of a sample with a place left moves the sum by at most m C; the event is the
        sampled sum, the places being M // m units. Proof: dp_cgan.md, lemmas 1 and 2.

    References:
        [abadi:16], algorithm 1.
    """
    if not 1 <= num_values <= MAX_VALUES:
        msg = f"num_values must be in [1, {MAX_VALUES}]"
        raise ValueError(msg)
    batch = records.unseal()
    num_slots = len(batch.mask_M)
    order = random_order(num_slots, noise)
    most_units = num_slots // bounds.records_per_unit
    labels, units = batch.labels_M, batch.units_M
    kept = batch.mask_M & (units >= 0) & (units < most_units)
    kept &= (labels >= 0) & (labels < num_classes)
    given = batch.levels_MD[order], torch.where(kept, labels, 0)[order]
    integers = _sum_of_points(example_vectors, given, kept[order], num_values, bounds)
    drawn = _noise_on(integers.device, num_values, noise)
    return Release(blocks=(LatticeBlock(integers=integers + drawn, grid=bounds.grid),))


def _sum_of_points(
    example_vectors: ExampleVectors,
    given: tuple[Tensor, Tensor],
    kept_M: Tensor,
    num_values: int,
    bounds: ExampleBounds,
) -> Tensor:
    """Return the sum of all certified integer vectors, or zeros; never raises."""
    zeros = torch.zeros(num_values, dtype=torch.int64)
    try:
        total, start = None, 0
        for parts in example_vectors(*given):
            stop = start + len(parts[0])
            kept_m = kept_M[start:stop].to(parts[0].device)
            sums_V = torch.cat(_sums_of_parts(parts, kept_m, bounds))
            total = sums_V if total is None else total + sums_V
            start = stop
    except Exception:  # noqa: BLE001 - an abort would be an answer that is not noised
        return zeros
    whole = total is not None and start == len(kept_M) and total.shape == zeros.shape
    return total.to(torch.int64) if total is not None and whole else zeros


def _sums_of_parts(parts: Sequence[Tensor], kept_m: Tensor, bounds: ExampleBounds) -> list[Tensor]:
    """Return float64 sums over m slots of certified integers, exact in any order."""
    spacings_m1 = (bounds.grid / clip_factors(parts, bounds.clip_norm)).unsqueeze(1)
    points = [part.div_(spacings_m1, rounding_mode="trunc") for part in parts]
    dropped_m1 = ~(kept_m & certified(points, bounds.radius)).unsqueeze(1)
    return [_exact_sum(point.masked_fill_(dropped_m1, 0.0), bounds.radius) for point in points]


def _exact_sum(points_mn: Tensor, radius: int) -> Tensor:
    """Return the float64 sum of integers of at most `radius` each; so few at a time are exact."""
    some = torch.split(points_mn, _EXACT // radius)
    return torch.stack([point.sum(dim=0) for point in some]).sum(dim=0, dtype=torch.float64)


def clip_factors(parts: Sequence[Tensor], clip_norm: float) -> Tensor:
    """Return what brings each vector into the ball.

    Args:
        parts: float32 vectors, in parts (m, n).
        clip_norm: Bound C > 0.

    Returns:
        float32 factors (m) in [0, 1]; zero, or not a number, where a vector is not finite.
    """
    norms = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts])
    norms_m = torch.linalg.vector_norm(norms, dim=0)
    limit = clip_norm * _CLIP_MARGIN
    return torch.where(norms_m > limit, limit / norms_m, torch.ones_like(norms_m))


def certified(points: Sequence[Tensor], radius: int) -> Tensor:
    """Return whether each vector is of integers with sum(k^2) <= radius^2.

    Squares are added in float32 by blocks, and blocks in float64, with a margin above all rounding.
    It is false for NaN, and for what float32 may not hold exactly, as a radius is below 2^23.

    Args:
        points: Integers as float32, in parts (m, n).
        radius: The bound.

    Returns:
        bool (m).
    """
    norms = [norm for point in points for norm in _block_norms(point)]
    squares_m = torch.cat(norms, dim=1).to(torch.float64).square().sum(dim=1)
    return squares_m <= radius**2 * _CERTIFIED


def _block_norms(point_mn: Tensor) -> Iterator[Tensor]:
    """Yield the norms of whole blocks of columns, and of what is left."""
    whole = point_mn.shape[1] // _BLOCK * _BLOCK
    if whole:
        blocks = point_mn[:, :whole].view(len(point_mn), -1, _BLOCK)
        yield torch.linalg.vector_norm(blocks, dim=2)
    if whole < point_mn.shape[1]:
        yield torch.linalg.vector_norm(point_mn[:, whole:], dim=1, keepdim=True)


def _noise_on(device: torch.device, num_values: int, noise: NoiseSource) -> Tensor:
    """Return draws of the discrete Gaussian of `LATTICE_STD`, made where they are needed."""
    if device.type == "cpu":
        return noise.discrete_gaussian(num_values)

    def words(count: int) -> Tensor:
        return noise.uniform_words(count).to(device)

    return discrete_gaussian_on_device(num_values, words, words)
