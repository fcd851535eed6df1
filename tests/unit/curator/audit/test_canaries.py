"""Each pair differs by one record, and the worst one moves the release by the whole sensitivity."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from curator.audit.canaries import CANARIES, CAPACITY, audit_facts, make_pair
from curator.audit.direction import (
    ChosenNoise,
    PublicWords,
    _answer,
    best_direction,
    records_of,
)
from curator.audit.failing import CanaryFailure, FailingRecords
from curator.audit.target import TARGETS, make_target
from curator.data.sampling import PrivateRecords
from curator.privacy.event import SamplingRate


@pytest.mark.parametrize("canary", CANARIES)
def test_the_data_sets_are_neighbours(canary: str) -> None:
    pair, again = make_pair(canary), make_pair(canary)
    assert len(pair.extra.labels) == 1
    assert len(pair.both.labels) == len(pair.base.labels) + 1 <= CAPACITY
    assert np.array_equal(pair.both.levels[:-1], pair.base.levels)
    assert np.array_equal(pair.both.levels, again.both.levels)
    assert pair.both.levels.dtype == np.uint8
    images = pair.samples.images_ND
    assert images.dtype == torch.float32
    assert bool((images.abs() <= 1).all())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of flip"):
        make_pair("grey")
    with pytest.raises(ValueError, match="expected one of dp-sinkhorn"):
        make_target("identity", 1.0)


def test_the_mean_direction_of_dp_swd_tells_the_flip_on_fresh_directions() -> None:
    target, pair = make_target("dp-swd", 0.8), make_pair("flip")
    direction = best_direction(target, pair)
    assert float(np.linalg.norm(direction)) == pytest.approx(1)
    fewer, more = (records_of(pair, with_extra=with_extra) for with_extra in (False, True))
    gaps = [
        float(direction @ (_answer(target, pair, more, noise) - _answer(target, pair, fewer, same)))
        for noise, same in ((PublicWords(n), PublicWords(n)) for n in range(1000, 1300))
    ]
    assert np.mean(gaps) > 3 * np.std(gaps) / np.sqrt(len(gaps))


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "dp-swd"])
def test_flip_moves_by_the_whole_sensitivity(name: str) -> None:
    """In standard deviations of the noise that is 1 / noise_multiplier, and no canary has more."""
    target = make_target(name, 0.8)
    for canary in CANARIES:
        pair = make_pair(canary)
        direction = best_direction(target, pair)
        gap = distance(name, canary, direction)
        assert gap <= 1 / 0.8 * (1 + 1e-3)
        if canary == "flip":
            assert gap >= 0.98 / 0.8


def distance(name: str, canary: str, direction: np.ndarray) -> float:
    target, pair = make_target(name, 0.8), make_pair(canary)
    answers = [
        _answer(target, pair, records_of(pair, with_extra=with_extra), ChosenNoise(None))
        for with_extra in (False, True)
    ]
    return float(direction @ (answers[1] - answers[0]))


@pytest.mark.parametrize("name", TARGETS)
def test_the_claim_is_that_of_the_event(name: str) -> None:
    target = make_target(name, 1.0)
    expected = {
        "dp-sinkhorn": 4.377,
        "dp-sinkhorn-half": 3.534,
        "dp-swd": 5.229,
        "mean-embedding": 4.377,
    }
    assert target.claim(1e-5) == pytest.approx(expected[name], abs=2e-3)
    assert target.pays_per_step == (name != "mean-embedding")
    assert str(audit_facts("x").adjacency) == "add-or-remove-one-record"


def test_the_failing_record_fails_wherever_it_is_used() -> None:
    pair = make_pair("failing")
    records = FailingRecords(PrivateRecords(pair.base), 16)
    noise = ChosenNoise(None)
    batch = records.poisson_batch(SamplingRate.at_least(1), CAPACITY, noise).unseal()
    assert batch.levels_MD.shape == (CAPACITY, 16)
    for use in (lambda x: x.to(torch.float32), lambda x: x + 1, lambda x: x[0] * 2, torch.sum):
        with pytest.raises(CanaryFailure):
            use(batch.levels_MD)
    assert len(list(records.batches(4))) == 1


def test_the_failing_record_is_sampled_at_its_rate() -> None:
    """ChosenNoise's words are zero, below any rate; a word above half is not below it."""

    class Words(ChosenNoise):  # type: ignore[misc]
        def uniform_words(self, num_words: int) -> torch.Tensor:
            return torch.full((num_words,), -1, dtype=torch.int64)  # all bits: 2^64 - 1

    records = FailingRecords(PrivateRecords(make_pair("failing").base), 16)
    half = SamplingRate.at_least(0.5)
    assert not bool(records.poisson_batch(half, 4, Words(None)).unseal().mask_M.any())
    assert bool(records.poisson_batch(half, 4, ChosenNoise(None)).unseal().mask_M.any())
