"""One attacker: ask a curator for many trials and score the answers of each.

A trial is one step of a run where each step pays for itself alone; else it is a run of its own,
with all of its steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import final

import numpy as np

from curator.audit.bound import Scores
from curator.audit.canaries import SIDE, Pair
from curator.audit.client import AnswerFailed, BudgetSpent
from curator.audit.direction import statistic_of
from curator.audit.failing import Records
from curator.audit.target import Target
from curator.audit.throw_away import ThrowAwayCurator, throw_away_curator
from curator.privacy.noise import NoiseSource

Progress = Callable[[int], None]

_SHAPE = (1, SIDE, SIDE)


class BudgetTooSmall(RuntimeError):
    """One trial costs more than the largest budget, so no curator would answer it."""


@final
class Attack:
    """A fixed attack; what it sends depends on public canaries alone."""

    def __init__(self, target: Target, pair: Pair, trials: int) -> None:
        """Compute how answers are scored.

        Args:
            target: What is attacked.
            pair: The canary.
            trials: How many to ask for.
        """
        self._target = target
        self._pair = pair
        self._trials = trials
        self._per_step = target.pays_per_step
        self._samples = target.samples(pair)
        self._statistic = statistic_of(target, pair)

    def scores(self, records: Records, noise: NoiseSource, progress: Progress) -> Scores:
        """Return the scores of independent trials.

        Args:
            records: What the curator holds.
            noise: Of the curator.
            progress: Told how many answers there are.

        Returns:
            One score a trial, infinity where an answer was an error.

        Raises:
            BudgetTooSmall: If no budget affords a trial.
        """
        scores: list[float] = []
        with throw_away_curator(records, noise) as curator:
            while len(scores) < self._trials:
                left = self._trials - len(scores)
                got = self._steps(curator, left) if self._per_step else self._runs(curator, left)
                if not got:
                    msg = "noise_multiplier: one trial costs more than the largest budget"
                    raise BudgetTooSmall(msg)
                scores += got
                progress(len(scores))
        return np.array(scores)

    def _steps(self, curator: ThrowAwayCurator, most: int) -> list[float]:
        """Spend a budget on one run; each of its steps is a trial."""
        dataset = curator.new_dataset()
        steps = min(most, curator.client.affordable_steps(dataset, self._target))
        if not steps:
            return []
        run_id = curator.client.open_run(dataset, self._target, steps)
        return [self._score(curator, run_id, [step]) for step in range(1, steps + 1)]

    def _runs(self, curator: ThrowAwayCurator, most: int) -> list[float]:
        """Spend a budget on runs; each is a trial."""
        dataset, every = curator.new_dataset(), range(1, self._target.num_steps + 1)
        scores: list[float] = []
        while len(scores) < most:
            try:
                run_id = curator.client.open_run(dataset, self._target, len(every))
            except BudgetSpent:
                break
            except AnswerFailed:
                scores.append(math.inf)
            else:
                scores.append(self._score(curator, run_id, every))
        return scores

    def _score(self, curator: ThrowAwayCurator, run_id: str, steps: Iterable[int]) -> float:
        client = curator.client
        try:
            if self._target.statistic:
                answers = [client.download(run_id)]
            else:
                answers = [client.step(run_id, one, _SHAPE, self._samples) for one in steps]
        except AnswerFailed:
            return math.inf
        return self._statistic(np.concatenate(answers))
