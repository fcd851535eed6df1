"""Faults planted in DP-CGAN: each must be seen by a detector, and none in the real code.

Statistical detectors state their false-alarm probability, at most 1e-7 each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.accounting.cost import event_cost
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms import dp_cgan
from curator.mechanisms.dp_cgan import DpCgan, DpCganSpec, TrainedCritic, dp_critic_shape
from curator.mechanisms.shard_networks import onehot
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import example_sum
from curator.sanitizer.lattice import LATTICE_VARIANCE
from curator.state import asking
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise, SeededNoise
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
SPACE = small_facts().space
Z, CLIP, UPDATES = 1.1, 0.01, 3
PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 16,
    "expected_batch_size": 6.0,
    "num_samples": 6,
    "num_fakes": 3,
    "clip_norm": CLIP,
    "noise_multiplier": Z,
    "max_size": 12,
    "max_records_per_unit": 1,
    "critic": "mlp",
    "critic_width": 6,
    "critic_seed": 1,
    "critic_steps": UPDATES,
    "critic_learning_rate": 0.05,
}
SAMPLES = Samples(images_ND=torch.linspace(-1, 1, 24).reshape(6, 4), labels_N=torch.arange(6) % 3)


def current(name: str) -> Any:
    """Return what the mechanism calls by this name now, a mutant perhaps."""
    return getattr(dp_cgan, name)


def mechanism() -> DpCgan:
    return DpCgan(DpCganSpec(**PARAMETERS), SPACE)


def records(kept: np.ndarray) -> PrivateRecords:
    levels = np.random.default_rng(4).integers(0, 17, (12, 1, 2, 2), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels[kept], labels=(np.arange(12) % 3)[kept]), 12)


def samples_of(kept: np.ndarray, noise: NoiseSource) -> Iterator[Private[RecordBatch]]:
    return asking.private_batches(mechanism(), records(kept), noise)


def stepped(kept: np.ndarray, noise: NoiseSource) -> tuple[TrainedCritic, Tensor]:
    subject = mechanism()
    state, release = subject.gradient(subject.start(samples_of(kept, noise)), SAMPLES, noise)
    (block,) = release.blocks
    assert isinstance(block, FloatBlock)
    assert block.values.shape == SAMPLES.images_ND.shape
    return state, block.values


class Spied:
    """Every noised sum that was made, and what it was made of."""

    def __init__(self, patch: Patch) -> None:
        self.sums: list[Tensor] = []
        inner = current("release_example_sum")

        def noting(*arguments: Any, **named: Any) -> Any:
            release = inner(*arguments, **named)
            block = release.blocks[0]
            assert isinstance(block, LatticeBlock)
            self.sums.append(block.integers)
            return release

        patch.setattr(dp_cgan, "release_example_sum", noting)


def sums_with(kept: np.ndarray, noise: NoiseSource) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        spied = Spied(patch)
        stepped(kept, noise)
        return spied.sums


def whole() -> np.ndarray:
    return np.arange(12)


def one_record_moves_the_first_sum_by_its_bound() -> None:
    """All-zero words take every record, in an order that a removed last record leaves as it is."""
    full = sums_with(whole(), NoNoise())[0]
    for removed in range(12):
        rest = np.delete(whole(), removed)
        moved = (full - sums_with(rest, NoNoise())[0]).square().sum()
        assert int(moved) * Z**2 <= LATTICE_VARIANCE * (1 + 1e-9)


def the_answer_is_a_function_of_the_noised_sums() -> None:
    """Hold the released sums fixed and change every record: nothing else may tell."""
    kept: list[Release] = []
    with pytest.MonkeyPatch.context() as patch:
        inner = current("release_example_sum")

        def noting(*arguments: Any, **named: Any) -> Release:
            kept.append(inner(*arguments, **named))
            return kept[-1]

        patch.setattr(dp_cgan, "release_example_sum", noting)
        first, answer = stepped(whole(), SeededNoise(1))
    with pytest.MonkeyPatch.context() as patch:
        again = iter(kept)

        def replayed(sealed: Any, vectors: Any, **named: Any) -> Release:
            inner(sealed, vectors, **named)  # all is computed as ever
            return next(again)

        patch.setattr(dp_cgan, "release_example_sum", replayed)
        second, other = stepped(np.arange(5), SeededNoise(2))
    assert torch.equal(answer, other)
    for name, value in mechanism().pack(first).items():
        assert torch.equal(value, mechanism().pack(second)[name])


def each_sum_has_noise_of_its_own() -> None:
    """Independent draws agree in a coordinate with probability below 1e-5, in all never."""
    empty = np.arange(0)
    sums = sums_with(empty, SeededNoise(3))
    assert len(sums) == UPDATES
    for number, one in enumerate(sums):
        for other in sums[:number]:
            assert not torch.equal(one, other)


def noise_is_the_bound_times_the_multiplier() -> None:
    """About 11,700 draws; false alarm below 1e-7 (5.4 standard errors of a deviation)."""
    draws = [
        one.double() for seed in range(40) for one in sums_with(np.arange(0), SeededNoise(seed))
    ]
    together = torch.cat(draws) * (CLIP / example_radius())
    assert len(together) > 11_000
    assert abs(float(together.std()) / (Z * CLIP) - 1) < 5.4 / (2 * len(together)) ** 0.5


def example_radius() -> int:
    """Return floor(s / z), by hand."""
    return int(LATTICE_VARIANCE**0.5 / Z)


def each_sum_has_a_fresh_sample() -> None:
    """Three draws of twelve records at rate 1/2 are one subset with probability below 1e-7."""
    seen: list[tuple[int, ...]] = []

    def noting(sealed: Private[RecordBatch], vectors: Any, **named: Any) -> Any:
        batch = sealed.unseal()
        rows = batch.levels_MD[batch.mask_M].tolist()
        seen.append(tuple(sorted(hash(tuple(row)) for row in rows)))
        return inner(sealed, vectors, **named)

    with pytest.MonkeyPatch.context() as patch:
        inner = current("release_example_sum")
        patch.setattr(dp_cgan, "release_example_sum", noting)
        for seed in range(4):
            stepped(whole(), SeededNoise(100 + seed))
    assert len(seen) == 4 * UPDATES
    assert any(len(set(seen[i : i + UPDATES])) > 1 for i in range(0, len(seen), UPDATES))


def every_update_is_charged() -> None:
    subject = mechanism()
    one = SampledGaussianEvent(sampling_rate=subject.spec.rate, noise_multiplier=Z)
    charged, least = event_cost(subject.step_event()), event_cost(one) * UPDATES
    assert all(
        a is None or (b is not None and a >= b)
        for a, b in zip(charged.units, least.units, strict=True)
    )


def fakes_are_labelled_by_the_analyst() -> None:
    seen: list[Any] = []

    def noting(shape: Any, vector: Tensor, examples: Any) -> Any:
        if not examples.are_records:
            seen.append(examples)
        return inner(shape, vector, examples)

    with pytest.MonkeyPatch.context() as patch:
        inner = current("example_slopes")
        patch.setattr(dp_cgan, "example_slopes", noting)
        stepped(whole(), SeededNoise(5))
    given = torch.cat([examples.onehot_NL.argmax(dim=1) for examples in seen])
    assert given.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]


DETECTORS = [
    the_answer_is_a_function_of_the_noised_sums,
    each_sum_has_noise_of_its_own,
    each_sum_has_a_fresh_sample,
    every_update_is_charged,
    fakes_are_labelled_by_the_analyst,
    one_record_moves_the_first_sum_by_its_bound,
    noise_is_the_bound_times_the_multiplier,
]


def a_score_that_is_not_noised(patch: Patch) -> None:
    """The mean score of the records of an update is added to the answer."""
    told: list[Tensor] = []
    inner, answered = current("example_slopes"), DpCgan.gradient

    def noting(shape: Any, vector: Tensor, examples: Any) -> Any:
        parts = inner(shape, vector, examples)
        if examples.are_records:
            told.append(parts[-2].abs().mean())
        return parts

    def telling(self: DpCgan, state: Any, samples: Samples, noise: Any) -> Any:
        after, release = answered(self, state, samples, noise)
        (block,) = release.blocks
        assert isinstance(block, FloatBlock)
        return after, replace(release, blocks=(FloatBlock(values=block.values + told[-1]),))

    patch.setattr(dp_cgan, "example_slopes", noting)
    patch.setattr(DpCgan, "gradient", telling)


def fakes_with_the_labels_of_records(patch: Patch) -> None:
    """As published: generated rows are conditioned on the labels of the private batch."""
    labels: list[Tensor] = []
    inner, updated = current("release_example_sum"), DpCgan._updated

    def noting(sealed: Private[RecordBatch], vectors: Any, **named: Any) -> Any:
        labels.append(sealed.unseal().labels_M)
        return inner(sealed, vectors, **named)

    def conditioned(self: DpCgan, critic: Any, release: Release, generated: Any) -> Any:
        rows = len(generated.images_ND)
        return updated(
            self, critic, release, replace(generated, onehot_NL=onehot(labels[-1][:rows], SPACE))
        )

    patch.setattr(dp_cgan, "release_example_sum", noting)
    patch.setattr(DpCgan, "_updated", conditioned)


def noise_that_is_used_again(patch: Patch) -> None:
    kept: dict[int, Tensor] = {}

    def reused(device: torch.device, num_values: int, noise: NoiseSource) -> Tensor:
        del device
        return kept.setdefault(id(noise), noise.discrete_gaussian(num_values))

    patch.setattr(example_sum, "_noise_on", reused)


def no_noise(patch: Patch) -> None:
    patch.setattr(example_sum, "_noise_on", lambda _, count, __: torch.zeros(count).long())


def half_the_noise(patch: Patch) -> None:
    patch.setattr(
        example_sum, "_noise_on", lambda _, count, noise: noise.discrete_gaussian(count) // 2
    )


def no_clipping(patch: Patch) -> None:
    patch.setattr(example_sum, "clip_factors", lambda parts, _: torch.ones(len(parts[0])))
    patch.setattr(example_sum, "certified", lambda parts, _: torch.ones(len(parts[0])) > 0)


def each_layer_clipped_apart(patch: Patch) -> None:
    """As published: every tensor of weights has a ball of its own."""
    factors, points = example_sum.clip_factors, example_sum._sums_of_parts

    def apart(parts: Any, kept_m: Tensor, bounds: Any) -> list[Tensor]:
        return [points([part], kept_m, bounds)[0] for part in parts]

    patch.setattr(example_sum, "clip_factors", factors)
    patch.setattr(example_sum, "_sums_of_parts", apart)


def one_sample_for_all_updates(patch: Patch) -> None:
    def stuck(subject: Any, given: PrivateRecords, noise: Any) -> Iterator[Any]:
        one = given.poisson_batch(subject.spec.rate, subject.spec.capacity, noise)
        while True:
            yield one

    patch.setattr(asking, "private_batches", stuck)


def one_update_charged_for_all(patch: Patch) -> None:
    inner: Any = DpCgan.step_event
    patch.setattr(DpCgan, "step_event", lambda self: replace(inner(self), num_releases=1))


def a_mean_over_the_realised_batch(patch: Patch) -> None:
    """Divide by the private number of records instead of the public expectation."""
    sizes: list[int] = []
    inner, updated = current("release_example_sum"), DpCgan._updated

    def noting(sealed: Private[RecordBatch], vectors: Any, **named: Any) -> Any:
        sizes.append(int(sealed.unseal().mask_M.sum()))
        return inner(sealed, vectors, **named)

    def averaged(self: DpCgan, critic: Any, release: Release, generated: Any) -> Any:
        other = DpCgan(
            self.spec.model_copy(update={"expected_batch_size": sizes[-1] + 1e-3}), SPACE
        )
        return updated(other, critic, release, generated)

    patch.setattr(dp_cgan, "release_example_sum", noting)
    patch.setattr(DpCgan, "_updated", averaged)


def images_seen_by_a_critic_without_noise(patch: Patch) -> None:
    """Answer under a critic that saw the last sample as it is."""
    answered = current("image_slopes")
    kept: list[Tensor] = []
    inner = example_sum._sum_of_points

    def noting(*arguments: Any) -> Tensor:
        kept.append(inner(*arguments))
        return kept[-1]

    def leaning(shape: Any, vector: Tensor, images: Tensor, onehot: Tensor) -> Any:
        return answered(shape, vector - 1e-6 * kept[-1], images, onehot)

    patch.setattr(example_sum, "_sum_of_points", noting)
    patch.setattr(dp_cgan, "image_slopes", leaning)


MUTANTS = [
    a_score_that_is_not_noised,
    fakes_with_the_labels_of_records,
    noise_that_is_used_again,
    no_noise,
    half_the_noise,
    no_clipping,
    each_layer_clipped_apart,
    one_sample_for_all_updates,
    one_update_charged_for_all,
    a_mean_over_the_realised_batch,
    images_seen_by_a_critic_without_noise,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS)


def test_the_sizes_are_those_of_the_tests() -> None:
    assert dp_critic_shape(mechanism().spec, SPACE).num_parameters == 96
