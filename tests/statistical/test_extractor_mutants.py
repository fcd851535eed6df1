"""Faults planted in adversarial DP-Sinkhorn: each must be seen by a detector, none in real code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.divergences import feature_extractors
from curator.divergences.adam import Ensemble
from curator.mechanisms import adversarial_dp_sinkhorn, shards
from curator.mechanisms.adversarial_dp_sinkhorn import (
    AdversarialDpSinkhorn,
    AdversarialDpSinkhornSpec,
)
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.batches import Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import averaged
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.post_process import append_public_rows
from tests.fakes.noise import NoNoise
from tests.statistical.catching import both_ways, shards_that_overlap
from tests.statistical.test_teacher_mutants import SAMPLES, SPACE, K, Z, images

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
PARAMETERS: dict[str, Any] = {
    "num_extractors": K,
    "shard_capacity": 4,
    "num_samples": 3,
    "num_debias": 1,
    "clip_norm": 0.5,
    "noise_multiplier": Z,
    "reg": 0.5,
    "label_scale": 1.0,
    "feature_scale": 2.0,
    "extractor": "mlp",
    "extractor_width": 3,
    "extractor_seed": 1,
    "extractor_steps": 2,
    "extractor_learning_rate": 0.05,
}


def mechanism() -> AdversarialDpSinkhorn:
    return AdversarialDpSinkhorn(AdversarialDpSinkhornSpec(**PARAMETERS), SPACE)


def two_steps(kept: np.ndarray) -> tuple[NetworkState, list[Tensor], list[Tensor]]:
    """Return the state after two steps, what extractors said and what was released."""
    said, released = [], []
    real = vars(adversarial_dp_sinkhorn)["release_critic_mean"]

    def watched(compute: Any, **named: Any) -> Release:
        parts = list(compute())
        said.append(torch.cat(parts))
        release: Release = real(lambda: parts, **named)
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        released.append(block.integers)
        return release

    with Patch.context() as patch:
        patch.setattr(adversarial_dp_sinkhorn, "release_critic_mean", watched)
        subject = mechanism()
        state: NetworkState = subject.start(images(kept).batches(5))
        for _ in range(2):
            state, _ = subject.gradient(state, SAMPLES, NoNoise())
    return state, said, released


def one_unit_moves_one_extractor_and_the_release_by_its_bound() -> None:
    whole, said, released = two_steps(np.arange(12))
    for removed in range(12):
        rest, others, moved = two_steps(np.delete(np.arange(12), removed))
        changed = {
            k
            for name, value in whole.ensemble.critics.items()
            for k in range(K)
            if not torch.equal(value[k], rest.ensemble.critics[name][k])
        }
        assert len(changed) <= 1
        for one, other in zip(said, others, strict=True):
            assert int((one != other).flatten(1).any(dim=1).sum()) <= 1
        for one, other in zip(released, moved, strict=True):
            assert int((one - other).square().sum()) * Z**2 <= FINE_STD**2


def all_rows_are_one_vector() -> None:
    """An extractor that turns around in every row moves the release by its bound at most."""
    ends = []
    for sign in (9.0, -9.0):
        said = torch.full((K, 4, 4), sign)
        said[1:] = 0
        with Patch.context() as patch:
            patch.setattr(
                adversarial_dp_sinkhorn, "transport_gradients", lambda *_, s=said: iter([s])
            )
            ends.append(two_steps(np.arange(12))[2][0])
    assert 0 < int((ends[0] - ends[1]).square().sum()) * Z**2 <= FINE_STD**2


def the_charge_is_of_a_release_without_sampling() -> None:
    assert mechanism().step_event() == GaussianEvent(noise_multiplier=Z)


def nothing_but_noise_is_drawn_in_secret() -> None:
    class OnlyNoise(NoNoise):
        def uniform_words(self, num_words: int) -> Tensor:
            raise AssertionError

    subject = mechanism()
    subject.gradient(subject.start(images(np.arange(12)).batches(5)), SAMPLES, OnlyNoise())


def the_answer_follows_from_what_was_released() -> None:
    given = torch.arange(16).reshape(1, 16) * 1_000_003 % 4_099
    with Patch.context() as patch:
        patch.setattr(averaged, "_sum_of_points", lambda compute, *_: (list(compute()), given)[1])
        found = []
        for kept in (np.arange(12), np.arange(3)):
            subject = mechanism()
            state = subject.start(images(kept).batches(5))
            found.append(subject.gradient(state, SAMPLES, NoNoise())[1].blocks)
    assert [len(blocks) for blocks in found] == [1, 1]
    (one,), (other,) = found
    assert isinstance(one, FloatBlock)
    assert isinstance(other, FloatBlock)
    assert torch.equal(one.values, other.values)


DETECTORS = [
    all_rows_are_one_vector,
    the_charge_is_of_a_release_without_sampling,
    nothing_but_noise_is_drawn_in_secret,
    the_answer_follows_from_what_was_released,
    one_unit_moves_one_extractor_and_the_release_by_its_bound,
]


def shards_by_position(patch: Patch) -> None:
    patch.setattr(shards, "_shards_of_units", lambda batch, k: batch.units_M % k)


def one_extractor_for_all(patch: Patch) -> None:
    """As in the released code, whose one extractor learns from every record."""
    real = feature_extractors.ascend

    def shared(*arguments: Any) -> Ensemble:
        after = real(*arguments)
        mixed = {n: v.mean(dim=0, keepdim=True) + 0 * v for n, v in after.critics.items()}
        return replace(after, critics=mixed)

    patch.setattr(adversarial_dp_sinkhorn, "ascend", shared)


def features_normalised_over_all_extractors(patch: Patch) -> None:
    """Batch statistics of records and images, of everyone."""
    real = AdversarialDpSinkhorn._own_records

    def normalised(self: AdversarialDpSinkhorn, *arguments: Any) -> Any:
        own = real(self, *arguments)
        pixels = own.pixels_KMD
        return replace(own, pixels_KMD=(pixels - pixels.mean()) / pixels.std())

    patch.setattr(AdversarialDpSinkhorn, "_own_records", normalised)


def rows_of_the_self_term_without_noise(patch: Patch) -> None:
    """As for pixels, where these rows are public; under a learnt cost they are not."""
    real = AdversarialDpSinkhorn.gradient

    def public(self: AdversarialDpSinkhorn, state: Any, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        data = (
            self._own_records(after.shards),
            feature_extractors.Generated(
                images_ND=samples.images_ND, labels_N=samples.labels_N, num_samples=3
            ),
        )
        parts = feature_extractors.transport_gradients(
            self.networks.shape, self._cost, after.ensemble.critics, data
        )
        return after, append_public_rows(release, torch.cat(list(parts)).mean(dim=0)[3:])

    patch.setattr(AdversarialDpSinkhorn, "gradient", public)


def half_the_sensitivity(patch: Patch) -> None:
    real = averaged.fine_radius
    patch.setattr(averaged, "fine_radius", lambda z: 2 * real(z))


def each_row_clipped_alone(patch: Patch) -> None:
    """To C each, with noise for one of them: together they are sqrt(N) longer."""

    def longer(values: Tensor, clip_norm: float, radius: int) -> Tensor:
        rows = values.reshape(len(values), 4, -1)
        lengths = rows.norm(dim=2, keepdim=True).clamp(min=clip_norm)
        points: Tensor = (rows / lengths * radius).trunc().to(torch.int64)
        return points.reshape(values.shape)

    patch.setattr(averaged, "_lattice_points", longer)


def amplified_as_published(patch: Patch) -> None:
    def cheaper(self: AdversarialDpSinkhorn) -> SampledGaussianEvent:
        rate = SamplingRate.at_least(1 / self.spec.num_extractors)
        return SampledGaussianEvent(sampling_rate=rate, noise_multiplier=self.spec.noise_multiplier)

    patch.setattr(AdversarialDpSinkhorn, "step_event", cheaper)


def an_extractor_drawn_in_secret(patch: Patch) -> None:
    real = AdversarialDpSinkhorn.gradient

    def keyed(self: AdversarialDpSinkhorn, state: Any, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        k = int(noise.uniform_words(1)) % K
        critics = {name: value.clone() for name, value in state.ensemble.critics.items()}
        for name, value in after.ensemble.critics.items():
            critics[name][k] = value[k]
        return replace(after, ensemble=replace(after.ensemble, critics=critics)), release

    patch.setattr(AdversarialDpSinkhorn, "gradient", keyed)


def a_loss_that_is_not_noised(patch: Patch) -> None:
    real = AdversarialDpSinkhorn.gradient

    def telling(self: AdversarialDpSinkhorn, state: Any, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        return after, append_public_rows(
            release, after.ensemble.critics["weight0"].mean().reshape(1, 1)
        )

    patch.setattr(AdversarialDpSinkhorn, "gradient", telling)


MUTANTS = [
    shards_by_position,
    shards_that_overlap,
    one_extractor_for_all,
    features_normalised_over_all_extractors,
    rows_of_the_self_term_without_noise,
    half_the_sensitivity,
    each_row_clipped_alone,
    amplified_as_published,
    an_extractor_drawn_in_secret,
    a_loss_that_is_not_noised,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS)
