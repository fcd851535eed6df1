"""Faults planted in averaged critics: each must be seen by a detector, and none in the real code.

Statistical detectors state their false-alarm probability, at most 1e-7 each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences import critic_training
from curator.divergences.adam import Ensemble
from curator.errors import RunClosed
from curator.mechanisms import gs_wgan_mean, shards
from curator.mechanisms.gs_wgan_mean import GsWganMean, GsWganMeanSpec
from curator.mechanisms.shard_networks import NetworkState, ShardNetworks
from curator.privacy.batches import Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import averaged
from curator.sanitizer.entropy import OsEntropy
from curator.service import find_run
from curator.service.answer_step import release_gradient
from curator.service.find_run import resume_run
from tests.fakes.curator import ALICE, CRITICS, memory_ledger, opened, service, step_request
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise
from tests.statistical.catching import both_ways, shards_that_overlap

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
SPACE = small_facts().space
K, B, CLIP, Z = 3, 4, 0.5, 1.1
SAMPLES = Samples(images_ND=torch.zeros(B, 4), labels_N=torch.arange(B) % 3)


class PlantedError(RuntimeError):
    """What fails inside a private computation."""


def mechanism() -> GsWganMean:
    changes = {"num_critics": K, "noise_multiplier": Z, "clip_norm": CLIP, "critic_steps": 3}
    return GsWganMean(GsWganMeanSpec(**(CRITICS | changes)), SPACE)


def images(kept: np.ndarray) -> PrivateRecords:
    levels = np.random.default_rng(4).integers(0, 17, (12, 1, 2, 2), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels[kept], labels=(np.arange(12) % 3)[kept]), 12)


def after_two_steps(kept: np.ndarray) -> NetworkState:
    subject = mechanism()
    state: NetworkState = subject.start(images(kept).batches(5))
    for _ in range(2):
        state, _ = subject.gradient(state, SAMPLES, NoNoise())
    return state


def lattice(release: Release) -> LatticeBlock:
    assert len(release.blocks) == 1
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block


def mean_of(parts: Callable[[], Any], noise: Any = None) -> LatticeBlock:
    release = averaged.release_critic_mean(
        parts,
        num_critics=K,
        shape=(B, 4),
        clip_norm=CLIP,
        noise_multiplier=Z,
        noise=noise or NoNoise(),
    )
    return lattice(release)


def one_unit_moves_one_critic() -> None:
    whole = after_two_steps(np.arange(12)).ensemble.critics
    for removed in range(12):
        rest = after_two_steps(np.delete(np.arange(12), removed)).ensemble.critics
        moved = {
            k for name in whole for k in range(K) if not torch.equal(whole[name][k], rest[name][k])
        }
        assert len(moved) <= 1


def one_critic_moves_the_average_by_its_bound() -> None:
    """In units of the average: 2 C sqrt(B) / K, which is what noise is compared with."""
    for scale in (0.3, 1.0, 1e8):
        ends = []
        for sign in (1.0, -1.0):
            given = torch.zeros(K, B, 4, dtype=torch.float64)
            given[1] = sign * scale
            block = mean_of(lambda given=given: [given])  # type: ignore[misc]
            ends.append(block.integers.double() * block.grid)
        assert torch.linalg.vector_norm(ends[0] - ends[1]) <= 2 * CLIP * B**0.5 / K * (1 + 1e-9)


def noise_is_the_bound_times_the_multiplier() -> None:
    """24,000 draws; false alarm below 1e-7 (5.4 standard errors of a standard deviation)."""
    release = averaged.release_critic_mean(
        lambda: [torch.zeros(K, 60, 400)],
        num_critics=K,
        shape=(60, 400),
        clip_norm=CLIP,
        noise_multiplier=Z,
        noise=OsEntropy(),
    )
    block = lattice(release)
    std = float((block.integers.double() * block.grid).std())
    assert abs(std / (Z * 2 * CLIP * 60**0.5 / K) - 1) < 5.4 / (2 * 24_000) ** 0.5


def what_fails_is_zero() -> None:
    def failing() -> Iterator[Tensor]:
        yield torch.ones(1, B, 4)
        raise PlantedError

    assert mean_of(failing).integers.count_nonzero() == 0
    assert mean_of(lambda: [torch.full((K, B, 4), torch.nan)]).integers.count_nonzero() == 0


def the_charge_is_of_a_release_without_sampling() -> None:
    assert mechanism().step_event() == GaussianEvent(noise_multiplier=Z)


def nothing_but_noise_is_drawn_in_secret() -> None:
    class OnlyNoise(NoNoise):
        def uniform_words(self, num_words: int) -> Tensor:
            raise AssertionError

    subject = mechanism()
    state = subject.start(images(np.arange(12)).batches(5))
    lattice(subject.gradient(state, SAMPLES, OnlyNoise())[1])


def a_lost_state_is_not_made_again() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run = opened(first, "gs-wgan-mean", num_steps=100)
    release_gradient(first, ALICE, step_request(run.run_id, 1)).result(10)
    second = service(ledger, holder="second")
    try:
        resume_run(second.runs, ALICE, run.run_id)
    except RunClosed:
        return
    raise AssertionError


DETECTORS = [
    one_critic_moves_the_average_by_its_bound,
    noise_is_the_bound_times_the_multiplier,
    what_fails_is_zero,
    the_charge_is_of_a_release_without_sampling,
    nothing_but_noise_is_drawn_in_secret,
    a_lost_state_is_not_made_again,
    one_unit_moves_one_critic,
]


def shards_by_position(patch: Patch) -> None:
    patch.setattr(shards, "_shards_of_units", lambda batch, k: batch.units_M % k)


def critics_that_are_averaged(patch: Patch) -> None:
    real = critic_training.update

    def federated(*arguments: Any) -> Ensemble:
        after = real(*arguments)
        mixed = {name: v.mean(dim=0, keepdim=True) + 0 * v for name, v in after.critics.items()}
        return replace(after, critics=mixed)

    patch.setattr(gs_wgan_mean, "placed_update", federated)


def records_normalised_over_all_critics(patch: Patch) -> None:
    real = ShardNetworks.minibatch

    def normalised(self: ShardNetworks, *arguments: Any) -> Any:
        batch = real(self, *arguments)
        records = batch.records_KRD
        return replace(batch, records_KRD=(records - records.mean()) / records.std())

    patch.setattr(ShardNetworks, "minibatch", normalised)


def half_the_sensitivity(patch: Patch) -> None:
    real = averaged.fine_radius
    patch.setattr(averaged, "fine_radius", lambda z: 2 * real(z))


def one_image_instead_of_all(patch: Patch) -> None:
    """Clip each image to C on a grid of C over the radius: together they are sqrt(B) longer."""
    real = averaged._lattice_points

    def longer(values: Tensor, clip_norm: float, radius: int) -> Tensor:
        return real(values, clip_norm, radius) * int(B**0.5)

    patch.setattr(averaged, "_lattice_points", longer)


def no_clipping(patch: Patch) -> None:
    patch.setattr(averaged, "clip_images", lambda values, _: values.clamp(-1e3, 1e3))
    patch.setattr(averaged, "_certified", lambda values, _: [True] * len(values))


def nan_passes_the_clip(patch: Patch) -> None:
    patch.setattr(averaged, "clip_images", lambda values, _: values.nan_to_num(1e-3))


def coarse_noise_on_the_fine_lattice(patch: Patch) -> None:
    patch.setattr(averaged, "fine_noise", lambda noise, count: noise.discrete_gaussian(count))


def an_abort_that_is_not_noised(patch: Patch) -> None:
    def unguarded(compute: Any, shape: Any, clip_norm: float, radius: int) -> Tensor:
        return sum(averaged._lattice_points(p, clip_norm, radius).sum(dim=0) for p in compute())  # type: ignore[return-value]

    patch.setattr(averaged, "_sum_of_points", unguarded)


def amplified_though_every_critic_answers(patch: Patch) -> None:
    def cheaper(self: GsWganMean) -> SampledGaussianEvent:
        rate = SamplingRate.at_least(1 / self.spec.num_critics)
        return SampledGaussianEvent(sampling_rate=rate, noise_multiplier=self.spec.noise_multiplier)

    patch.setattr(GsWganMean, "step_event", cheaper)


def a_state_keyed_on_a_secret_draw(patch: Patch) -> None:
    real = GsWganMean.gradient

    def keyed(self: GsWganMean, state: NetworkState, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        k = int(noise.uniform_words(1)) % self.spec.num_critics
        critics = {name: value.clone() for name, value in state.ensemble.critics.items()}
        for name, value in after.ensemble.critics.items():
            critics[name][k] = value[k]
        ensemble = replace(after.ensemble, critics=critics)
        return NetworkState(shards=state.shards, ensemble=ensemble), release

    patch.setattr(GsWganMean, "gradient", keyed)


def a_score_that_is_not_noised(patch: Patch) -> None:
    real = GsWganMean.gradient

    def telling(self: GsWganMean, state: NetworkState, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        score = after.ensemble.critics["score"].mean().reshape(1, 1)
        return after, replace(release, blocks=(*release.blocks, FloatBlock(values=score)))

    patch.setattr(GsWganMean, "gradient", telling)


def a_state_made_again_after_a_restart(patch: Patch) -> None:
    def adopting(runs: Any, state: Any) -> Any:
        return find_run.make_live(runs, runs.ledger.adopt_run(state.run_id, runs.holder))

    patch.setattr(find_run, "_adopt", adopting)


MUTANTS = [
    shards_by_position,
    shards_that_overlap,
    critics_that_are_averaged,
    records_normalised_over_all_critics,
    half_the_sensitivity,
    one_image_instead_of_all,
    no_clipping,
    nan_passes_the_clip,
    coarse_noise_on_the_fine_lattice,
    an_abort_that_is_not_noised,
    amplified_though_every_critic_answers,
    a_state_keyed_on_a_secret_draw,
    a_score_that_is_not_noised,
    a_state_made_again_after_a_restart,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS, PlantedError)
