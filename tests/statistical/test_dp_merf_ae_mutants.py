"""Faults planted in DP-MERF-AE: each must be seen by a detector, and none in the real code.

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
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms import dp_merf_ae
from curator.mechanisms.dp_merf_ae import DpMerfAe, DpMerfAeSpec
from curator.privacy.batches import RecordBatch
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import example_sum, summed
from curator.sanitizer.lattice import LATTICE_VARIANCE
from curator.state import asking
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise, SeededNoise
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
SPACE = small_facts().space
Z, Z_LAST, CLIP, UPDATES, UNITS = 1.1, 0.9, 0.01, 3, 12
PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 16,
    "expected_batch_size": 6.0,
    "max_size": UNITS,
    "max_records_per_unit": 1,
    "autoencoder": "mlp",
    "hidden_width": 6,
    "code_width": 3,
    "autoencoder_seed": 1,
    "clip_norm": CLIP,
    "training_noise_multiplier": Z,
    "training_steps": UPDATES,
    "training_learning_rate": 0.05,
    "averaging": 0.5,
    "num_features": 60,
    "bandwidths": [0.5],
    "feature_seed": 1,
    "noise_multiplier": Z_LAST,
    "count_scale": 0.3,
}


def current(name: str) -> Any:
    """Return what the mechanism calls by this name now, a mutant perhaps."""
    return getattr(dp_merf_ae, name)


def mechanism() -> DpMerfAe:
    return DpMerfAe(DpMerfAeSpec(**PARAMETERS), SPACE)


def records(kept: np.ndarray) -> PrivateRecords:
    levels = np.random.default_rng(4).integers(0, 17, (UNITS, 1, 2, 2), dtype=np.uint8)
    labels = np.arange(UNITS) % 3
    return PrivateRecords(LabelledImages(levels=levels[kept], labels=labels[kept]), UNITS)


def whole() -> np.ndarray:
    return np.arange(UNITS)


class Watched:
    """One opening of a run: every noised sum, the embedding, and what was released."""

    def __init__(self, kept: np.ndarray, noise: NoiseSource) -> None:
        self.sums: list[Tensor] = []
        self.samples: list[tuple[int, ...]] = []
        summing = current("release_example_sum")
        subject = mechanism()

        def noting(sealed: Private[RecordBatch], vectors: Any, **named: Any) -> Release:
            batch = sealed.unseal()
            rows = batch.levels_MD[batch.mask_M].tolist()
            self.samples.append(tuple(sorted(hash(tuple(row)) for row in rows)))
            release: Release = summing(sealed, vectors, **named)
            self.sums.append(integers(release))
            return release

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dp_merf_ae, "release_example_sum", noting)
            given = asking.private_batches(subject, records(kept), noise)
            self.release = subject.setup(given, noise)
        weights, embedding = self.release.blocks
        assert isinstance(weights, FloatBlock)
        assert isinstance(embedding, LatticeBlock)
        self.weights, self.embedding = weights.values, embedding.integers


def integers(release: Release) -> Tensor:
    block = release.blocks[0]
    assert isinstance(block, LatticeBlock)
    return block.integers


def one_record_moves_the_first_sum_by_its_bound() -> None:
    """All-zero words take every record, in an order that a removed last record leaves as it is."""
    full = Watched(whole(), NoNoise()).sums[0]
    for removed in range(UNITS):
        other = Watched(np.delete(whole(), removed), NoNoise()).sums[0]
        assert int((full - other).square().sum()) * Z**2 <= LATTICE_VARIANCE * (1 + 1e-9)


def with_weights_of(first: Watched, kept: np.ndarray) -> Watched:
    """Open a run over other records, with the sums of the training that the first released."""
    again = iter(first.sums)
    with pytest.MonkeyPatch.context() as patch:
        inner = current("release_example_sum")

        def replayed(sealed: Any, vectors: Any, **named: Any) -> Release:
            release: Release = inner(sealed, vectors, **named)  # all is computed as ever
            block = release.blocks[0]
            assert isinstance(block, LatticeBlock)
            return replace(release, blocks=(replace(block, integers=next(again)),))

        patch.setattr(dp_merf_ae, "release_example_sum", replayed)
        return Watched(kept, NoNoise())


def one_record_moves_the_embedding_by_its_bound() -> None:
    """The sums of the training are held fixed, as they were released before."""
    full = Watched(whole(), NoNoise())
    for removed in range(UNITS):
        other = with_weights_of(full, np.delete(whole(), removed))
        moved = (full.embedding - other.embedding).square().sum()
        assert int(moved) * Z_LAST**2 <= LATTICE_VARIANCE * (1 + 1e-9)


def the_weights_are_a_function_of_the_noised_sums() -> None:
    first = Watched(whole(), SeededNoise(1))
    assert torch.equal(first.weights, with_weights_of(first, np.arange(5)).weights)


def noise_of_the_training_is_the_bound_times_the_multiplier() -> None:
    """About 11,600 draws; false alarm below 1e-7 (5.4 standard errors of a deviation)."""
    draws = [one for seed in range(50) for one in Watched(np.arange(0), SeededNoise(seed)).sums]
    together = torch.cat(draws).double() * (CLIP / int(LATTICE_VARIANCE**0.5 / Z))
    assert len(together) > 11_000
    assert abs(float(together.std()) / (Z * CLIP) - 1) < 5.4 / (2 * len(together)) ** 0.5


def noise_of_the_embedding_is_its_multiplier() -> None:
    """About 11,000 draws; false alarm below 1e-7."""
    draws = [
        Watched(np.arange(0), SeededNoise(100 + seed)).embedding.flatten() for seed in range(60)
    ]
    together = torch.cat(draws).double() / int(LATTICE_VARIANCE**0.5 / Z_LAST)
    assert len(together) > 10_000
    assert abs(float(together.std()) / Z_LAST - 1) < 5.4 / (2 * len(together)) ** 0.5


def each_release_has_noise_of_its_own() -> None:
    """Independent draws agree in a coordinate with probability below 1e-5, in all never."""
    watched = Watched(np.arange(0), SeededNoise(3))
    assert len(watched.sums) == UPDATES
    length = min(len(watched.sums[0]), watched.embedding.numel())
    drawn = [one.flatten()[:length] for one in (*watched.sums, watched.embedding)]
    for number, one in enumerate(drawn):
        for other in drawn[:number]:
            assert not torch.equal(one, other)


def each_sum_has_a_fresh_sample() -> None:
    """Three draws of twelve records at rate 1/2 are one subset with probability below 1e-7."""
    seen = [Watched(whole(), SeededNoise(200 + seed)).samples for seed in range(4)]
    assert all(len(samples) == UPDATES for samples in seen)
    assert any(len(set(samples)) > 1 for samples in seen)


def everything_is_charged() -> None:
    rate = mechanism().spec.rate
    one = SampledGaussianEvent(sampling_rate=rate, noise_multiplier=Z)
    least = event_cost(one) * UPDATES + event_cost(GaussianEvent(noise_multiplier=Z_LAST))
    charged = event_cost(mechanism().setup_event())
    assert all(
        a is None or (b is not None and a >= b)
        for a, b in zip(charged.units, least.units, strict=True)
    )


DETECTORS = [
    the_weights_are_a_function_of_the_noised_sums,
    each_release_has_noise_of_its_own,
    each_sum_has_a_fresh_sample,
    everything_is_charged,
    one_record_moves_the_first_sum_by_its_bound,
    one_record_moves_the_embedding_by_its_bound,
    noise_of_the_training_is_the_bound_times_the_multiplier,
    noise_of_the_embedding_is_its_multiplier,
]


def no_clipping(patch: Patch) -> None:
    patch.setattr(example_sum, "clip_factors", lambda parts, _: torch.ones(len(parts[0])))
    patch.setattr(example_sum, "certified", lambda parts, _: torch.ones(len(parts[0])) > 0)


def each_layer_clipped_apart(patch: Patch) -> None:
    points = example_sum._sums_of_parts

    def apart(parts: Any, kept_m: Tensor, bounds: Any) -> list[Tensor]:
        return [points([part], kept_m, bounds)[0] for part in parts]

    patch.setattr(example_sum, "_sums_of_parts", apart)


def no_noise_in_the_training(patch: Patch) -> None:
    patch.setattr(example_sum, "_noise_on", lambda _, count, __: torch.zeros(count).long())


def half_the_noise_in_the_training(patch: Patch) -> None:
    patch.setattr(
        example_sum, "_noise_on", lambda _, count, noise: noise.discrete_gaussian(count) // 2
    )


def half_the_noise_in_the_embedding(patch: Patch) -> None:
    inner = summed.release_class_sums
    patch.setattr(
        dp_merf_ae,
        "release_class_sums",
        lambda *given, **named: inner(
            *given, **(named | {"noise_multiplier": named["noise_multiplier"] / 2})
        ),
    )


def noise_that_is_used_again(patch: Patch) -> None:
    kept: dict[int, Tensor] = {}

    def reused(device: torch.device, num_values: int, noise: NoiseSource) -> Tensor:
        del device
        return kept.setdefault(id(noise), noise.discrete_gaussian(num_values))

    patch.setattr(example_sum, "_noise_on", reused)


def _exact_weights(patch: Patch, size: float) -> None:
    """Let weights of which no noise hides the records stand for the released ones."""
    exact: list[Tensor] = []
    points, trained = example_sum._sum_of_points, DpMerfAe._trained

    def noting(*given: Any) -> Tensor:
        exact.append(points(*given))
        return exact[-1]

    def leaning(self: DpMerfAe, drawn: Any, noise: Any) -> Release:
        release = trained(self, drawn, noise)
        (block,) = release.blocks
        assert isinstance(block, FloatBlock)
        flat = block.values.flatten().clone()
        flat[: len(exact[-1])] += size * exact[-1]
        return replace(release, blocks=(FloatBlock(values=flat.reshape(block.values.shape)),))

    patch.setattr(example_sum, "_sum_of_points", noting)
    patch.setattr(DpMerfAe, "_trained", leaning)


def an_embedding_of_an_encoder_without_noise(patch: Patch) -> None:
    """The encoder saw the last sample as it is, and neither it nor its codes are noised for it."""
    _exact_weights(patch, 1e-6)


def an_encoder_that_only_the_embedding_knows(patch: Patch) -> None:
    """Codes are those of un-noised weights, and the noised ones are handed out."""
    exact: list[Tensor] = []
    points, features = example_sum._sum_of_points, DpMerfAe._features

    def noting(*given: Any) -> Tensor:
        exact.append(points(*given))
        return exact[-1]

    def secretly(self: DpMerfAe, weights_V: Tensor) -> Any:
        return features(self, weights_V + 1e-6 * exact[-1])

    patch.setattr(example_sum, "_sum_of_points", noting)
    patch.setattr(DpMerfAe, "_features", secretly)


def features_longer_than_one(patch: Patch) -> None:
    inner = summed.release_class_sums

    def longer(batches: Any, rows: Any, **named: Any) -> Release:
        return inner(batches, lambda levels: 1.4 * rows(levels), **named)

    patch.setattr(dp_merf_ae, "release_class_sums", longer)
    patch.setattr(summed, "_certified_rows", _uncertified)
    patch.setattr(summed, "_certified_units", lambda rows, _, count, __: torch.ones(count).bool())


def _uncertified(levels_MD: Tensor, feature_rows: Any, num_features: int, radius: int) -> Tensor:
    del num_features, radius
    rows: Tensor = feature_rows(levels_MD)
    return rows


def one_sample_for_all_updates(patch: Patch) -> None:
    def stuck(subject: DpMerfAe, given: PrivateRecords, noise: NoiseSource) -> Iterator[Any]:
        one = given.poisson_batch(subject.spec.rate, subject.spec.capacity, noise)
        yield from [one] * subject.spec.training_steps
        yield from given.batches(16)

    patch.setattr(asking, "private_batches", stuck)


def the_embedding_alone_charged(patch: Patch) -> None:
    patch.setattr(DpMerfAe, "setup_event", lambda self: GaussianEvent(noise_multiplier=Z_LAST))


def the_training_alone_charged(patch: Patch) -> None:
    inner: Any = DpMerfAe.setup_event
    patch.setattr(DpMerfAe, "setup_event", lambda self: inner(self).in_turn[0])


def one_update_charged_for_all(patch: Patch) -> None:
    inner: Any = DpMerfAe.setup_event

    def once(self: DpMerfAe) -> Any:
        event = inner(self)
        sums, last = event.in_turn
        return replace(event, in_turn=(replace(sums, num_releases=1), last))

    patch.setattr(DpMerfAe, "setup_event", once)


MUTANTS = [
    no_clipping,
    each_layer_clipped_apart,
    no_noise_in_the_training,
    half_the_noise_in_the_training,
    half_the_noise_in_the_embedding,
    noise_that_is_used_again,
    an_embedding_of_an_encoder_without_noise,
    an_encoder_that_only_the_embedding_knows,
    features_longer_than_one,
    one_sample_for_all_updates,
    the_embedding_alone_charged,
    the_training_alone_charged,
    one_update_charged_for_all,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS)
