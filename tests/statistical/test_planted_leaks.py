"""Leaks planted in every mechanism that trains something: the comparison must see each of them.

The comparison is exact: no noise is left in it, so there is no false alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from audit import TARGETS
from audit.canaries import make_pair
from audit.same_randomness import Comparison, compare
from audit.target import Target
from audit.targets import make_target
from curator.data.sampling import PrivateRecords
from curator.mechanisms import (
    dp_cgan,
    dp_merf_ae,
)
from curator.mechanisms.adversarial_dp_sinkhorn import AdversarialDpSinkhorn
from curator.mechanisms.one_critic import OneCritic
from curator.mechanisms.shard_networks import ShardNetworks
from curator.privacy.batches import RecordBatch
from curator.privacy.release import FloatBlock, Release
from tests.statistical.catching import shards_that_overlap

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch

SHARDED = [name for name in TARGETS if make_target(name, 1.0).parts]
STATEFUL = [*SHARDED, "dp-cgan"]
BATCH = {"critic_batch": 4, "teacher_batch": 4}


def target(name: str) -> Target:
    """Return a target with batches of more than one record, where a batch has a public size."""
    made = make_target(name, 1.0)
    larger = {key: value for key, value in BATCH.items() if key in made.parameters}
    return replace(made, parameters={**made.parameters, **larger})


def compared(name: str, canary: str = "flip") -> Comparison:
    return compare(target(name), make_pair(canary))


@pytest.mark.parametrize("name", STATEFUL)
def test_nothing_is_seen_where_nothing_is_planted(name: str) -> None:
    assert compared(name).holds


def test_a_critic_that_learns_because_it_was_drawn(monkeypatch: Patch) -> None:
    """As published: who answers is who is updated, and the state tells the draws."""
    real = OneCritic.step

    def keyed(self: OneCritic, *arguments: Any, index: int, first: int) -> Any:
        del first
        return real(self, *arguments, index=index, first=index)

    made = make_target("gs-wgan-decoupled", 1.0)
    one = replace(made, parameters={**made.parameters, "critics_per_step": 1})
    assert compare(one, make_pair("flip")).same_state
    monkeypatch.setattr(OneCritic, "step", keyed)
    comparison = compare(one, make_pair("flip"))
    assert comparison.same_state is False
    assert not comparison.holds


@pytest.mark.parametrize("name", SHARDED)
def test_a_state_that_follows_a_draw(name: str, monkeypatch: Patch) -> None:
    """One network of a secret number starts again after each step."""
    kind: Any = type(make_target(name, 1.0).open())
    real = kind.gradient

    def keyed(self: Any, state: Any, samples: Any, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        k = int(noise.uniform_words(1)) % 2
        for value in ensemble_of(after).critics.values():
            value[k] = 0
        return after, release

    monkeypatch.setattr(kind, "gradient", keyed)
    comparison = compared(name)
    assert comparison.same_state is False
    assert not comparison.holds


def ensemble_of(state: Any) -> Any:
    return state.taught.ensemble if hasattr(state, "taught") else state.ensemble


@pytest.mark.parametrize("name", SHARDED)
def test_shards_that_overlap(name: str, monkeypatch: Patch) -> None:
    shards_that_overlap(monkeypatch)
    comparison = compared(name)
    assert not comparison.holds
    assert comparison.one_part is False


@pytest.mark.parametrize("name", SHARDED)
def test_a_score_that_is_not_noised(name: str, monkeypatch: Patch) -> None:
    kind: Any = type(make_target(name, 1.0).open())
    real = kind.gradient

    def telling(self: Any, state: Any, samples: Any, noise: Any) -> Any:
        after, release = real(self, state, samples, noise)
        weights = next(iter(ensemble_of(after).critics.values()))
        told = FloatBlock(values=weights.mean().reshape(1, 1))
        return after, Release(blocks=(*release.blocks, told))

    monkeypatch.setattr(kind, "gradient", telling)
    comparison = compared(name)
    assert comparison.same_answers is False
    assert not comparison.holds


def test_a_sum_that_a_trained_critic_remembers_without_noise(monkeypatch: Patch) -> None:
    real = dp_cgan.DpCgan._noised_sum

    def telling(self: Any, critic: Any, records: Any, noise: Any) -> Release:
        release = real(self, critic, records, noise)
        critic.values[0] += records.unseal().levels_MD.float().mean()
        return release

    monkeypatch.setattr(dp_cgan.DpCgan, "_noised_sum", telling)
    comparison = compared("dp-cgan")
    assert comparison.same_answers is False
    assert comparison.one_part is False
    assert not comparison.holds


def test_an_encoder_that_is_released_without_noise(monkeypatch: Patch) -> None:
    """A sample's mean is in the weights, whatever noised sums the run was told."""
    real = dp_merf_ae.DpMerfAe._noised_sum

    def telling(self: Any, vector: Any, records: Any, noise: Any) -> Release:
        release = real(self, vector, records, noise)
        vector.values.mul_(records.unseal().levels_MD.float().mean() / 16)
        return release

    assert compare(make_target("dp-merf-ae-training", 1.0), make_pair("one-more")).holds
    monkeypatch.setattr(dp_merf_ae.DpMerfAe, "_noised_sum", telling)
    comparison = compare(make_target("dp-merf-ae-training", 1.0), make_pair("one-more"))
    assert comparison.same_answers is False
    assert not comparison.holds


