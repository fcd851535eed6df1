"""Faults planted where one critic of many answers: each must be seen by a detector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.accounting.cost import event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms import gs_wgan_decoupled
from curator.mechanisms.gs_wgan_decoupled import GsWganDecoupled, GsWganDecoupledSpec
from curator.mechanisms.gs_wgan_mean import GsWganMeanSpec
from curator.mechanisms.gs_wgan_round_robin import GsWganRoundRobin
from curator.mechanisms.one_critic import OneCritic
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.batches import Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import averaged
from curator.sanitizer.averaged import fine_radius
from curator.state.asking import state_step
from tests.fakes.curator import CRITICS
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise
from tests.statistical.catching import both_ways, shards_that_overlap

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
K, B, Z = 4, 4, 1.1
SPACE = small_facts().space
SHARED: dict[str, Any] = CRITICS | {
    "num_critics": K,
    "noise_multiplier": Z,
    "critic_learning_rate": 0.3,
    "shard_capacity": 12,
}


class Drawn(NoNoise):
    """No noise, and the same secret draw each time."""

    def __init__(self, index: int) -> None:
        self._index = index

    def uniform_words(self, num_words: int) -> Tensor:
        word = (self._index << 64) // K + 1
        return torch.full((num_words,), word - 2**64 if word >= 2**63 else word)


def decoupled() -> GsWganDecoupled:
    return GsWganDecoupled(GsWganDecoupledSpec(**SHARED, critics_per_step=1), SPACE)


def images(kept: np.ndarray) -> PrivateRecords:
    levels = np.random.default_rng(4).integers(0, 17, (12, 1, 2, 2), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels[kept], labels=(np.arange(12) % 3)[kept]), 12)


def run(subject: Any, index: int, kept: Any = None) -> tuple[NetworkState, list[LatticeBlock]]:
    kept = np.arange(12) if kept is None else kept
    state, found = subject.start(images(kept).batches(5)), []
    for step in range(1, 6):
        rows = torch.full((B, 4), step / 10)
        samples = Samples(images_ND=rows, labels_N=torch.arange(B) % 3)
        state, release = state_step(subject, state, step, samples, Drawn(index))
        assert len(release.blocks) == 1
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        found.append(block)
    return state, found


def differing(first: NetworkState, second: NetworkState) -> set[int]:
    pairs = [(first.ensemble.critics, second.ensemble.critics)]
    pairs.append((first.ensemble.means, second.ensemble.means))
    return {
        k
        for one, other in pairs
        for name in one
        for k in range(K)
        if not torch.equal(one[name][k], other[name][k])
    }


def a_state_does_not_depend_on_the_draws() -> None:
    first, _ = run(decoupled(), 0)
    for index in range(1, K):
        assert not differing(first, run(decoupled(), index)[0])


def one_unit_moves_one_critic() -> None:
    whole, _ = run(decoupled(), 0)
    for removed in range(12):
        rest, _ = run(decoupled(), 0, np.delete(np.arange(12), removed))
        assert len(differing(whole, rest)) <= 1


def answers_are_two_radii_apart_at_most() -> None:
    for index in range(K):
        for block in run(decoupled(), index)[1]:
            assert int(block.integers.square().sum()) <= fine_radius(Z) ** 2
            assert block.grid * fine_radius(Z) == pytest.approx(SHARED["clip_norm"] * B**0.5)


def the_charge_is_of_one_hidden_critic_of_all() -> None:
    assert decoupled().step_event() == HiddenPartEvent(num_parts=K, noise_multiplier=Z)


def every_critic_is_drawn() -> None:
    blocks = [run(decoupled(), index)[1][0].integers for index in range(K)]
    assert len({tuple(block.flatten().tolist()) for block in blocks}) == K


def rounds_are_charged() -> None:
    subject = GsWganRoundRobin(GsWganMeanSpec(**SHARED), SPACE)
    whole = run(subject, 0)[1]
    used = event_cost(GaussianEvent(noise_multiplier=Z))
    for removed in range(12):
        moved = [
            step
            for step, (a, b) in enumerate(
                zip(whole, run(subject, 0, np.delete(np.arange(12), removed))[1], strict=True)
            )
            if not torch.equal(a.integers, b.integers)
        ]
        charged = event_cost(subject.setup_event()) + event_cost(subject.step_event()) * 5
        for paid, cost in zip(charged.units, (used * len(moved)).units, strict=True):
            assert paid is not None
            assert cost is not None
            assert paid >= cost


DETECTORS = [
    a_state_does_not_depend_on_the_draws,
    answers_are_two_radii_apart_at_most,
    the_charge_is_of_one_hidden_critic_of_all,
    every_critic_is_drawn,
    one_unit_moves_one_critic,
    rounds_are_charged,
]


def the_critic_that_answers_learns(patch: Patch) -> None:
    real = OneCritic.step

    def keyed(self: OneCritic, *arguments: Any, index: int, first: int) -> Any:
        return real(self, *arguments, index=index, first=index)

    patch.setattr(OneCritic, "step", keyed)


def who_answered_is_told(patch: Patch) -> None:
    real = OneCritic.step

    def telling(self: OneCritic, *arguments: Any, index: int, first: int) -> Any:
        after, release = real(self, *arguments, index=index, first=first)
        told = FloatBlock(values=torch.tensor([[float(index)]]))
        return after, Release(blocks=(*release.blocks, told))

    patch.setattr(OneCritic, "step", telling)


def charged_as_a_poisson_sample(patch: Patch) -> None:
    def cheaper(self: GsWganDecoupled) -> SampledGaussianEvent:
        rate = SamplingRate.at_least(1 / self.spec.num_critics)
        return SampledGaussianEvent(sampling_rate=rate, noise_multiplier=self.noise_multiplier)

    patch.setattr(GsWganDecoupled, "step_event", cheaper)


def charged_for_more_critics_than_there_are(patch: Patch) -> None:
    def cheaper(self: GsWganDecoupled) -> HiddenPartEvent:
        return HiddenPartEvent(num_parts=2 * K, noise_multiplier=self.noise_multiplier)

    patch.setattr(GsWganDecoupled, "step_event", cheaper)


def one_image_instead_of_all(patch: Patch) -> None:
    real = averaged._lattice_points

    def longer(values: Tensor, clip_norm: float, radius: int) -> Tensor:
        return real(values, clip_norm, radius) * int(B**0.5)

    patch.setattr(averaged, "_lattice_points", longer)


def a_draw_that_prefers_the_first(patch: Patch) -> None:
    patch.setattr(gs_wgan_decoupled, "secret_index", lambda *_: 0)


def a_round_without_its_first_release(patch: Patch) -> None:
    patch.setattr(GsWganRoundRobin, "setup_event", lambda _: NoEvent())


def a_turn_that_never_passes(patch: Patch) -> None:
    patch.setattr(GsWganRoundRobin, "numbered", lambda _, state, step: replace(state, num_steps=0))


MUTANTS = [
    the_critic_that_answers_learns,
    shards_that_overlap,
    who_answered_is_told,
    charged_as_a_poisson_sample,
    charged_for_more_critics_than_there_are,
    one_image_instead_of_all,
    a_draw_that_prefers_the_first,
    a_round_without_its_first_release,
    a_turn_that_never_passes,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS)
