"""Play the distinguishing game: many answers from each of two curators, then one verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from curator.audit.attack import Attack, Progress
from curator.audit.bound import epsilon_lower_bound
from curator.audit.canaries import Pair
from curator.audit.direction import records_of
from curator.audit.failing import Records
from curator.audit.target import Target
from curator.privacy.noise import NoiseSource
from curator.sanitizer.entropy import OsEntropy

GENEROUS_DELTAS = (1e-2, 1e-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """How a game is played: `trials` on each data set, `error` the chance that a bound is wrong.

    The guarantee holds at every delta, so generous ones are tried too: a claim is smaller there and
    a few thousand trials prove as much, so that too little noise is noticed sooner.
    """

    trials: int
    delta: float
    error: float

    @property
    def deltas(self) -> tuple[float, ...]:
        """Where claims are checked; the bounds share the error."""
        return (self.delta, *(one for one in GENEROUS_DELTAS if self.delta < one))


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What was proved about epsilon at one delta, beside the claim."""

    delta: float
    claim: float
    lower_bound: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One row of the audit."""

    mechanism: str
    canary: str
    trials: int
    checks: tuple[Check, ...]
    confidence: float
    failed_answers: int

    @property
    def holds(self) -> bool:
        """Whether the claims stand."""
        return all(one.lower_bound <= one.claim for one in self.checks)


def play(
    target: Target,
    pair: Pair,
    rules: Rules,
    *,
    noise: NoiseSource | None = None,
    plant: Callable[[Records], Records] = lambda records: records,
    progress: Progress = lambda _: None,
) -> Result:
    """Attack one mechanism with one canary.

    Args:
        target: What is attacked.
        pair: The canary.
        rules: How many trials, and what is claimed.
        noise: For tests: what the curators use in place of the production source.
        plant: For tests: wraps the records of D', to plant a fault.
        progress: Told the number of answers so far.

    Returns:
        The bound beside the claim.

    Raises:
        BudgetTooSmall: If the largest budget does not afford one trial.
    """
    attack = Attack(target, pair, rules.trials)
    source = noise or OsEntropy()
    planted = plant(records_of(pair, with_extra=True))
    without = attack.scores(records_of(pair, with_extra=False), source, progress)
    with_extra = attack.scores(planted, source, progress)
    share = rules.error / len(rules.deltas)
    checks = tuple(
        Check(
            delta=delta,
            claim=target.claim(delta),
            lower_bound=epsilon_lower_bound(without, with_extra, delta, share),
        )
        for delta in rules.deltas
    )
    return Result(
        mechanism=target.name,
        canary=pair.canary,
        trials=rules.trials,
        checks=checks,
        confidence=1 - rules.error,
        failed_answers=int(np.isinf(without).sum() + np.isinf(with_extra).sum()),
    )
