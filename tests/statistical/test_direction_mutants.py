"""Faults planted in G-PATE: each must be seen by a detector, and none in the real code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.accounting.events.gaussian import GaussianEvent
from curator.mechanisms import g_pate, shards
from curator.mechanisms.g_pate import GPate, GPateSpec
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.batches import Samples
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import averaged, votes
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.votes import Ballot
from tests.fakes.noise import NoNoise
from tests.statistical.catching import both_ways, shards_that_overlap
from tests.statistical.test_teacher_mutants import PARAMETERS, SAMPLES, SPACE, B, K, Z, images

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
TEACHERS: dict[str, Any] = {
    name: value
    for name, value in PARAMETERS.items()
    if not name.startswith("student")
    and name not in {"num_labelled", "labels", "reach", "pool_steps", "residual"}
} | {"num_projections": 2, "projection_seed": 1, "clip_norm": 0.5}
KINDS: list[dict[str, Any]] = [
    {"aggregation": "votes", "num_bins": 3},
    {"aggregation": "mean", "num_bins": 0},
]


def mechanism(kind: dict[str, Any]) -> GPate:
    return GPate(GPateSpec(**(TEACHERS | kind)), SPACE)


class Watch:
    """Sees what each teacher said, and what the sanitizer released of it."""

    def __init__(self) -> None:
        self.said: list[Tensor] = []
        self.released: list[Tensor] = []

    def of(self, real: Any) -> Any:
        def watched(compute: Any, **named: Any) -> Release:
            parts = list(compute())
            self.said.append(torch.cat(parts))
            release: Release = real(lambda: parts, **named)
            (block,) = release.blocks
            assert isinstance(block, LatticeBlock)
            self.released.append(block.integers)
            return release

        return watched


def two_steps(kind: dict[str, Any], kept: np.ndarray) -> tuple[NetworkState, Watch]:
    """Return the state after two steps, and what was said and released in them."""
    watch = Watch()
    with Patch.context() as patch:
        for name in ("release_votes", "release_critic_mean"):
            patch.setattr(g_pate, name, watch.of(vars(g_pate)[name]))
        subject = mechanism(kind)
        state = subject.start(images(kept).batches(5))
        for _ in range(2):
            state, _ = subject.gradient(state, SAMPLES, NoNoise())
    return state, watch


def one_unit_moves_one_teacher_and_the_release_by_its_bound() -> None:
    for kind in KINDS:
        whole, watched = two_steps(kind, np.arange(12))
        before = whole.ensemble.critics
        for removed in range(12):
            rest, others = two_steps(kind, np.delete(np.arange(12), removed))
            after = rest.ensemble.critics
            moved = {
                k
                for name in before
                for k in range(K)
                if not torch.equal(before[name][k], after[name][k])
            }
            assert len(moved) <= 1
            for one, other in zip(watched.said, others.said, strict=True):
                assert int((one != other).flatten(1).any(dim=1).sum()) <= 1
            for one, other in zip(watched.released, others.released, strict=True):
                assert int((one - other).square().sum()) * Z**2 <= FINE_STD**2


def all_questions_are_charged_together() -> None:
    """One teacher turns around in every question; noise of z is worth that distance."""
    for kind in KINDS:
        subject = mechanism(kind)
        assert subject.step_event() == GaussianEvent(noise_multiplier=Z)
        ends = []
        for side in (-9.0, 9.0):
            said = torch.zeros(K, B, 2)
            said[1] = side
            with Patch.context() as patch:
                patch.setattr(g_pate, "projected_directions", lambda *_, s=said: s)
                ends.append(two_steps(kind, np.arange(12))[1].released[0])
        assert 0 < int((ends[0] - ends[1]).square().sum()) * Z**2 <= FINE_STD**2


def the_answer_follows_from_what_was_released() -> None:
    for kind in KINDS:
        size = (8, 3) if kind["num_bins"] else (4, 2)
        given = torch.arange(size[0] * size[1]).reshape(size) * 1_000_003 % 4_099

        def fed(compute: Any, *_: Any, given: Tensor = given) -> Tensor:
            list(compute())
            return given

        with Patch.context() as patch:
            patch.setattr(votes, "_counts", fed)
            patch.setattr(averaged, "_sum_of_points", fed)
            found = []
            for kept in (np.arange(12), np.arange(3)):
                subject = mechanism(kind)
                state = subject.start(images(kept).batches(5))
                found.append(subject.gradient(state, SAMPLES, NoNoise())[1].blocks)
        assert [len(blocks) for blocks in found] == [1, 1]
        (one,), (other,) = found
        assert isinstance(one, FloatBlock)
        assert isinstance(other, FloatBlock)
        assert torch.equal(one.values, other.values)


DETECTORS = [
    the_answer_follows_from_what_was_released,
    all_questions_are_charged_together,
    one_unit_moves_one_teacher_and_the_release_by_its_bound,
]


def shards_by_position(patch: Patch) -> None:
    patch.setattr(shards, "_shards_of_units", lambda batch, k: batch.units_M % k)


def one_vote_is_charged_for_all(patch: Patch) -> None:
    patch.setattr(Ballot, "squared_sensitivity", property(lambda _: 2))


def a_moved_vote_counts_once(patch: Patch) -> None:
    """As if a voter that changes its mind moved one bin only."""
    patch.setattr(Ballot, "squared_sensitivity", property(lambda one: one.num_questions))


def half_the_sensitivity_of_an_average(patch: Patch) -> None:
    real = averaged.fine_radius
    patch.setattr(averaged, "fine_radius", lambda z: 2 * real(z))


def directions_beside_those_of_others(patch: Patch) -> None:
    """Each teacher says how it differs from the average teacher, in units of their spread."""
    real = vars(g_pate)["projected_directions"]

    def centred(*arguments: Any) -> Tensor:
        said: Tensor = real(*arguments)
        return (said - said.mean(dim=0)) / said.std(dim=0) * 9

    patch.setattr(g_pate, "projected_directions", centred)


def projections_made_of_records(patch: Patch) -> None:
    real = GPate.gradient

    def informed(self: GPate, state: NetworkState, samples: Samples, noise: Any) -> Any:
        levels = state.shards.levels_KPD.float().flatten(0, 1)
        own = torch.linalg.svd(levels, full_matrices=False).Vh[: self.spec.num_projections].T
        patch.setattr(GPate, "_projection", lambda *_: own)
        return real(self, state, samples, noise)

    patch.setattr(GPate, "gradient", informed)


def a_majority_that_is_not_noised(patch: Patch) -> None:
    """Noise is drawn and charged for, and the true counts say which bin wins."""
    true: list[Tensor] = []

    def watched(compute: Any, **named: Any) -> Release:
        parts = list(compute())
        true.append(votes._tally(torch.cat(parts), named["ballot"].num_options).double())
        return votes.release_votes(lambda: parts, **named)

    real = vars(g_pate)["middles_of_winners"]
    patch.setattr(g_pate, "release_votes", watched)
    patch.setattr(g_pate, "middles_of_winners", lambda _, reach: real(true[-1], reach))


def a_loss_that_is_not_noised(patch: Patch) -> None:
    real = GPate.gradient

    def telling(self: GPate, state: NetworkState, samples: Samples, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        score = after.ensemble.critics["score"].mean().reshape(1, 1)
        return after, replace(release, blocks=(*release.blocks, FloatBlock(values=score)))

    patch.setattr(GPate, "gradient", telling)


MUTANTS = [
    shards_by_position,
    shards_that_overlap,
    one_vote_is_charged_for_all,
    a_moved_vote_counts_once,
    half_the_sensitivity_of_an_average,
    directions_beside_those_of_others,
    projections_made_of_records,
    a_majority_that_is_not_noised,
    a_loss_that_is_not_noised,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS)
