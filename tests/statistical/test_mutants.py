"""Faults that were planted in other systems, planted here: each must be seen by a detector.

The detectors pass on the real code (first test) and fail on every mutant (second test).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.binomial import draw_count
from curator.data.sampling import PrivateRecords
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.mechanisms.mean_embedding import MeanEmbedding
from curator.privacy.adjacency import Adjacency
from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import clipped, entropy, lattice, summed
from curator.sanitizer.entropy import OsEntropy
from curator.service import find_run
from tests.statistical import detectors
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
DETECTORS = [
    value
    for name, value in vars(detectors).items()
    if callable(value)
    and getattr(value, "__module__", "") == detectors.__name__
    and name not in {"mechanism", "black_records", "PlantedError"}
]


def half_the_noise(patch: Patch) -> None:
    real = OsEntropy.discrete_gaussian
    patch.setattr(OsEntropy, "discrete_gaussian", lambda self, n: real(self, n) // 2)


def no_clipping(patch: Patch) -> None:
    patch.setattr(clipped, "clip_to_ball", lambda vector, _: vector)
    patch.setattr(clipped, "is_certified", lambda *_: True)


def one_clip_norm_instead_of_two(patch: Patch) -> None:
    real = lattice.lattice_radius
    patch.setattr(clipped, "lattice_radius", lambda z, **_: real(z, sensitivity_in_radii=1))


def batch_size_in_the_shape(patch: Patch) -> None:
    real = PrivateRecords._gather

    def unpadded(self: PrivateRecords, *arguments: Any) -> RecordBatch:
        batch = real(self, *arguments)
        kept = batch.mask_M
        return replace(
            batch,
            levels_MD=batch.levels_MD[kept],
            labels_M=batch.labels_M[kept],
            mask_M=kept[kept],
            units_M=batch.units_M[kept],
        )

    patch.setattr(PrivateRecords, "_gather", unpadded)


def empty_batch_skipped(patch: Patch) -> None:
    real = DpSinkhorn.gradient

    def skipping(
        self: DpSinkhorn, samples: Any, records: Private[RecordBatch], noise: Any
    ) -> Release:
        release = real(self, samples, records, noise)
        if not bool(records.unseal().mask_M.any()):
            first = release.blocks[0]
            assert isinstance(first, LatticeBlock)
            silent = replace(first, integers=first.integers * 0)
            return replace(release, blocks=(silent, *release.blocks[1:]))
        return release

    patch.setattr(DpSinkhorn, "gradient", skipping)


def seeded_noise(patch: Patch) -> None:
    patch.setattr(entropy.os, "urandom", lambda size: bytes(size))  # type: ignore[attr-defined]


def reused_keystream(patch: Patch) -> None:
    kept: dict[int, np.ndarray] = {}
    real = entropy._Keystream.take

    def again(self: Any, count: int) -> np.ndarray:
        return kept.setdefault(count, real(self, count))

    patch.setattr(entropy._Keystream, "take", again)


def float_noise_after_the_lattice(patch: Patch) -> None:
    real = clipped.release_clipped

    def floating(*arguments: Any, **options: Any) -> Release:
        (block,) = real(*arguments, **options).blocks
        assert isinstance(block, LatticeBlock)
        values = (block.integers * block.grid).float() + 1e-3 * torch.randn(block.integers.shape)
        return Release(blocks=(FloatBlock(values=values),))

    patch.setattr("curator.mechanisms.dp_sinkhorn.release_clipped", floating)


def nan_passes_the_clip(patch: Patch) -> None:
    def naive(vector: torch.Tensor, clip_norm: float) -> torch.Tensor:
        norm = torch.linalg.vector_norm(vector)
        return vector * min(1.0, clip_norm / float(norm))

    patch.setattr(clipped, "clip_to_ball", naive)
    patch.setattr(clipped, "is_certified", lambda *_: True)
    patch.setattr(clipped, "truncate", lambda v, g: torch.nan_to_num(v / g, nan=7.0).long())


def a_wrong_adjacency(patch: Patch) -> None:
    patch.setattr(Adjacency, "__str__", lambda _: "replace-one-record")


def epsilon_from_the_wrong_rate(patch: Patch) -> None:
    def cheaper(self: DpSinkhorn) -> SampledGaussianEvent:
        return SampledGaussianEvent(
            sampling_rate=SamplingRate(self.spec.rate.numerator // 2),
            noise_multiplier=self.spec.noise_multiplier,
        )

    patch.setattr(DpSinkhorn, "step_event", cheaper)


def a_sampler_that_takes_more_than_is_charged(patch: Patch) -> None:
    real = draw_count

    def more(units: int, rate: SamplingRate, noise: Any, most: int) -> int:
        return real(units, SamplingRate(min(2**64, rate.numerator * 5 // 4)), noise, most)

    patch.setattr("curator.data.sampling.draw_count", more)


def an_abort_when_one_record_is_sampled(patch: Patch) -> None:
    def unguarded(compute: Any, shape: Any, clip_norm: float, radius: int) -> torch.Tensor:
        vector = clipped.clip_to_ball(compute().to(torch.float64), clip_norm)
        return lattice.truncate(vector, clip_norm / radius)

    patch.setattr(clipped, "_lattice_point", unguarded)


def an_embedding_noised_again_after_a_restart(patch: Patch) -> None:
    real = find_run.make_live

    def renoising(runs: Any, state: Any) -> Any:
        live = real(runs, state)
        if isinstance(live.mechanism, MeanEmbedding) and state.setup_begun:
            live.released = live.mechanism.setup(live.records.batches(512), OsEntropy())
        return live

    patch.setattr(find_run, "make_live", renoising)


def a_group_counted_as_one_record(patch: Patch) -> None:
    real = summed._add_units

    def each_record_alone(sums: Any, rows: Any, keys: Any, radius: int) -> None:
        classes = sums.shape[0]
        real(sums, rows, torch.arange(len(keys)) * classes + keys % classes, radius)

    patch.setattr(summed, "_add_units", each_record_alone)


def sums_noised_for_half_the_sensitivity(patch: Patch) -> None:
    real = lattice.lattice_radius
    patch.setattr(summed, "lattice_radius", lambda z, **_: 2 * real(z, sensitivity_in_radii=1))


MUTANTS = [
    half_the_noise,
    no_clipping,
    one_clip_norm_instead_of_two,
    batch_size_in_the_shape,
    empty_batch_skipped,
    seeded_noise,
    reused_keystream,
    float_noise_after_the_lattice,
    nan_passes_the_clip,
    a_wrong_adjacency,
    epsilon_from_the_wrong_rate,
    a_sampler_that_takes_more_than_is_charged,
    an_abort_when_one_record_is_sampled,
    an_embedding_noised_again_after_a_restart,
    a_group_counted_as_one_record,
    sums_noised_for_half_the_sensitivity,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(
    DETECTORS,
    MUTANTS,
    detectors.PlantedError,  # it came through: an abort that the caller sees
)
