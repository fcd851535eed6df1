"""Faults planted in PATE-GAN: each must be seen by a detector, and none in the real code.

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

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms import pate_gan, shards
from curator.mechanisms.pate_gan import PateGan, PateGanSpec, PateGanState
from curator.mechanisms.pate_gan_student import Student
from curator.mechanisms.shard_networks import NetworkState, ShardNetworks
from curator.privacy.batches import Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.release import FloatBlock, LatticeBlock
from curator.sanitizer import votes
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.votes import Ballot
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise
from tests.statistical.catching import both_ways, shards_that_overlap

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
SPACE = small_facts().space
K, B, Z = 3, 4, 1.1
PARAMETERS: dict[str, Any] = {
    "num_teachers": K,
    "shard_capacity": 4,
    "num_samples": B,
    "noise_multiplier": Z,
    "teacher": "mlp",
    "teacher_width": 2,
    "teacher_seed": 1,
    "teacher_batch": 2,
    "teacher_steps": 3,
    "warm_start_steps": 1,
    "teacher_learning_rate": 0.01,
    "gradient_penalty": 1.0,
    "num_labelled": B,
    "labels": "absolute",
    "reach": 0.3,
    "student": "mlp",
    "student_width": 2,
    "student_seed": 1,
    "student_batch": 4,
    "student_steps": 2,
    "student_learning_rate": 0.1,
    "pool_steps": 2,
    "residual": 0.1,
}
SAMPLES = Samples(images_ND=torch.zeros(B, 4), labels_N=torch.arange(B) % 3)
BALLOT = Ballot(num_voters=K, num_questions=B, num_options=1)


class PlantedError(RuntimeError):
    """What fails inside a private computation."""


def mechanism() -> PateGan:
    return PateGan(PateGanSpec(**PARAMETERS), SPACE)


def images(kept: np.ndarray) -> PrivateRecords:
    levels = np.random.default_rng(4).integers(0, 17, (12, 1, 2, 2), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels[kept], labels=(np.arange(12) % 3)[kept]), 12)


def after_two_steps(kept: np.ndarray) -> PateGanState:
    subject = mechanism()
    state: PateGanState = subject.start(images(kept).batches(5))
    for _ in range(2):
        state, _ = subject.gradient(state, SAMPLES, NoNoise())
    return state


def counts_of(answers: Any, ballot: Ballot = BALLOT, noise: Any = None) -> LatticeBlock:
    release = votes.release_votes(
        answers, ballot=ballot, noise_multiplier=Z, noise=noise or NoNoise()
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block


def one_unit_moves_one_teacher() -> None:
    whole = after_two_steps(np.arange(12)).taught.ensemble.critics
    for removed in range(12):
        rest = after_two_steps(np.delete(np.arange(12), removed)).taught.ensemble.critics
        moved = {
            k for name in whole for k in range(K) if not torch.equal(whole[name][k], rest[name][k])
        }
        assert len(moved) <= 1


def one_voter_moves_the_counts_by_its_bound() -> None:
    """Yes to all against silence, and against numbers that are no option."""
    for answers in (0, -1, 1, 7):
        ends = []
        for own in (0, answers):
            given = torch.zeros((K, B), dtype=torch.int64)
            given[1] = own
            ends.append(counts_of(lambda given=given: [given]).integers)
        assert int((ends[0] - ends[1]).square().sum()) * Z**2 <= FINE_STD**2


def noise_is_the_bound_times_the_multiplier() -> None:
    """24,000 draws; false alarm below 1e-7 (5.4 standard errors of a standard deviation)."""
    ballot = Ballot(num_voters=1, num_questions=24_000, num_options=1)
    silence = torch.full((1, 24_000), -1)
    block = counts_of(lambda: [silence], ballot, OsEntropy())
    std = float((block.integers.double() * block.grid).std())
    assert abs(std / (Z * 24_000**0.5) - 1) < 5.4 / (2 * 24_000) ** 0.5 + 1e-3


def what_fails_is_zero() -> None:
    def failing() -> Iterator[Tensor]:
        yield torch.zeros((1, B), dtype=torch.int64)
        raise PlantedError

    assert counts_of(failing).integers.count_nonzero() == 0
    short = torch.zeros((K - 1, B), dtype=torch.int64)
    assert counts_of(lambda: [short]).integers.count_nonzero() == 0


def the_charge_is_of_a_release_without_sampling() -> None:
    assert mechanism().step_event() == GaussianEvent(noise_multiplier=Z)


def nothing_but_noise_is_drawn_in_secret() -> None:
    class OnlyNoise(NoNoise):
        def uniform_words(self, num_words: int) -> Tensor:
            raise AssertionError

    subject = mechanism()
    state = subject.start(images(np.arange(12)).batches(5))
    subject.gradient(state, SAMPLES, OnlyNoise())


def answers_follow_from_the_counts() -> None:
    """With the same released counts, records make no difference to answers or to the student."""
    given = torch.tensor([[2], [0], [1], [3]])
    with Patch.context() as patch:
        patch.setattr(votes, "_counts", lambda compute, _: (list(compute()), given)[1])
        found = []
        for kept in (np.arange(12), np.arange(3)):
            subject = mechanism()
            state = subject.start(images(kept).batches(5))
            state, first = subject.gradient(state, SAMPLES, NoNoise())
            state, second = subject.gradient(state, SAMPLES, NoNoise())
            found.append([*first.blocks, *second.blocks])
    assert [len(blocks) for blocks in found] == [2, 2]
    for one, other in zip(*found, strict=True):
        assert isinstance(one, FloatBlock)
        assert isinstance(other, FloatBlock)
        assert torch.equal(one.values, other.values)


DETECTORS = [
    one_voter_moves_the_counts_by_its_bound,
    noise_is_the_bound_times_the_multiplier,
    what_fails_is_zero,
    the_charge_is_of_a_release_without_sampling,
    nothing_but_noise_is_drawn_in_secret,
    answers_follow_from_the_counts,
    one_unit_moves_one_teacher,
]


def shards_by_position(patch: Patch) -> None:
    patch.setattr(shards, "_shards_of_units", lambda batch, k: batch.units_M % k)


def every_teacher_sees_every_record(patch: Patch) -> None:
    """As in a published implementation, whose teachers all train on one partition."""
    real = ShardNetworks.minibatch

    def shared(self: ShardNetworks, *arguments: Any) -> Any:
        lesson = real(self, *arguments)
        return replace(lesson, records_KRD=lesson.records_KRD[-1:].expand_as(lesson.records_KRD))

    patch.setattr(ShardNetworks, "minibatch", shared)


def half_the_noise(patch: Patch) -> None:
    real = votes.count_scale
    patch.setattr(votes, "count_scale", lambda ballot, z: 2 * real(ballot, z))


def one_label_instead_of_all(patch: Patch) -> None:
    patch.setattr(Ballot, "squared_sensitivity", property(lambda _: 1))


def a_voter_counts_as_often_as_it_says(patch: Patch) -> None:
    patch.setattr(votes, "_tally", lambda said, _: (said + 1).sum(dim=0).unsqueeze(1))


def coarse_noise_on_the_fine_lattice(patch: Patch) -> None:
    patch.setattr(votes, "fine_noise", lambda noise, count: noise.discrete_gaussian(count))


def an_abort_that_is_not_noised(patch: Patch) -> None:
    def unguarded(compute: Any, ballot: Ballot) -> Tensor:
        return sum(votes._tally(part, ballot.num_options) for part in compute())  # type: ignore[return-value]

    patch.setattr(votes, "_counts", unguarded)


def amplified_though_every_teacher_votes(patch: Patch) -> None:
    def cheaper(self: PateGan) -> SampledGaussianEvent:
        rate = SamplingRate.at_least(1 / self.spec.num_teachers)
        return SampledGaussianEvent(sampling_rate=rate, noise_multiplier=self.spec.noise_multiplier)

    patch.setattr(PateGan, "step_event", cheaper)


def a_state_keyed_on_a_secret_draw(patch: Patch) -> None:
    real = PateGan.gradient

    def keyed(self: PateGan, state: PateGanState, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        k = int(noise.uniform_words(1)) % self.spec.num_teachers
        critics = {name: value.clone() for name, value in state.taught.ensemble.critics.items()}
        for name, value in after.taught.ensemble.critics.items():
            critics[name][k] = value[k]
        ensemble = replace(after.taught.ensemble, critics=critics)
        taught = NetworkState(shards=state.taught.shards, ensemble=ensemble)
        return replace(after, taught=taught), release

    patch.setattr(PateGan, "gradient", keyed)


def a_student_that_knows_the_true_votes(patch: Patch) -> None:
    """Noise is drawn and charged for, but the student learns the counts without it."""
    study, true = Student.study, []

    def watched(compute: Any, **named: Any) -> Any:
        parts = list(compute())
        true.append((torch.cat(parts) >= 0).sum(dim=0).double().unsqueeze(1))
        return votes.release_votes(lambda: parts, **named)

    patch.setattr(pate_gan, "release_votes", watched)
    patch.setattr(
        Student, "study", lambda self, before, asked, _: study(self, before, asked, true[-1])
    )


def a_student_that_begins_as_a_teacher(patch: Patch) -> None:
    real = PateGan.gradient

    def informed(self: PateGan, state: PateGanState, samples: Samples, noise: Any) -> Any:
        teacher = state.taught.ensemble.critics
        network = dict(state.studied.network.critics)
        network["score"] = teacher["score"][0].clone()
        changed = replace(state.studied, network=replace(state.studied.network, critics=network))
        return real(self, replace(state, studied=changed), samples, noise)

    patch.setattr(PateGan, "gradient", informed)


def a_score_that_is_not_noised(patch: Patch) -> None:
    real = PateGan.gradient

    def telling(self: PateGan, state: PateGanState, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        score = after.taught.ensemble.critics["score"].mean().reshape(1, 1)
        return after, replace(release, blocks=(*release.blocks, FloatBlock(values=score)))

    patch.setattr(PateGan, "gradient", telling)


MUTANTS = [
    shards_by_position,
    shards_that_overlap,
    every_teacher_sees_every_record,
    half_the_noise,
    one_label_instead_of_all,
    a_voter_counts_as_often_as_it_says,
    coarse_noise_on_the_fine_lattice,
    an_abort_that_is_not_noised,
    amplified_though_every_teacher_votes,
    a_state_keyed_on_a_secret_draw,
    a_student_that_knows_the_true_votes,
    a_student_that_begins_as_a_teacher,
    a_score_that_is_not_noised,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS, PlantedError)
