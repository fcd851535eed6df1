"""Faults planted in statistics of public features: each must be seen, and none in the real code.

No detector measures chance: noise is absent or repeated.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from audit.recorded import recorded
from audit.same_randomness import OperationLog
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences import feature_maps, feature_moments
from curator.divergences.feature_nets import feature_rows
from curator.errors import MalformedRequest
from curator.mechanisms import feature_statistics
from curator.mechanisms.feature_statistics import FeatureStatistics
from curator.mechanisms.public_networks import read_network
from curator.privacy.batches import RecordBatch
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer import summed
from curator.sanitizer.lattice import lattice_radius
from curator.sanitizer.post_process import release_values
from tests.fakes import networks
from tests.fakes.networks import SPACE, mechanism
from tests.fakes.noise import NoNoise, SeededNoise
from tests.statistical.catching import both_ways

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch
NOISES = (1.1, 1.2, 1.3)
ROWS = 8


@pytest.fixture(autouse=True)
def _network(tmp_path: Path) -> None:
    networks.offer(tmp_path)


def batch(count: int, seed: int = 1) -> RecordBatch:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(ROWS) < count
    levels = torch.randint(0, 17, (ROWS, SPACE.dimension), generator=generator)
    labels = torch.randint(0, 3, (ROWS,), generator=generator)
    return RecordBatch(
        levels_MD=(levels * mask.unsqueeze(1)).to(torch.uint8),
        labels_M=labels * mask,
        mask_M=mask,
        units_M=torch.where(mask, torch.arange(ROWS), -1),
    )


def without(inside: RecordBatch, unit: int) -> RecordBatch:
    rest = inside.units_M != unit
    return replace(
        inside,
        levels_MD=inside.levels_MD * rest.unsqueeze(1),
        labels_M=inside.labels_M * rest,
        mask_M=inside.mask_M & rest,
        units_M=torch.where(rest, inside.units_M, -1),
    )


def integers(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def subjects() -> list[FeatureStatistics]:
    return [mechanism(), mechanism(moments="by-class", radius_scale=0.25)]


def sums_of(
    of: FeatureStatistics, inside: RecordBatch, noise: NoiseSource, replayed: Any = ()
) -> list[Any]:
    with recorded(replayed) as made:
        of.setup([Private(inside)], noise)
    return made


def one_record_moves_each_sum_by_what_is_charged_at_most() -> None:
    for of in subjects():
        inside = batch(6)
        released = sums_of(of, inside, SeededNoise(1))
        base = sums_of(of, inside, NoNoise(), released)
        for unit in range(6):
            other = sums_of(of, without(inside, unit), NoNoise(), released)
            for z, first, second in zip(NOISES, base, other, strict=True):
                moved = (integers(first.release) - integers(second.release)).double()
                assert float(moved.norm()) <= lattice_radius(z, sensitivity_in_radii=1)


def a_record_counts_the_same_in_any_company() -> None:
    for of in subjects():
        crowd = batch(8)
        released = sums_of(of, crowd, SeededNoise(2))
        all_of_them, alone, rest = (
            [integers(one.release) for one in sums_of(of, inside, NoNoise(), released)]
            for inside in (crowd, _only(crowd, 3), without(crowd, 3))
        )
        for whole, lone, others in zip(all_of_them, alone, rest, strict=True):
            assert torch.equal(whole, lone + others)


def _only(inside: RecordBatch, unit: int) -> RecordBatch:
    """Return a batch of one record, in the first place."""
    places = [unit, *(place for place in range(ROWS) if place != unit)]
    moved = RecordBatch(**{name: getattr(inside, name)[places] for name in RecordBatch.__slots__})
    first = torch.arange(ROWS) == 0
    return RecordBatch(
        levels_MD=moved.levels_MD * first.unsqueeze(1),
        labels_M=moved.labels_M * first,
        mask_M=first,
        units_M=torch.where(first, 0, -1),
    )


def what_is_returned_is_a_function_of_the_noised_sums() -> None:
    for of in subjects():
        first, second = batch(6), batch(3, seed=5)
        released = sums_of(of, first, SeededNoise(3))
        tables = []
        for inside in (first, second):
            with recorded(released):
                tables.append(release_values(of.setup([Private(inside)], SeededNoise(4))))
        assert torch.equal(*tables)


def each_sum_has_the_noise_that_is_charged() -> None:
    for of in subjects():
        inside = batch(6)
        released = sums_of(of, inside, SeededNoise(5))
        exact = sums_of(of, inside, NoNoise(), released)
        draws = SeededNoise(5)
        events = of.setup_event()
        assert events == ComposedEvent(
            in_turn=tuple(GaussianEvent(noise_multiplier=z) for z in NOISES)
        )
        for z, first, second in zip(NOISES, released, exact, strict=True):
            (block,) = first.release.blocks
            drawn = draws.discrete_gaussian(block.integers.numel()).reshape(block.integers.shape)
            assert torch.equal(block.integers - integers(second.release), drawn)
            assert block.grid == 1 / lattice_radius(z, sensitivity_in_radii=1)


def every_data_set_takes_the_same_operations() -> None:
    of = mechanism()
    logs = []
    for count in (0, 1, 8):
        log = OperationLog()
        with log:
            of.setup([Private(batch(count))], SeededNoise(6))
        logs.append(log.operations)
    assert logs[0] == logs[1] == logs[2]


def a_network_that_was_not_added_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"network_sha256": "0" * 64}, {"network": "other"}]
    for changes in wrong:
        try:
            mechanism(**changes)
        except MalformedRequest:
            continue
        msg = "a network that nobody declared was taken"
        raise AssertionError(msg)


DETECTORS = [
    a_network_that_was_not_added_is_refused,
    each_sum_has_the_noise_that_is_charged,
    what_is_returned_is_a_function_of_the_noised_sums,
    a_record_counts_the_same_in_any_company,
    one_record_moves_each_sum_by_what_is_charged_at_most,
    every_data_set_takes_the_same_operations,
]


def half_the_noise(patch: Patch) -> None:
    real = summed.release_class_sums

    def halved(*given: Any, **named: Any) -> Release:
        return real(*given, **(named | {"noise_multiplier": named["noise_multiplier"] / 2}))

    patch.setattr(feature_statistics, "release_class_sums", halved)


def no_noise_in_the_moments(patch: Patch) -> None:
    real = summed.release_class_sums

    def quiet(batches: Any, rows: Any, **named: Any) -> Release:
        is_last = named["num_features"] == 10
        return real(batches, rows, **(named | ({"noise": NoNoise()} if is_last else {})))

    patch.setattr(feature_statistics, "release_class_sums", quiet)


def the_first_sums_alone_charged(patch: Patch) -> None:
    patch.setattr(
        FeatureStatistics,
        "setup_event",
        lambda self: GaussianEvent(noise_multiplier=self.spec.noise_multiplier),
    )


def rows_that_are_not_cut(patch: Patch) -> None:
    patch.setattr(feature_moments, "_MARGIN", 2.0)
    patch.setattr(summed, "_squared_integers", lambda rows, _: 0 * rows[:, 0])


def centres_of_the_records_themselves(patch: Patch) -> None:
    """The means that rows are measured from have no noise."""
    real_sums, real_means = summed.release_class_sums, FeatureStatistics._first_means
    exact: list[Tensor] = []

    def noting(batches: Any, rows: Any, **named: Any) -> Release:
        silent = real_sums(batches, rows, **(named | {"noise": NoNoise()}))
        exact.append(release_values(silent))
        return real_sums(batches, rows, **named)

    patch.setattr(feature_statistics, "release_class_sums", noting)
    patch.setattr(FeatureStatistics, "_first_means", lambda self, _: real_means(self, exact[-1]))


def a_radius_that_the_records_choose(patch: Patch) -> None:
    real, kept = FeatureStatistics._kept, []

    def noting(self: FeatureStatistics, inside: RecordBatch) -> Tensor:
        kept.append(real(self, inside))
        return kept[-1]

    def longest(self: FeatureStatistics, means: Any) -> Any:
        of_rows = kept[-1][:, :-1].double().norm(dim=1).mean() / feature_maps.ROW_UNITS
        return feature_moments.Centres.of(means.values_KR, 0.1 + float(of_rows))

    patch.setattr(FeatureStatistics, "_kept", noting)
    patch.setattr(FeatureStatistics, "_centres", longest)


def features_against_the_batch_s_mean(patch: Patch) -> None:
    real = feature_rows

    def centred(*given: Any) -> Tensor:
        rows: Tensor = real(*given)
        return torch.trunc(rows - rows.mean(dim=0)).clamp_min(0)

    patch.setattr(feature_maps, "feature_rows", centred)


def records_that_are_there_only(patch: Patch) -> None:
    real = FeatureStatistics._kept

    def fewer(self: FeatureStatistics, inside: RecordBatch) -> Tensor:
        there = replace(
            inside,
            levels_MD=inside.levels_MD[inside.mask_M],
            labels_M=inside.labels_M[inside.mask_M],
        )
        made = torch.zeros((len(inside.mask_M), networks.NUM_FEATURES + 1), dtype=torch.int16)
        if bool(inside.mask_M.any()):
            made[inside.mask_M] = real(self, there)
        return made

    patch.setattr(FeatureStatistics, "_kept", fewer)


def a_digest_that_nobody_compares(patch: Patch) -> None:
    real = read_network
    known: str = networks.PARAMETERS["network_sha256"]
    patch.setattr(
        feature_statistics, "read_network", lambda name, _, *rest: real(name, known, *rest)
    )


MUTANTS = [
    half_the_noise,
    no_noise_in_the_moments,
    the_first_sums_alone_charged,
    rows_that_are_not_cut,
    centres_of_the_records_themselves,
    a_radius_that_the_records_choose,
    features_against_the_batch_s_mean,
    records_that_are_there_only,
    a_digest_that_nobody_compares,
]
test_the_real_code_passes, test_every_mutant_is_caught = both_ways(DETECTORS, MUTANTS)
