"""Faults planted in DP-SWD on features: each must be seen by a detector, and none in the real code.

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
from curator.divergences.feature_nets import ROW_RADIUS, feature_rows
from curator.errors import MalformedRequest
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import projected
from curator.sanitizer.directions import Directions, draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD
from curator.sanitizer.post_process import release_values
from tests.fakes.features import PARAMETERS, batch, mechanism, records, samples, weights
from tests.fakes.noise import NoNoise, SeededNoise
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

HOME = "curator.mechanisms.dp_swd_features"
STEP = "curator.mechanisms.sliced_step"
Patch = pytest.MonkeyPatch
Z: float = PARAMETERS["noise_multiplier"]


def loud() -> Samples:
    """Weights that make features five to nine times as long as the clip norm."""
    subject = mechanism()
    return samples(subject, weights=save(weights(subject, 0.3)))


def projections(inside: RecordBatch, directions: Directions) -> Tensor:
    (block,) = mechanism().project(loud(), Private(inside), directions, NoNoise()).blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def answer(inside: RecordBatch, seed: int = 3) -> Tensor:
    subject = mechanism()
    return release_values(subject.gradient(samples(subject), Private(inside), SeededNoise(seed)))


def without(inside: RecordBatch, removed: int) -> RecordBatch:
    rest = torch.arange(6) != removed
    return replace(
        inside,
        levels_MD=inside.levels_MD * rest.unsqueeze(1),
        labels_M=inside.labels_M * rest,
        mask_M=inside.mask_M & rest,
        units_M=torch.where(rest, inside.units_M, -1),
    )


def one_record_moves_its_slot_by_what_is_charged_and_no_other() -> None:
    directions = draw_directions(7, 5, SeededNoise(1))
    base = projections(batch(6), directions)
    for removed in range(6):
        moved = (base - projections(without(batch(6), removed), directions)).double()
        assert moved[torch.arange(6) != removed].count_nonzero() == 0
        longest = torch.linalg.matrix_norm(directions.unit_columns, 2) / Z
        assert float(moved.norm()) <= LATTICE_STD * float(longest)


def labels_change_nothing() -> None:
    inside = batch(6)
    assert torch.equal(answer(inside), answer(replace(inside, labels_M=inside.labels_M + 1)))


def given_the_release_no_record_changes_a_bit() -> None:
    released: list[Release] = []
    real = DpSwdFeatures.project

    def once(self: DpSwdFeatures, *arguments: Any) -> Release:
        released.append(real(self, *arguments))
        return released[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DpSwdFeatures, "project", once)
        assert torch.equal(answer(batch(5, seed=1)), answer(batch(5, seed=2)))


def the_answer_is_one_row_of_features_for_each_sample() -> None:
    subject = mechanism()
    (block,) = subject.gradient(samples(subject), records(3), OsEntropy()).blocks
    assert isinstance(block, FloatBlock)
    assert block.values.shape == (4, 7)


def every_sample_takes_the_same_operations() -> None:
    logs = []
    for count in (0, 2, 6):
        subject, log = mechanism(), OperationLog()
        inside = records(count)
        with log:
            subject.gradient(samples(subject), inside, SeededNoise(5))
        logs.append(log.operations)
    assert logs[0] == logs[1] == logs[2]


def bad_weights_are_refused_by_the_check() -> None:
    try:
        mechanism().check_samples(replace(loud(), weights=b"w" * 9000))
    except MalformedRequest:
        return
    msg = "the check let them through"
    raise AssertionError(msg)


def directions_are_never_used_twice() -> None:
    kept: list[Tensor] = []
    real = projected.release_projections

    def watched(given: Any, rows: Any, directions: Directions, **options: Any) -> Release:
        kept.append(directions.integers_DK)
        return real(given, rows, directions, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{STEP}.release_projections", watched)
        for _ in range(2):
            mechanism().gradient(loud(), records(3), OsEntropy())
    assert not bool((kept[0] == kept[1]).any())


DETECTORS = [
    one_record_moves_its_slot_by_what_is_charged_and_no_other,
    labels_change_nothing,
    given_the_release_no_record_changes_a_bit,
    the_answer_is_one_row_of_features_for_each_sample,
    every_sample_takes_the_same_operations,
    bad_weights_are_refused_by_the_check,
    directions_are_never_used_twice,
]


def unclipped_features(patch: Patch) -> None:
    patch.setattr(projected, "_limit", lambda rows, _: torch.ones(len(rows)).double())


def half_the_noise(patch: Patch) -> None:
    real = projected.RowBounds

    def halved(**fields: Any) -> Any:
        return real(**(fields | {"noise_multiplier": fields["noise_multiplier"] / 2}))

    patch.setattr(f"{HOME}.RowBounds", halved)


def features_divided_by_the_longest_of_the_batch(patch: Patch) -> None:
    """As the published code does."""

    def normalised(*arguments: Any) -> Tensor:
        rows = feature_rows(*arguments)
        return torch.trunc(rows * (ROW_RADIUS / rows.norm(dim=1).max()))

    patch.setattr(f"{HOME}.feature_rows", normalised)


def labels_in_the_row(patch: Patch) -> None:
    real = projected.release_projections

    def labelled(given: Any, rows: Any, directions: Directions, **options: Any) -> Release:
        def with_labels(levels: Tensor, labels: Tensor) -> Tensor:
            made: Tensor = rows(levels, labels)
            return made + labels.unsqueeze(1)

        return real(given, with_labels, directions, **options)

    patch.setattr(f"{STEP}.release_projections", labelled)


def replaced_gradient(patch: Patch, change: Callable[[Release, RecordBatch], Release]) -> None:
    real = DpSwdFeatures.gradient

    def leaking(self: DpSwdFeatures, asked: Samples, given: Any, noise: Any) -> Release:
        return change(real(self, asked, given, noise), given.unseal())

    patch.setattr(DpSwdFeatures, "gradient", leaking)


def a_gradient_through_private_features(patch: Patch) -> None:
    """As in the published algorithm, whose second half is no post-processing."""

    def with_both_halves(release: Release, inside: RecordBatch) -> Release:
        means = inside.levels_MD.double().mean(dim=0)[:7]
        return Release(blocks=(FloatBlock(values=release_values(release).float() + means.float()),))

    replaced_gradient(patch, with_both_halves)


def a_gradient_with_respect_to_the_weights(patch: Patch) -> None:
    def with_weights(release: Release, inside: RecordBatch) -> Release:
        slopes = inside.levels_MD.float().mean(dim=0, keepdim=True)[:, :7]
        return replace(release, blocks=(*release.blocks, FloatBlock(values=slopes)))

    replaced_gradient(patch, with_weights)


def a_loss_without_noise(patch: Patch) -> None:
    def with_loss(release: Release, inside: RecordBatch) -> Release:
        loss = inside.levels_MD.float().mean().expand(1, 7)
        return replace(release, blocks=(*release.blocks, FloatBlock(values=loss)))

    replaced_gradient(patch, with_loss)


def features_of_sampled_records_only(patch: Patch) -> None:
    real = projected._exact_rows

    def fewer(
        inside: RecordBatch, rows: Any, dimension: int, most_units: int, *, is_long: bool
    ) -> Tensor:
        kept = inside.mask_M
        some = replace(
            inside,
            levels_MD=inside.levels_MD[kept],
            labels_M=inside.labels_M[kept],
            mask_M=kept[kept],
            units_M=inside.units_M[kept],
        )
        made = torch.zeros(len(kept), dimension, dtype=torch.float64)
        made[kept] = real(some, rows, dimension, most_units, is_long=is_long)
        return made

    patch.setattr(projected, "_exact_rows", fewer)


def weights_that_are_not_checked(patch: Patch) -> None:
    patch.setattr(DpSwdFeatures, "check_samples", lambda *_: None)


def directions_of_the_last_step(patch: Patch) -> None:
    kept: list[Directions] = []

    def again(*arguments: Any) -> Directions:
        kept.append(draw_directions(*arguments))
        return kept[0]

    patch.setattr(f"{STEP}.draw_directions", again)


MUTANTS = [
    unclipped_features,
    half_the_noise,
    features_divided_by_the_longest_of_the_batch,
    labels_in_the_row,
    a_gradient_through_private_features,
    a_gradient_with_respect_to_the_weights,
    a_loss_without_noise,
    features_of_sampled_records_only,
    weights_that_are_not_checked,
    directions_of_the_last_step,
]


test_the_real_code_passes, test_every_mutant_is_caught = both_ways(
    DETECTORS,
    MUTANTS,
    ValueError,  # ValueError: another number of blocks
)