def shortened_critics(patch: Patch) -> None:
    real = ShardNetworks.minibatch

    def short(self: ShardNetworks, state: Any, *rest: Any) -> Any:
        return cut(real(self, state, *rest), int(state.shards.counts_K.max()))

    patch.setattr(ShardNetworks, "minibatch", short)


def cut(batch: Any, rows: int) -> Any:
    """Return a minibatch without the rows that a small shard has to show twice."""
    return replace(
        batch,
        records_KRD=batch.records_KRD[:, :rows],
        record_labels_KRL=batch.record_labels_KRL[:, :rows],
        mixing_KR=batch.mixing_KR[:, :rows],
    )


def shortened_shards(patch: Patch) -> None:
    real = AdversarialDpSinkhorn._own_records

    def short(self: AdversarialDpSinkhorn, shards: Any) -> Any:
        own, rows = real(self, shards), int(shards.counts_K.max())
        return replace(
            own,
            pixels_KMD=own.pixels_KMD[:, :rows],
            labels_KM=own.labels_KM[:, :rows],
            mask_KM=own.mask_KM[:, :rows],
        )

    patch.setattr(AdversarialDpSinkhorn, "_own_records", short)


def samples_without_padding(patch: Patch) -> None:
    real = PrivateRecords._gather

    def unpadded(self: PrivateRecords, *arguments: Any) -> RecordBatch:
        batch = real(self, *arguments)
        kept = batch.mask_M
        return replace(
            batch,
            levels_MD=batch.levels_MD[kept],
            labels_M=batch.labels_M[kept],
            mask_M=kept[kept],
            units_M=batch.units_M[kept],
        )

    patch.setattr(PrivateRecords, "_gather", unpadded)


SHORTENED: dict[str, Callable[[Patch], None]] = {
    "adversarial-dp-sinkhorn": shortened_shards,
    "dp-cgan": samples_without_padding,
    "g-pate": shortened_critics,
    "g-pate-votes": shortened_critics,
    "gs-wgan-decoupled": shortened_critics,
    "gs-wgan-mean": shortened_critics,
    "gs-wgan-round-robin": shortened_critics,
    "pate-gan": shortened_critics,
}


@pytest.mark.parametrize("name", SHORTENED)
def test_a_batch_as_large_as_there_are_records(name: str, monkeypatch: Patch) -> None:
    SHORTENED[name](monkeypatch)
    comparison = compared(name)
    assert comparison.same_operations is False
    assert not comparison.holds
