"""Faults planted where records choose: each must be seen by a detector, and none in the real code.

No detector measures chance: noise is absent or repeated.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from audit.same_randomness import OperationLog
from curator.divergences.feature_nets import feature_rows
from curator.errors import MalformedRequest
from curator.mechanisms import record_choices
from curator.mechanisms.record_choices import ChoiceMechanism
from curator.mechanisms.score import Score
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import choices
from curator.sanitizer.averaged import FINE_STD, fine_radius
from curator.sanitizer.post_process import release_values
from tests.fakes.choices import BOUNDS, agreeing, asking, batch, counted, score, votes, without
from tests.fakes.noise import SeededNoise
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
Z: float = BOUNDS["noise_multiplier"]
UNITS = [0, 1, 1, 2, 2, 2]
MOST = 3


def subjects() -> list[ChoiceMechanism]:
    return [
        score(max_records_per_unit=MOST),
        votes(max_records_per_unit=MOST, images_per_candidate=2),
        votes(max_records_per_unit=MOST, features="scattering"),
    ]


def one_unit_moves_the_counts_by_what_is_charged_at_most() -> None:
    for of, units in product(subjects(), (UNITS, [0, 0, 0, 0, 1, 1])):
        inside = replace(batch(units), labels_M=torch.zeros(8, dtype=torch.int64))
        base = counted(of, agreeing(of), inside)
        for unit in set(units):
            moved = (base - counted(of, agreeing(of), without(inside, unit))).double()
            assert float(moved.norm()) * of.bounds.scale <= FINE_STD / Z


def a_record_chooses_the_same_in_any_company() -> None:
    for of in subjects():
        for seed in range(4):
            lone, other = batch([0], seed=seed), batch([0, 1, 2, 3, 4, 5, 6, 7], seed=seed + 9)
            crowd = replace(
                other,
                levels_MD=torch.cat((lone.levels_MD[:1], other.levels_MD[1:])),
                labels_M=torch.cat((lone.labels_M[:1], other.labels_M[1:])),
            )
            rest, alone = (counted(of, asking(of), one) for one in (without(crowd, 0), lone))
            assert torch.equal(counted(of, asking(of), crowd), rest + alone)


def the_first_of_the_nearest_of_its_class_gets_a_record_s_vote() -> None:
    of, inside = votes(), batch(list(range(8)))
    assert (
        counted(of, agreeing(of), inside).tolist()
        == [int((inside.labels_M == label).sum()) for label in range(3)] + [0] * 4
    )


def the_noise_is_what_is_charged() -> None:
    for of in subjects():
        _, release = of.gradient(of.start([]), asking(of), SeededNoise(2))
        values = release_values(release) / MOST
        fine = SeededNoise(2).discrete_gaussian(2 * values.numel())
        drawn = 128 * fine[: values.numel()] + fine[values.numel() :]
        torch.testing.assert_close(values, drawn.double() / FINE_STD * Z, rtol=1e-2, atol=0)


def the_answer_is_one_block_of_counts() -> None:
    for of in subjects():
        state = of.start([Private(batch(UNITS))])
        _, release = of.gradient(state, asking(of), SeededNoise(3))
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        assert block.integers.shape == (of.num_options,)


def every_data_set_takes_the_same_operations() -> None:
    for of in subjects():
        logs = []
        for units in ([], [0], list(range(8))):
            state, log = of.start([Private(batch(units))]), OperationLog()
            with log:
                of.gradient(state, asking(of), SeededNoise(5))
            logs.append(log.operations)
        assert logs[0] == logs[1] == logs[2]


def what_was_not_declared_is_refused_by_the_check() -> None:
    for of in subjects():
        try:
            of.check_samples(asking(of, images_ND=torch.full((3, 1), torch.inf)))
        except MalformedRequest:
            continue
        msg = "the check let it through"
        raise AssertionError(msg)


DETECTORS = [
    what_was_not_declared_is_refused_by_the_check,
    the_answer_is_one_block_of_counts,
    the_noise_is_what_is_charged,
    the_first_of_the_nearest_of_its_class_gets_a_record_s_vote,
    a_record_chooses_the_same_in_any_company,
    every_data_set_takes_the_same_operations,
    one_unit_moves_the_counts_by_what_is_charged_at_most,
]


def half_the_noise(patch: Patch) -> None:
    real = choices.ChoiceBounds

    def halved(**fields: Any) -> Any:
        return real(**(fields | {"noise_multiplier": fields["noise_multiplier"] / 2}))

    patch.setattr(record_choices, "ChoiceBounds", halved)


def noise_of_the_coarse_lattice(patch: Patch) -> None:
    patch.setattr(choices, "fine_noise", lambda noise, count: noise.discrete_gaussian(count))


def groups_that_are_not_bounded(patch: Patch) -> None:
    patch.setattr(choices, "_fits", lambda units, _: units >= 0)


def noise_for_one_record_of_a_group(patch: Patch) -> None:
    patch.setattr(
        choices.ChoiceBounds, "scale", property(lambda one: 2 * fine_radius(one.noise_multiplier))
    )


def padding_that_counts(patch: Patch) -> None:
    patch.setattr(choices, "_fits", lambda units, _: torch.ones(len(units)) > 0)


def scores_against_the_batch_s_mean(patch: Patch) -> None:
    real = feature_rows

    def centred(*given: Any) -> Tensor:
        rows = real(*given)
        return rows - rows.mean(dim=0)

    patch.setattr("curator.mechanisms.score.feature_rows", centred)


def records_that_are_there_only(patch: Patch) -> None:
    real = choices.choices_of

    def fewer(choose: Any, rows: Any) -> Tensor:
        there = rows[0].sum(dim=1) > 0
        made = torch.full((len(there),), -1)
        if bool(there.any()):
            made[there] = real(choose, [one[there] for one in rows])
        return made

    patch.setattr(record_choices, "choices_of", fewer)


def the_number_of_records_beside_the_counts(patch: Patch) -> None:
    real = ChoiceMechanism.gradient

    def leaking(self: ChoiceMechanism, state: Any, asked: Any, noise: Any) -> Any:
        following, release = real(self, state, asked, noise)
        size = FloatBlock(values=torch.ones(1, 1) * len(state.batches))
        return following, Release(blocks=(*release.blocks, size))

    patch.setattr(ChoiceMechanism, "gradient", leaking)


def votes_for_the_nearest_of_any_class(patch: Patch) -> None:
    real = record_choices.first_of_least
    patch.setattr(
        "curator.mechanisms.votes.first_of_least",
        lambda far: real(torch.where(far > 2.0**60, -1e9, far)),  # of another class
    )


def a_vote_for_every_candidate_as_near(patch: Patch) -> None:
    def last(far: Tensor) -> Tensor:
        return far.shape[1] - 1 - record_choices.first_of_least(far.flip(1))

    patch.setattr("curator.mechanisms.votes.first_of_least", last)


def networks_that_are_not_checked(patch: Patch) -> None:
    patch.setattr(Score, "check_samples", lambda *_: None)


MUTANTS = [
    half_the_noise,
    noise_of_the_coarse_lattice,
    groups_that_are_not_bounded,
    noise_for_one_record_of_a_group,
    padding_that_counts,
    scores_against_the_batch_s_mean,
    votes_for_the_nearest_of_any_class,
    a_vote_for_every_candidate_as_near,
    records_that_are_there_only,
    the_number_of_records_beside_the_counts,
    networks_that_are_not_checked,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(
    DETECTORS,
    MUTANTS,
    ValueError,  # ValueError: another number of blocks
)
