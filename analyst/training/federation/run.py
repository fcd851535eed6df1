"""The runs of several curators as one: a round asks those whose turn it is, at the same time.

Each ledger says which step of its own run is next; this object only counts rounds. Answers of a
round are kept until it is complete, so a curator that has answered is not charged again while
another is waited for. What decides whom a round asks is public: order, weights, step counts.

Shapes: N images or rows of features, C channels, H height, W width; K curators.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from operator import methodcaller
from typing import final

import torch
from torch import Tensor

from analyst.errors import AnalystError, CuratorUnreachable, RunClosed, StepLost
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.members import Member, close_members
from analyst.training.federation.rounds import Combine, OnLoss, Rule, asked, rounds_left
from analyst.training.run_source import ImageRun

Ask = Callable[[ImageRun], Tensor]
Say = Callable[[str], None]


@final
class FederatedRun:
    """Implements `ImageRun`, and an adaptation's `FeatureRunPort`, over several runs."""

    def __init__(
        self,
        members: Sequence[Member],
        rule: Rule,
        executor: Executor,
        *,
        folder: FederationFolder | None,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start before the first round.

        Args:
            members: All curators in their public order; those that take part have a run.
            rule: How answers are combined, and what a loss means.
            executor: Sends to several curators at once.
            folder: Where losses and certificates are kept.
            say: Told of losses.
            clock: Seconds, for the patience.
        """
        self._members = list(members)
        self._rule = rule
        self._executor = executor
        self._folder = folder
        self._say = say
        self._clock = clock
        self._sent: Tensor | None = None
        self._since = 0.0
        self._asked: list[Member] = []
        self._answers: dict[str, Tensor | None] = {}  # None: charged, and its answer is gone
        self._silent: set[str] = set()
        self._problem: AnalystError | None = None  # why the last one was lost
        self._gone: AnalystError | None = None  # why the last answer is gone
        self.next_step = 1
        self.num_steps = self._rounds_left()

    def go_on_from(self, next_step: int, num_steps: int) -> None:
        """Take up the count of a checkpoint where the ledgers have gone on from it."""
        self.next_step = next_step
        if all(member.problem is None for member in self._members):
            used = [one.run.next_step - 1 for one in self._members if one.run is not None]
            in_turn = self._rule.combine is Combine.ROUND_ROBIN
            done = sum(used) if in_turn else num_steps - self._rounds_left()
            self.next_step = max(next_step, done + 1)
        self.num_steps = self.next_step - 1 + self._rounds_left()

    @property
    def run_id(self) -> str:
        """The ids of all runs in the public order, joined by '+'."""
        return "+".join(member.run_id for member in self._members)

    @property
    def spent_epsilon(self) -> float:
        """Of the data set that has used most of its budget; every other has used less of its."""
        return max(self._epsilons())[1]

    @property
    def budget_epsilon(self) -> float:
        """Of the same data set."""
        return max(self._epsilons())[2]

    @property
    def details(self) -> dict[str, float | int | str]:
        """Where each curator is, for the metrics; all of it is public."""
        values: dict[str, float | int | str] = {}
        for member in self._members:
            values[f"{member.name}.state"] = member.state
            if member.run is not None:
                values[f"{member.name}.next_step"] = member.run.next_step
                values[f"{member.name}.spent_epsilon"] = member.run.spent_epsilon
                values[f"{member.name}.budget_epsilon"] = member.run.budget_epsilon
        return values

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the combined gradient of one round.

        Args:
            images: [N, C, H, W] in [-1, 1]; the same object again goes on with the same round.
            labels: [N], class numbers.

        Returns:
            The mean of the answers by public weights, or the answer of the one whose turn it is.

        Raises:
            CuratorUnreachable: If a curator does not answer; the round can be asked again.
            StepLost: If the round is charged and no answer of it is left.
            AnalystError: As the curator said whose loss ends the training.
        """
        return self._round(images, methodcaller("gradient", images, labels))

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        """Return the combined gradient of one round of a mechanism on features.

        Args:
            features: [N, F]; the same object again goes on with the same round.
            weights: Of the extractor that made them.

        Returns:
            As `gradient`, and it raises the same.
        """
        return self._round(features, methodcaller("feature_gradient", features, weights))

    def close(self) -> None:
        """End all runs and keep their certificates; a curator that fails is named, not raised."""
        close_members(self._members, self._executor, folder=self._folder, say=self._say)
        self._save()

    def _round(self, sent: Tensor, ask: Ask) -> Tensor:
        """Ask those whose turn it is until none of them is missing."""
        if sent is not self._sent:
            self._sent, self._since = sent, self._clock()
            self._asked, self._answers, self._silent = [], {}, set()
        while True:
            self._asked = [one for one in self._asked if one.problem is None] or self._whose_turn()
            missing = [one for one in self._asked if one.name not in self._answers]
            if not missing:
                return self._finish_round()
            self._ask(missing, ask)

    def _epsilons(self) -> list[tuple[float, float, float]]:
        runs = [member.run for member in self._members if member.run is not None]
        return [(r.spent_epsilon / r.budget_epsilon, r.spent_epsilon, r.budget_epsilon)
                for r in runs]  # fmt: skip

    def _left(self) -> list[int]:
        return [member.steps_left for member in self._members]

    def _rounds_left(self) -> int:
        return rounds_left(self._left(), self._rule, next_round=self.next_step)

    def _whose_turn(self) -> list[Member]:
        """Return whom this round asks.

        Raises:
            AnalystError: If nobody is left, why the last one was lost.
        """
        chosen = asked(self._left(), self._rule, this_round=self.next_step)
        if not chosen:
            raise self._problem or RunClosed("RUN_CLOSED", "No curator has a step left.")
        return [self._members[position] for position in chosen]

    def _ask(self, missing: Sequence[Member], ask: Ask) -> None:
        """Ask several at once and keep their answers.

        Raises:
            AnalystError: Of the first whose loss ends the training, or that is waited for.
        """
        futures = []
        for member in missing:
            if member.run is not None:
                step = member.run.next_step
                submitted = self._executor.submit(ask, member.run)
                futures.append((member, member.run, step, submitted))
        troubles: list[tuple[Member, AnalystError]] = []
        for member, run, step, future in futures:
            try:
                self._answers[member.name] = future.result()
            except AnalystError as problem:
                if isinstance(problem, StepLost | RunClosed) and run.next_step > step:
                    self._answers[member.name], self._gone = None, problem
                else:
                    troubles.append((member, problem))
        final = [problem for member, problem in troubles if not self._survives(member, problem)]
        if final:
            error = min(final, key=lambda one: isinstance(one, CuratorUnreachable))
            raise error  # what waiting does not mend comes first

    def _survives(self, member: Member, error: AnalystError) -> bool:
        """Give a curator up if the rule says so; return whether training can go on at once."""
        waited = self._clock() - self._since
        waits = isinstance(error, CuratorUnreachable) and waited < self._rule.patience_s
        if waits or self._rule.on_loss is OnLoss.STOP:
            if member.name not in self._silent:
                self._silent.add(member.name)
                self._say(f"curator {member.name}: {error.message}")
            return False
        member.problem = self._problem = error
        self.num_steps = self.next_step - 1 + self._rounds_left()
        others = ", ".join(one.name for one in self._members if one.steps_left)
        self._say(f"curator {member.name} is lost: {error.message}")
        self._say(f"going on with {others}" if others else "no other curator is left")
        self._save()
        return True

    def _finish_round(self) -> Tensor:
        """Count the round and return its gradient.

        Raises:
            AnalystError: If the step of every curator was charged and its answer is gone.
        """
        sent, answers, members = self._sent, self._answers, self._asked
        self._sent, self._asked, self._answers = None, [], {}
        self.next_step += 1
        left = self._rounds_left()
        # with a ledger that went ahead of the others there may be fewer rounds than were planned
        self.next_step = max(self.next_step, self.num_steps - left + 1)
        self.num_steps = self.next_step - 1 + left
        self._say_who_is_done(members)
        weighted = [
            (member.config.weight, answer)
            for member in members
            if (answer := answers[member.name]) is not None
        ]
        if sent is None or not weighted:
            raise self._gone or RunClosed("RUN_CLOSED", "No curator has a step left.")
        if self._rule.combine is Combine.ROUND_ROBIN or len(weighted) == 1:
            return weighted[0][1]
        total = sum(weight for weight, _ in weighted)
        gradient = torch.zeros_like(sent)
        for weight, answer in weighted:  # in the public order, so that sums round alike
            gradient.add_(answer, alpha=weight / total)
        return gradient

    def _say_who_is_done(self, members: Sequence[Member]) -> None:
        others = ", ".join(one.name for one in self._members if one.steps_left)
        done = [one for one in members if one.state == "used"]
        if done and others and self._rule.on_loss is OnLoss.CONTINUE:
            names = ", ".join(one.name for one in done)
            self._say(f"{names}: the declared steps are used; going on with {others}")
            self._save()

    def _save(self) -> None:
        if self._folder is not None:
            self._folder.save(self._members, self._rule)
