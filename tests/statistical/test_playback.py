"""Every mechanism through the whole service, with the same words on both data sets.

The comparison is exact: no noise is left in it, so there is no false alarm.
"""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from audit import TARGETS
from audit.canaries import make_pair
from audit.playback import Playback, play_back
from audit.targets import make_target
from curator.privacy.noise import NoiseSource
from curator.sanitizer import post_process
from curator.service import answer_step
from curator.service.live_run import LiveRun
from tests.statistical.test_audit import Planted, abort

pytestmark = pytest.mark.statistical

Patch = pytest.MonkeyPatch


def played(name: str, canary: str = "flip", **more: Any) -> Playback:
    return play_back(make_target(name, 1.0), make_pair(canary), **more)


def sampled(live: LiveRun) -> int:
    """Return how many records a run has, which nobody may learn."""
    sealed: Any = live.records
    return int(sealed._records._units.num_units)


@pytest.mark.parametrize("canary", ["flip", "crowd", "empty", "failing"])
@pytest.mark.parametrize("name", TARGETS)
def test_two_transcripts_differ_in_nothing_but_what_they_may(name: str, canary: str) -> None:
    if not make_target(name, 1.0).suits(make_pair(canary)):
        assert canary == "failing"
        return
    playback = played(name, canary)
    assert playback.holds, playback
    assert playback.num_replies >= 3  # an answer, a refused step, a release or none


def test_the_canary_moves_the_release_by_all_that_it_may() -> None:
    for name in ("dp-sinkhorn", "mean-embedding", "dp-cgan", "votes"):
        playback = played(name)
        assert playback.squared_difference > 0.98 * playback.squared_sensitivity


@pytest.mark.parametrize("name", ["dp-sinkhorn", "mean-embedding"])
def test_an_error_that_tells_a_record_is_caught(name: str) -> None:
    playback = played(name, plant=lambda records: Planted(records, abort))
    assert playback.same_replies is False
    assert playback.same_releases is False
    assert not playback.holds


def test_a_charge_that_follows_the_records_is_caught(monkeypatch: Patch) -> None:
    """As many steps are charged ahead as there are records."""
    real = answer_step._advance_mark

    def following(runs: Any, live: LiveRun) -> None:
        live.block.size = sampled(live)
        real(runs, live)

    monkeypatch.setattr(answer_step, "_advance_mark", following)
    playback = played("gs-wgan-mean")
    assert playback.same_charges is False
    assert playback.same_releases is playback.same_replies is True
    assert not playback.holds


def test_a_budget_that_follows_the_records_is_caught(monkeypatch: Patch) -> None:
    """A run that has two records is closed early, which gives a step back."""
    real = answer_step._check_order

    def impatient(live: LiveRun, step: int) -> None:
        if step > 1 and sampled(live) > 1:
            live.closed = True
        real(live, step)

    monkeypatch.setattr(answer_step, "_check_order", impatient)
    playback = played("gs-wgan-mean")
    assert playback.same_replies is False
    assert not playback.holds


def test_a_reply_with_a_trace_of_the_records_is_caught(monkeypatch: Patch) -> None:
    """The last bit of one number says how many there are; no release says it."""
    real = answer_step._gradient

    def tracing(noise: NoiseSource, live: LiveRun, request: Any) -> Any:
        release = real(noise, live, request)

        def bent(values: Tensor) -> Tensor:
            rows = values.clone()
            rows.view(-1)[0] *= 1 + 2.0**-20 * sampled(live)
            return rows

        return post_process.post_process(release, bent)

    monkeypatch.setattr(answer_step, "_gradient", tracing)
    playback = played("dp-sinkhorn")
    assert playback.same_replies is False
    assert playback.same_charges is True
    assert not playback.holds


def test_a_planted_word_is_no_matter_for_what_leaves() -> None:
    """Other words are taken on D', but what leaves is made of the recorded releases alone."""

    def one_word_more(noise: NoiseSource) -> None:
        noise.uniform_words(1)

    playback = played("dp-sinkhorn", plant=lambda records: Planted(records, one_word_more))
    assert playback.same_replies is True
