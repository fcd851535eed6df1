"""Audit one whole run over gRPC: coins, the run, guesses, a bound of epsilon beside the claim.

Nothing is compared with a second run, so a training is attacked at its full length, for the price
of one. What it can show depends on how many canaries find room beside each other: see
`one_run_power.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from audit.game import Check
from audit.one_run_attack import Coins, OneRunAttack, open_mechanism
from audit.one_run_bound import Guesses
from audit.one_run_critic import CriticAttack
from audit.one_run_embedding import EmbeddingAttack
from audit.one_run_power import Power, power, right_guesses
from audit.one_run_transport import TransportAttack
from audit.target import claimed_epsilon
from audit.throw_away import throw_away_curator
from curator.accounting.calibrate import least_noise_near
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.privacy.event_numbers import MAX_NOISE_MULTIPLIER
from curator.privacy.noise import NoiseSource
from curator.sanitizer.entropy import OsEntropy
from curator.service.limits import Limits

DELTAS: Final = (1e-4, 1e-3, 1e-2)
"""Claims are checked here too; the bounds are about one number and hold together."""

_LIMITS: Final = Limits(max_samples=64, max_message_mib=256)
_NOISE_TOLERANCE: Final = 2e-3
_BITS: Final = 8

ATTACKS: Final[Mapping[str, Callable[[], OneRunAttack]]] = {
    "dp-cgan": CriticAttack,
    "dp-sinkhorn": TransportAttack,
    "mean-embedding": EmbeddingAttack,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OneRunRules:
    """What is claimed, and how sure a bound is to be.

    Attributes:
        epsilon: Of the run, at `delta`; noise is calibrated to it.
        delta: In (0, 1).
        error: Probability that a bound of one mechanism is wrong.
    """

    epsilon: float
    delta: float
    error: float

    @property
    def deltas(self) -> tuple[float, ...]:
        """Where claims are checked."""
        return (self.delta, *(one for one in DELTAS if self.delta < one))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OneRunResult:
    """What one run showed."""

    mechanism: str
    num_steps: int
    noise_multiplier: float
    guesses: tuple[Guesses, ...]
    checks: tuple[Check, ...]
    confidence: float
    expected: Power
    why: str

    @property
    def holds(self) -> bool:
        """Whether the claims stand."""
        return all(one.lower_bound <= one.claim for one in self.checks)


def noise_for(attack: OneRunAttack, rules: OneRunRules) -> float:
    """Return the noise with which the accountant states the epsilon for the whole run.

    Raises:
        ValueError: If no noise does.
    """

    def enough(noise_multiplier: float) -> bool:
        mechanism = open_mechanism(attack, noise_multiplier)
        return claimed_epsilon(mechanism, attack.num_steps, rules.delta) <= rules.epsilon

    most = MAX_NOISE_MULTIPLIER
    return least_noise_near(1.0, enough, tolerance=_NOISE_TOLERANCE, most=most)


def audit_one_run(
    attack: OneRunAttack,
    rules: OneRunRules,
    *,
    noise: NoiseSource | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> OneRunResult:
    """Attack one run of a mechanism.

    Args:
        attack: The canaries.
        rules: What is claimed.
        noise: For tests: what the curator uses in place of the production source.
        say: Told what is done.

    Raises:
        ValueError: If no noise makes the claim true.
    """
    say(f"{attack.mechanism}: what can be shown")
    noise_multiplier = noise_for(attack, rules)
    mechanism = open_mechanism(attack, noise_multiplier)
    claims = {delta: claimed_epsilon(mechanism, attack.num_steps, delta) for delta in rules.deltas}
    expected = power(attack, noise_multiplier, claims, rules.error)
    coins = _toss(attack.num_canaries)
    say(f"{attack.mechanism}: one run of {attack.num_steps} steps")
    with throw_away_curator(
        _records(attack, coins), noise or OsEntropy(), attack.facts, _LIMITS
    ) as curator:
        run = curator.barrier.open_run(
            curator.new_dataset(),
            attack.mechanism,
            attack.parameters(noise_multiplier),
            num_steps=attack.num_steps,
        )
        observed = attack.observe(curator.barrier, run)
    say(f"{attack.mechanism}: guesses")
    rights = right_guesses(attack.scores(observed, noise_multiplier), coins)
    guesses = tuple(
        Guesses(num_canaries=attack.num_canaries, num_guesses=size, num_right=int(rights[size - 1]))
        for size in expected.numbers
    )
    share = rules.error / len(guesses)
    return OneRunResult(
        mechanism=attack.mechanism,
        num_steps=attack.num_steps,
        noise_multiplier=noise_multiplier,
        guesses=guesses,
        checks=tuple(
            Check(
                delta=delta,
                claim=claim,
                lower_bound=max(one.epsilon_lower_bound(delta, share) for one in guesses),
            )
            for delta, claim in claims.items()
        ),
        confidence=1 - rules.error,
        expected=expected,
        why=expected.why(claims, attack, rules.error),
    )


def _toss(num_coins: int) -> Coins:
    """Return fair coins of the operating system."""
    tossed = np.frombuffer(secrets.token_bytes(-(-num_coins // _BITS)), dtype=np.uint8)
    return np.unpackbits(tossed, count=num_coins).astype(np.bool_)


def _records(attack: OneRunAttack, coins: Coins) -> PrivateRecords:
    """Return the canaries that are in, in a place that does not tell."""
    images = attack.canaries()
    chosen = LabelledImages(levels=images.levels[coins], labels=images.labels[coins])
    return PrivateRecords(chosen, attack.num_canaries)
