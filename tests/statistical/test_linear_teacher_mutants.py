"""Faults planted in the linear teacher: each must be seen by a detector, and none in the real code.

No detector measures chance: noise is absent or repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from audit.same_randomness import OperationLog
from curator.divergences import linear_softmax
from curator.errors import MalformedRequest
from curator.mechanisms.linear_teacher import LinearTeacher
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import outer
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.post_process import release_values
from tests.fakes.noise import NoNoise, SeededNoise
from tests.fakes.teacher import PARAMETERS, batch, mechanism, network, samples
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

HOME = "curator.mechanisms.linear_teacher"
Patch = pytest.MonkeyPatch
Z: float = PARAMETERS["noise_multiplier"]
UNITS = [0, 1, 1, 2, 2, 2]


def subject() -> LinearTeacher:
    return mechanism(max_records_per_unit=8)


def released(*inside: RecordBatch) -> Tensor:
    of = subject()
    _, release = of.gradient(of.start(map(Private, inside)), samples(of, scale=9.0), NoNoise())
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def without(inside: RecordBatch, unit: int) -> RecordBatch:
    rest = inside.units_M != unit
    return replace(
        inside,
        levels_MD=inside.levels_MD * rest.unsqueeze(1),
        labels_M=inside.labels_M * rest,
        mask_M=inside.mask_M & rest,
        units_M=torch.where(rest, inside.units_M, -1),
    )


def one_unit_moves_the_sum_by_what_is_charged_at_most() -> None:
    for seed in range(6):
        inside = batch(UNITS, seed=seed)
        base = released(inside)
        for unit in range(3):
            moved = (base - released(without(inside, unit))).double()
            assert float(moved.norm()) <= FINE_STD / Z


def a_record_adds_the_same_in_any_company() -> None:
    for seed in range(4):
        lone, other = batch([0], seed=seed), batch([0, 1, 2, 3, 4, 5, 6, 7], seed=seed + 9)
        crowd = replace(
            other,
            levels_MD=torch.cat((lone.levels_MD[:1], other.levels_MD[1:])),
            labels_M=torch.cat((lone.labels_M[:1], other.labels_M[1:])),
        )
        apart = released(crowd) - released(without(crowd, 0)) - released(lone)
        assert int(apart.abs().max()) <= 2  # points: two sums are rounded


def the_noise_is_what_is_charged() -> None:
    of = subject()
    _, release = of.gradient(of.start([]), samples(of), SeededNoise(2))
    values = release_values(release) / 0.4
    fine = SeededNoise(2).discrete_gaussian(2 * values.numel())
    drawn = 128 * fine[: values.numel()] + fine[values.numel() :]
    torch.testing.assert_close(values.flatten(), drawn.double() / FINE_STD * Z, rtol=1e-2, atol=0)


def the_answer_is_one_block_like_the_map() -> None:
    of = subject()
    _, release = of.gradient(of.start([Private(batch(UNITS))]), samples(of), SeededNoise(3))
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    assert block.integers.shape == (3, 8)


def every_data_set_takes_the_same_operations() -> None:
    logs = []
    for units in ([], [0], list(range(8))):
        of, log, inside = subject(), OperationLog(), Private(batch(units))
        with log:
            of.gradient(of.start([inside]), samples(of), SeededNoise(5))
        logs.append(log.operations)
    assert logs[0] == logs[1] == logs[2]


def another_network_gets_other_rows() -> None:
    of, inside = subject(), [Private(batch(UNITS))]
    other = samples(of, weights=save(network(of, seed=8)))
    state, _ = of.gradient(of.start(inside), samples(of), NoNoise())
    after, anew = (of.gradient(one, other, NoNoise())[1] for one in (state, of.start(inside)))
    assert torch.equal(release_values(after), release_values(anew))


def a_bad_map_is_refused_by_the_check() -> None:
    of = subject()
    try:
        of.check_samples(samples(of, images_ND=torch.full((3, 8), torch.inf)))
    except MalformedRequest:
        return
    msg = "the check let it through"
    raise AssertionError(msg)


DETECTORS = [
    a_bad_map_is_refused_by_the_check,
    the_answer_is_one_block_like_the_map,
    the_noise_is_what_is_charged,
    another_network_gets_other_rows,
    a_record_adds_the_same_in_any_company,
    every_data_set_takes_the_same_operations,
    one_unit_moves_the_sum_by_what_is_charged_at_most,
]


def half_the_noise(patch: Patch) -> None:
    real = outer.OuterBounds

    def halved(**fields: Any) -> Any:
        return real(**(fields | {"noise_multiplier": fields["noise_multiplier"] / 2}))

    patch.setattr(f"{HOME}.OuterBounds", halved)


def noise_of_the_coarse_lattice(patch: Patch) -> None:
    patch.setattr(outer, "fine_noise", lambda noise, count: noise.discrete_gaussian(count))


def unclipped_gradients(patch: Patch) -> None:
    real = linear_softmax.residuals

    def unclipped(*arguments: Any, clip: float, radii: tuple[int, int]) -> Tensor:
        return real(*arguments, clip=2.0, radii=(round(radii[0] * 2.0 / clip), radii[1]))

    patch.setattr(linear_softmax, "residuals", unclipped)
    patch.setattr(outer, "_is_certified", lambda rows, _: torch.ones(len(rows), 1) > 0)


def groups_counted_as_their_records(patch: Patch) -> None:
    patch.setattr(
        outer, "_shared", lambda left, units: left.masked_fill((units < 0).unsqueeze(1), 0.0)
    )


def padding_that_counts(patch: Patch) -> None:
    patch.setattr(outer, "_shared", lambda left, _: left)


def rows_divided_by_the_longest_of_the_batch(patch: Patch) -> None:
    def normalised(integers: Tensor, bias: float, radius: int) -> Tensor:
        del bias
        whole = torch.cat((integers, torch.ones_like(integers[:, :1])), dim=1)
        return torch.trunc(whole * (radius / whole.norm(dim=1).max()))

    patch.setattr(linear_softmax, "unit_rows", normalised)


def rows_of_the_first_network_for_ever(patch: Patch) -> None:
    real = LinearTeacher._with_rows

    def kept(self: LinearTeacher, state: Any, asked: Samples) -> Any:
        return state if state.rows else real(self, state, asked)

    patch.setattr(LinearTeacher, "_with_rows", kept)


def records_that_are_there_only(patch: Patch) -> None:
    real = outer.right_rows

    def fewer(levels: Tensor, rows_of: Callable[[Tensor], Tensor], width: int) -> Tensor:
        there = levels.sum(dim=1) > 0
        made = torch.zeros((len(levels), width), dtype=torch.int16)
        if bool(there.any()):
            made[there] = real(levels[there], rows_of, width)
        return made

    patch.setattr(f"{HOME}.right_rows", fewer)


def a_loss_without_noise(patch: Patch) -> None:
    real = LinearTeacher.gradient

    def leaking(self: LinearTeacher, state: Any, asked: Samples, noise: Any) -> Any:
        following, release = real(self, state, asked, noise)
        loss = FloatBlock(values=torch.ones(1, 8) * len(following.rows))
        return following, Release(blocks=(*release.blocks, loss))

    patch.setattr(LinearTeacher, "gradient", leaking)


def maps_that_are_not_checked(patch: Patch) -> None:
    patch.setattr(LinearTeacher, "check_samples", lambda *_: None)


MUTANTS = [
    half_the_noise,
    noise_of_the_coarse_lattice,
    unclipped_gradients,
    groups_counted_as_their_records,
    padding_that_counts,
    rows_divided_by_the_longest_of_the_batch,
    rows_of_the_first_network_for_ever,
    records_that_are_there_only,
    a_loss_without_noise,
    maps_that_are_not_checked,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(
    DETECTORS,
    MUTANTS,
    ValueError,  # ValueError: another number of blocks
)
