"""The sum over a sample: each record bounded alone, in exact integers, in random slots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from curator.privacy.batches import RecordBatch
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer import example_sum
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.example_sum import (
    MAX_VALUES,
    ExampleBounds,
    ExampleVectors,
    certified,
    clip_factors,
    release_example_sum,
)
from curator.sanitizer.lattice import LATTICE_STD, LATTICE_VARIANCE
from tests.fakes.noise import NoNoise, SeededNoise

CLIP, Z, SLOTS, VALUES, CLASSES = 0.7, 1.3, 6, 5, 3
BOUNDS = ExampleBounds(clip_norm=CLIP, records_per_unit=1, noise_multiplier=Z)
WEIGHTS = torch.linspace(-1.0, 1.5, 3 * VALUES).reshape(3, VALUES)


def batch(count: int = 4, **changes: Tensor) -> Private[RecordBatch]:
    """Return `count` records in the first of the slots, levels 10, 11, ... in the first pixel."""
    taken = torch.arange(SLOTS) < count
    levels = torch.zeros((SLOTS, 3), dtype=torch.uint8)
    levels[:, 0] = torch.where(taken, 10 + torch.arange(SLOTS), 0).to(torch.uint8)
    levels[:, 1] = taken * 7
    fields = {
        "levels_MD": levels,
        "labels_M": torch.where(taken, torch.arange(SLOTS) % CLASSES, 0),
        "mask_M": taken,
        "units_M": torch.where(taken, torch.arange(SLOTS), -1),
    }
    return Private(RecordBatch(**(fields | changes)))


def vectors(levels_MP: Tensor, labels_M: Tensor) -> Iterable[Sequence[Tensor]]:
    """Return vectors of about norm 1, three slots at a time, in two parts."""
    rows = (levels_MP.float() / 20) @ WEIGHTS + labels_M.unsqueeze(1) / 10
    for some in (slice(0, 3), slice(3, SLOTS)):
        yield [rows[some, :2].clone(), rows[some, 2:].clone()]


def released(
    records: Private[RecordBatch] | None = None,
    given: ExampleVectors = vectors,
    *,
    bounds: ExampleBounds = BOUNDS,
    noise: NoiseSource | None = None,
) -> Tensor:
    release = release_example_sum(
        batch() if records is None else records,
        given,
        num_classes=CLASSES,
        num_values=VALUES,
        bounds=bounds,
        noise=noise or NoNoise(),
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    assert block.grid == bounds.grid
    return block.integers


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("z", [0.01, 0.3, 1.0, 1.956, 37.0, 1 / 3])
def test_noise_over_sensitivity_is_never_below_what_is_charged(z: float, records: int) -> None:
    bounds = ExampleBounds(clip_norm=2.0, records_per_unit=records, noise_multiplier=z)
    reach = Fraction(z) * records * bounds.radius
    assert reach * reach <= LATTICE_VARIANCE
    further = Fraction(z) * records * (bounds.radius + 1)
    assert further * further > LATTICE_VARIANCE
    assert bounds.radius * bounds.grid == pytest.approx(2.0)
    assert bounds.radius < 1 << 23


@pytest.mark.parametrize(
    ("clip", "records", "z"),
    [(0.0, 1, 1.0), (math.inf, 1, 1.0), (1.0, 0, 1.0), (1.0, 1, math.nan), (1.0, 700, 100.0)],
)
def test_bounds_that_bound_nothing_are_refused(clip: float, records: int, z: float) -> None:
    with pytest.raises(ValueError, match=r"positive|noise_multiplier"):
        ExampleBounds(clip_norm=clip, records_per_unit=records, noise_multiplier=z)


@pytest.mark.parametrize("count", [0, MAX_VALUES + 1])
def test_absurd_lengths_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="num_values"):
        release_example_sum(
            batch(), vectors, num_classes=3, num_values=count, bounds=BOUNDS, noise=NoNoise()
        )


def test_the_sum_is_of_clipped_vectors() -> None:
    sealed = batch()
    inside = sealed.unseal()
    parts = [torch.cat(list(p), dim=1) for p in vectors(inside.levels_MD, inside.labels_M)]
    rows = torch.cat(parts)[:4].double()
    norms = rows.norm(dim=1, keepdim=True)
    assert float(norms.max()) > CLIP > float(norms.min())  # some are clipped, some are not
    expected = (rows * (CLIP / norms).clamp(max=1)).sum(dim=0)
    got = released(sealed).double() * BOUNDS.grid
    torch.testing.assert_close(got, expected, rtol=0, atol=4 * CLIP * 2e-3)


def test_slots_are_permuted_and_the_sum_does_not_care() -> None:
    seen: Counter[tuple[int, ...]] = Counter()

    def noting(levels_MP: Tensor, labels_M: Tensor) -> Iterable[Sequence[Tensor]]:
        seen[tuple(levels_MP[:, 0].tolist())] += 1
        return vectors(levels_MP, labels_M)

    noise = SeededNoise(3)
    sums = set()
    for _ in range(40):
        inner = NoNoise()
        inner.uniform_words = noise.uniform_words  # type: ignore[method-assign]
        sums.add(tuple(released(given=noting, noise=inner).tolist()))
    assert len(seen) > 30  # of 360 orders of four records in six slots
    assert len(sums) == 1


def test_empty_slots_and_unknown_classes_add_nothing() -> None:
    assert released(batch(0)).count_nonzero() == 0
    labels = torch.tensor([0, CLASSES, -1, 0, 0, 0])
    lone = batch(mask_M=torch.arange(SLOTS) == 0, labels_M=torch.zeros(SLOTS, dtype=torch.int64))
    kept = torch.tensor([True, True, True, False, False, False])
    assert torch.equal(released(batch(labels_M=labels, mask_M=kept)), released(lone))


def test_units_beyond_those_that_always_fit_are_left_out() -> None:
    pairs = ExampleBounds(clip_norm=CLIP, records_per_unit=2, noise_multiplier=Z)
    whole = released(batch(SLOTS), bounds=pairs)
    three = released(batch(3), bounds=pairs)
    assert torch.equal(whole, three)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 3e38])
def test_a_vector_that_is_not_finite_adds_zero_and_costs_no_companion(bad: float) -> None:
    def broken(levels_MP: Tensor, labels_M: Tensor) -> Iterable[Sequence[Tensor]]:
        for parts in vectors(levels_MP, labels_M):
            yield parts
            break
        rest = list(vectors(levels_MP, labels_M))[1]
        rest[1][0, 0] = rest[1][0, 1] = bad
        yield rest

    whole, units = batch(), batch().unseal().units_M
    assert torch.equal(
        released(whole, broken), released(batch(units_M=torch.where(units == 3, -1, units)))
    )


class PlantedError(RuntimeError):
    """What fails inside a private computation."""


def failing(levels_MP: Tensor, labels_M: Tensor) -> Iterable[Sequence[Tensor]]:
    yield next(iter(vectors(levels_MP, labels_M)))
    raise PlantedError


def short(levels_MP: Tensor, labels_M: Tensor) -> Iterable[Sequence[Tensor]]:
    yield next(iter(vectors(levels_MP, labels_M)))


def narrow(levels_MP: Tensor, labels_M: Tensor) -> Iterable[Sequence[Tensor]]:
    for parts in vectors(levels_MP, labels_M):
        yield parts[:1]


@pytest.mark.parametrize("given", [failing, short, narrow, lambda *_: iter(())])
def test_whatever_goes_wrong_becomes_the_zero_vector(given: ExampleVectors) -> None:
    integers = released(given=given)
    assert integers.shape == (VALUES,)
    assert integers.count_nonzero() == 0
    assert released(given=given, noise=SeededNoise(1)).count_nonzero() > 0


def test_the_certificate_agrees_with_python_integers() -> None:
    generator = torch.Generator().manual_seed(4)
    points = torch.randint(-400, 400, (60, 15_000), generator=generator)
    points[::3] = torch.trunc(points[::3] * 0.998)
    points[1::3] = torch.trunc(points[1::3] * 1.002)
    exact = [sum(value * value for value in row) for row in points.tolist()]
    radius = math.isqrt(sorted(exact)[30])
    got = certified([points[:, :9000].float(), points[:, 9000:].float()], radius).tolist()
    for square, passed in zip(exact, got, strict=True):
        assert not passed or square <= radius**2
        assert passed or square > radius**2 * (1 - 2.0**-9)
    assert 10 < sum(got) < 50


@pytest.mark.parametrize("above", [0, 1, 5])
def test_nothing_above_the_radius_is_certified(above: int) -> None:
    for radius in (1, 2, 1000, 50_414, (1 << 23) - 1):
        point = torch.zeros(1, 9)
        point[0, 3] = float(radius + 1 + above)
        assert certified([point], radius).tolist() == [False]
    assert certified([torch.full((1, 3), math.nan)], 5).tolist() == [False]


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 0.7, 1.0, 1e10, 1e19])
def test_factors_bring_vectors_into_the_ball(scale: float) -> None:
    generator = torch.Generator().manual_seed(5)
    parts = [torch.randn((8, n), generator=generator) * scale for n in (1, 40, 7)]
    factors = clip_factors(parts, CLIP).double()
    norms = torch.cat(parts, dim=1).double().norm(dim=1)
    assert bool((factors * norms <= CLIP).all())
    assert bool((factors <= 1).all())


@pytest.mark.statistical
def test_the_noise_is_the_bound_times_the_multiplier() -> None:
    """60,000 draws; false alarm below 1e-7 (5.4 standard errors of a standard deviation)."""
    release = release_example_sum(
        batch(0),
        lambda levels, _: [[torch.zeros(len(levels), 60_000)]],
        num_classes=CLASSES,
        num_values=60_000,
        bounds=BOUNDS,
        noise=OsEntropy(),
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    std = float((block.integers.double() * block.grid).std())
    assert std == pytest.approx(Z * CLIP, rel=5.4 / (2 * 60_000) ** 0.5 + 1e-4)
    assert LATTICE_STD * block.grid >= Z * CLIP


@pytest.mark.parametrize("radius", [1, 36_820, 6_553_800])
def test_sums_are_exact(radius: int) -> None:
    generator = torch.Generator().manual_seed(6)
    points = torch.randint(-radius, radius + 1, (700, 5), generator=generator)
    points[:, 0] = radius
    found = example_sum._exact_sum(points.float(), radius)
    assert found.tolist() == points.sum(dim=0).tolist()


@pytest.mark.parametrize(("records", "z"), [(1, 200.0), (1, 30.0), (10, 3.0)])
def test_a_vector_that_is_let_in_keeps_most_of_itself(records: int, z: float) -> None:
    bounds = ExampleBounds(clip_norm=CLIP, records_per_unit=records, noise_multiplier=z)
    most = bounds.radius**2 // 4
    bounds.check_room(most)
    with pytest.raises(ValueError, match=f"at most {most} parameters"):
        bounds.check_room(most + 1)
    vector_V = torch.randn(most, generator=torch.Generator().manual_seed(1))
    unit_V = (vector_V / vector_V.norm()).double()
    given = [3 * CLIP * vector_V.unsqueeze(0)]
    (total_V,) = example_sum._sums_of_parts(given, torch.tensor([True]), bounds)
    assert 0.75 < float(total_V @ unit_V) * bounds.grid / CLIP <= 1
