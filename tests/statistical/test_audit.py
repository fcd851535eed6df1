"""The audit stays below every claim, and catches curators that are planted to be wrong.

False alarm of each test that says "stays below": 1e-6, the error of its Clopper-Pearson bounds.
Where a fault must be caught, the mean bound of simulated games lies at least six of its standard
deviations above the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from curator.audit.canaries import CANARIES, make_pair
from curator.audit.failing import Records
from curator.audit.game import Rules, play
from curator.audit.same_randomness import compare
from curator.audit.target import TARGETS, make_target
from curator.privacy.event import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import RecordBatch
from curator.sanitizer.entropy import OsEntropy

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
DELTA = 1e-2  # generous, so that few trials can exceed a claim


class QuarterNoise:
    """The production source with a quarter of its noise."""

    def __init__(self) -> None:
        self._source = OsEntropy()

    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.div(self._source.discrete_gaussian(num_values), 4, rounding_mode="trunc")

    def uniform_words(self, num_words: int) -> Tensor:
        return self._source.uniform_words(num_words)


class Planted:
    """Records that do something of their own before each sample."""

    def __init__(self, records: Records, act: Callable[[NoiseSource], None]) -> None:
        self._records, self._act = records, act

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        self._act(noise)
        return self._records.poisson_batch(rate, capacity, noise)

    def batches(self, rows: int) -> Iterator[Private[RecordBatch]]:
        self._act(OsEntropy())
        return self._records.batches(rows)


def abort(_: NoiseSource) -> None:
    msg = "the canary was sampled"
    raise RuntimeError(msg)


@pytest.mark.parametrize("name", TARGETS)
def test_the_worst_canary_stays_below_the_claim(name: str) -> None:
    rules = Rules(trials=300, delta=1e-5, error=FALSE_ALARM)
    result = play(make_target(name, 1.0), make_pair("flip"), rules)
    assert result.holds
    assert result.failed_answers == 0


@pytest.mark.parametrize("name", ["dp-sinkhorn", "mean-embedding"])
def test_a_quarter_of_the_noise_exceeds_the_claim(name: str) -> None:
    rules = Rules(trials=1000, delta=DELTA, error=FALSE_ALARM)
    result = play(make_target(name, 1.0), make_pair("flip"), rules, noise=QuarterNoise())
    assert not result.holds, result


@pytest.mark.parametrize("name", TARGETS)
def test_a_record_that_fails_cannot_be_told_from_no_record(name: str) -> None:
    rules = Rules(trials=100, delta=1e-5, error=FALSE_ALARM)
    result = play(make_target(name, 1.0), make_pair("failing"), rules)
    assert all(check.lower_bound == 0 for check in result.checks)
    assert result.failed_answers == 0


@pytest.mark.parametrize("name", ["dp-sinkhorn", "mean-embedding"])
def test_an_abort_on_the_canary_is_caught(name: str) -> None:
    rules = Rules(trials=300, delta=DELTA, error=FALSE_ALARM)
    result = play(
        make_target(name, 2.0),
        make_pair("one-more"),
        rules,
        plant=lambda records: Planted(records, abort),
    )
    assert result.failed_answers == rules.trials
    assert not result.holds, result


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("name", TARGETS)
def test_the_same_randomness_hides_which_data_set_it_was(name: str, canary: str) -> None:
    comparison = compare(make_target(name, 1.0), make_pair(canary))
    assert comparison.holds, comparison
    if name == "dp-sinkhorn" and canary == "flip":
        assert comparison.squared_difference > 0.99 * comparison.squared_sensitivity


@pytest.mark.parametrize("name", ["dp-sinkhorn", "dp-sinkhorn-half"])
def test_words_and_operations_that_depend_on_the_record_are_caught(name: str) -> None:
    target, pair = make_target(name, 1.0), make_pair("one-more")

    def one_word_more(noise: NoiseSource) -> None:
        noise.uniform_words(1)

    def one_operation_more(_: NoiseSource) -> None:
        torch.zeros(3).exp()

    words = compare(target, pair, plant=lambda records: Planted(records, one_word_more))
    assert words.same_words is False
    assert not words.holds
    operations = compare(target, pair, plant=lambda records: Planted(records, one_operation_more))
    assert operations.same_operations is False
    assert not operations.holds
