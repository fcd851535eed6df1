"""Play the distinguishing game: many answers from each of two curators, then one verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from analyst.client import Barrier, Run
from analyst.errors import BudgetExhausted, CuratorFailed
from audit.bound import Scores, epsilon_lower_bound
from audit.canaries import SIDE, Pair
from audit.canary_records import Records, records_of
from audit.direction import Vector, statistic_of
from audit.target import Target
from audit.throw_away import throw_away_curator
from curator.privacy.batches import Samples
from curator.privacy.noise import NoiseSource
from curator.sanitizer.entropy import OsEntropy

Progress = Callable[[int], None]


class BudgetTooSmall(RuntimeError):
    """One trial costs more than the largest budget, so no curator would answer it."""


@final
class Attack:
    """A fixed attack; what it sends depends on public canaries alone.

    A trial is one step of a run where each step pays for itself alone; else it is a run of its own,
    with all of its steps.
    """

    def __init__(self, target: Target, pair: Pair, trials: int) -> None:
        """Compute how answers are scored."""
        self._target = target
        self._trials = trials
        self._samples = target.samples(pair)
        self._statistic = statistic_of(target, pair)

    def scores(self, records: Records, noise: NoiseSource, progress: Progress) -> Scores:
        """Return the scores of independent trials.

        Returns:
            One score a trial, infinity where an answer was an error.

        Raises:
            BudgetTooSmall: If no budget affords a trial.
        """
        scores: list[float] = []
        ask = self._steps if self._target.pays_per_step else self._runs
        with throw_away_curator(records, noise) as curator:
            while len(scores) < self._trials:
                got = ask(curator.barrier, curator.new_dataset(), self._trials - len(scores))
                if not got:
                    msg = "noise_multiplier: one trial costs more than the largest budget"
                    raise BudgetTooSmall(msg)
                scores += got
                progress(len(scores))
        return np.array(scores)

    def _open(self, barrier: Barrier, dataset: str, num_steps: int) -> Run:
        target = self._target
        return barrier.open_run(dataset, target.mechanism, target.parameters, num_steps=num_steps)

    def _steps(self, barrier: Barrier, dataset: str, most: int) -> list[float]:
        """Spend a budget on one run; each of its steps is a trial."""
        target = self._target
        plan = barrier.plan(dataset, target.mechanism, target.parameters, num_steps=1)
        steps, scores = min(most, plan.affordable_steps), list[float]()
        run = self._open(barrier, dataset, steps) if steps else None
        while run is not None and len(scores) < steps:
            try:
                scores.append(self._statistic(ask(run, self._target, self._samples)))
            except CuratorFailed:
                scores.append(math.inf)
                run = barrier.resume_run(run.run_id)  # the ledger knows whether it is charged
        return scores

    def _runs(self, barrier: Barrier, dataset: str, most: int) -> list[float]:
        """Spend a budget on runs; each is a trial."""
        scores: list[float] = []
        while len(scores) < most:
            try:
                run = self._open(barrier, dataset, self._target.num_steps)
                if self._target.statistic:
                    answers = [barrier.download_release(run.run_id).values.numpy().ravel()]
                else:
                    answers = [
                        ask(run, self._target, self._samples) for _ in range(self._target.num_steps)
                    ]
                scores.append(self._statistic(np.concatenate(answers)))
            except BudgetExhausted:
                break
            except CuratorFailed:
                scores.append(math.inf)
        return scores


def ask(run: Run, target: Target, samples: Samples) -> Vector:
    """Return the numbers of one answer, exactly: they are asked for in float64.

    Args:
        run: At its next step.
        target: Says how many candidates there are, where records vote.
        samples: What is sent.
    """
    rows, labels = samples.images_ND.double(), samples.labels_N
    images = rows.reshape(-1, 1, SIDE, SIDE) if not samples.weights else rows
    num_candidates = target.open().requirements().answer_numbers
    if num_candidates is not None:
        gradient = run.votes(images, labels, num_candidates)
    elif samples.weights:
        gradient = run.feature_gradient(rows, samples.weights)
    else:
        gradient = run.gradient(images, labels)
    return gradient.numpy().ravel()


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
