"""One whole run over gRPC: what is claimed stands, and a quarter of the noise is seen."""

from __future__ import annotations

import numpy as np
import pytest

from audit.one_run import OneRunRules, audit_one_run
from audit.one_run_attack import OneRunAttack
from audit.one_run_critic import CriticAttack
from audit.one_run_embedding import EmbeddingAttack
from audit.one_run_power import right_guesses
from audit.one_run_transport import TransportAttack
from tests.statistical.test_audit import QuarterNoise

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
MISSED = 1e-3
"""Of a bound; whether it is met is a matter of many standard deviations."""
LOST = 0.02
"""Of the right guesses: what canaries take from each other, and Adam's first steps."""

ATTACKS: dict[str, OneRunAttack] = {
    "dp-cgan": CriticAttack(num_steps=16),
    "dp-sinkhorn": TransportAttack(num_steps=400, expected_batch=8.0),
    "mean-embedding": EmbeddingAttack(num_canaries=4000),
}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_correct_curator_stays_below_its_claim(name: str) -> None:
    result = audit_one_run(ATTACKS[name], OneRunRules(epsilon=4.0, delta=1e-5, error=FALSE_ALARM))
    assert result.holds, result
    assert all(one.num_guesses <= ATTACKS[name].num_canaries for one in result.guesses)


@pytest.mark.parametrize("name", ["dp-cgan", "mean-embedding"])
def test_a_quarter_of_the_noise_is_seen_where_the_computation_says_so(name: str) -> None:
    rules = OneRunRules(epsilon=4.0, delta=1e-5, error=MISSED)
    result = audit_one_run(ATTACKS[name], rules, noise=QuarterNoise())
    claims = {one.delta: one.claim for one in result.checks}
    assert result.expected.catches(claims), result
    assert not result.holds, result


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_run_shows_what_is_simulated(name: str) -> None:
    """With a quarter of the noise, of all canaries; within six deviations, and what is lost."""
    attack, rules = ATTACKS[name], OneRunRules(epsilon=4.0, delta=1e-5, error=FALSE_ALARM)
    result = audit_one_run(attack, rules, noise=QuarterNoise())
    told, claimed = result.guesses[-1], result.noise_multiplier
    rng, rights = np.random.default_rng(1), []
    for _ in range(20):
        coins = rng.integers(0, 2, attack.num_canaries).astype(np.bool_)
        scores = attack.simulated(coins, claimed / 4, claimed, rng)
        rights.append(right_guesses(scores, coins)[told.num_guesses - 1])
    expected = np.mean(rights) / told.num_guesses
    assert expected > 0.55
    deviation = (0.25 / told.num_guesses) ** 0.5  # at most
    assert abs(told.num_right / told.num_guesses - expected) < 6 * deviation + LOST
