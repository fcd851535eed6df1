"""Each pair differs by one record, and the worst one moves the release by the whole sensitivity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from audit import CANARIES, TARGETS
from audit.canaries import CAPACITY, Pair, audit_facts, make_pair
from audit.canary_records import CanaryFailure, FailingRecords, records_of
from audit.direction import _answer, best_direction
from audit.noise import ChosenNoise, PublicWords
from audit.target import Target
from audit.targets import _TARGETS, make_target
from curator.data.sampling import PrivateRecords
from curator.mechanisms.catalogue import mechanism_names
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.mechanisms.shards import gather_shards
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.release import FloatBlock, Release


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
    with pytest.raises(ValueError, match="expected one of adversarial-dp-sinkhorn"):
        make_target("identity", 1.0)


def test_the_mean_direction_of_dp_swd_tells_the_flip_on_fresh_directions() -> None:
    target, pair = make_target("dp-swd", 0.8), make_pair("flip")
    direction = best_direction(target, pair)
    assert float(np.linalg.norm(direction)) == pytest.approx(1)
    fewer, more = (records_of(pair, with_extra=with_extra) for with_extra in (False, True))
    gaps = [
        float(direction @ (_answer(target, pair, more, noise) - _answer(target, pair, fewer, same)))
        for noise, same in ((PublicWords(n), PublicWords(n)) for n in range(1000, 1060))
    ]
    assert np.mean(gaps) > 3 * np.std(gaps) / np.sqrt(len(gaps))


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("name", ["dp-sinkhorn", "mean-embedding", "g-pate", "gs-wgan-mean"])
def test_no_canary_moves_by_more_than_the_sensitivity(name: str, canary: str) -> None:
    """In standard deviations of the noise that is 1 / noise_multiplier, for each step."""
    target, pair = make_target(name, 0.8), make_pair(canary)
    if target.suits(pair):
        assert gap(target, pair) <= target.num_steps**0.5 / 0.8 * (1 + 1e-3)


@pytest.mark.parametrize(
    ("name", "releases"),
    [
        ("adversarial-dp-sinkhorn", 1),
        ("dp-sinkhorn", 1),
        ("dp-sinkhorn-half", 1),
        ("g-pate", 1),
        ("gs-wgan-decoupled", 1),
        ("gs-wgan-mean", 2),
        ("gs-wgan-round-robin", 2),
        ("mean-embedding", 1),
        ("pate-gan", 1),
    ],
)
def test_flip_moves_every_release_of_its_critic_by_the_whole_sensitivity(
    name: str, releases: int
) -> None:
    assert gap(make_target(name, 1.0), make_pair("flip")) >= 0.98 * releases**0.5


def gap(target: Target, pair: Pair) -> float:
    """Return how far apart the scores of noise-free answers are."""
    direction = best_direction(target, pair)
    answers = [
        _answer(target, pair, records_of(pair, with_extra=with_extra), ChosenNoise(None))
        for with_extra in (False, True)
    ]
    return float(direction @ (answers[1] - answers[0]))


@pytest.mark.parametrize("canary", ["flip", "crowd"])
def test_the_turning_record_is_in_the_shard_of_black(canary: str) -> None:
    """And of two shards nothing else is in it, so that it is the canary that is shown."""
    pair = make_pair(canary)
    batches = PrivateRecords(pair.both).batches(CAPACITY)
    shards = gather_shards(batches, 2, CAPACITY, audit_facts("x").space)
    means = [shards.levels_KPD[0, place].float().mean() for place in range(2)]
    assert int(shards.counts_K[0]) == 2
    assert means[0] == 0
    assert means[1] > 254


def test_what_is_told_without_noise_is_the_whole_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """A direction that no noise reaches tells the data sets apart for certain."""
    real = GsWganMean.gradient

    def telling(self: GsWganMean, state: Any, samples: Any, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        score = after.ensemble.critics["score"].mean().expand(1, 16)
        return after, Release(blocks=(*release.blocks, FloatBlock(values=score)))

    monkeypatch.setattr(GsWganMean, "gradient", telling)
    target, pair = make_target("gs-wgan-mean", 1.0), make_pair("flip")
    direction = best_direction(target, pair)
    scores = [
        [
            float(direction @ _answer(target, pair, records_of(pair, with_extra=more), noise))
            for noise in (PublicWords(number) for number in range(5))
        ]
        for more in (False, True)
    ]
    spread = np.ptp(scores, axis=1).max()
    assert abs(np.mean(scores[1]) - np.mean(scores[0])) > 100 * spread


@pytest.mark.parametrize("name", TARGETS)
def test_the_claim_is_that_of_a_trial(name: str) -> None:
    target = make_target(name, 1.0)
    expected = {
        "dp-sinkhorn-half": 3.534,
        "dp-swd": 5.229,
        "gs-wgan-decoupled": 3.534,  # a part of two, which is a sample at rate one half
        "gs-wgan-mean": 6.573,  # two Gaussians
        "gs-wgan-round-robin": 7.511,  # two and a half are charged, of which two are used
    }
    assert target.claim(1e-5) == pytest.approx(expected.get(name, 4.377), abs=2e-3)
    sampled = ("dp-sinkhorn", "dp-sinkhorn-half", "dp-swd", "dp-swd-features")
    assert target.pays_per_step == (name in sampled)
    assert str(audit_facts("x").adjacency) == "add-or-remove-one-record"


def test_names_and_targets_are_the_same() -> None:
    assert tuple(_TARGETS) == TARGETS
    assert all(make_target(name, 1.0).name == name for name in TARGETS)
    audited = {make_target(name, 1.0).mechanism for name in TARGETS}
    assert audited == set(mechanism_names())


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
