"""Several curators in the place of one: the training loop does not notice the difference.

Nothing is opened before all curators were asked for their facts and their plans. If one refuses to
open its run, the runs that were opened before are closed again, unused. Where a mechanism releases
something when a run opens, that release is charged all the same, and stays yours to download.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from typing import Any, NoReturn, Self, final

from analyst.errors import AnalystError, FederationError
from analyst.facts import ImageFacts, PlanTotals
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.members import NO_RUN, Member, ask_member, close_members, open_all
from analyst.training.federation.rounds import (
    OnLoss,
    Rule,
    joined_facts,
    joined_plan,
    rounds_left,
    shares,
)
from analyst.training.federation.run import FederatedRun
from analyst.training.run_source import Curator

Parameters = Callable[[ImageFacts], dict[str, Any]]
Say = Callable[[str], None]


@final
class Federation:
    """A `RunSource` over several curators."""

    def __init__(
        self,
        members: Sequence[Member],
        rule: Rule,
        parameters: Parameters,
        *,
        folder: FederationFolder | None,
        say: Say,
    ) -> None:
        """Take connected curators.

        Args:
            members: In the public order.
            rule: How they go together.
            parameters: Of the mechanism, from the facts of one curator: rates refer to its size.
            folder: Where the federation and its certificates are kept.
            say: Told of what is lost or left out.
        """
        self.members = list(members)
        self.rule = rule
        self._parameters = parameters
        self._folder = folder
        self._say = say
        self._reached: tuple[int, int] | None = None
        self._facts: dict[str, ImageFacts] = {}
        self._executor = ThreadPoolExecutor(len(self.members), thread_name_prefix="curator")

    def __enter__(self) -> Self:
        """Return the federation."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End the threads; open runs stay open and can be resumed."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def reached(self, next_step: int, num_steps: int) -> None:
        """Say where the checkpoint is that a resumed run goes on from."""
        self._reached = (next_step, num_steps)

    def describe(self, dataset: str) -> ImageFacts:
        """Return what all curators agree on.

        Args:
            dataset: Name of the data set at curators that name none of their own.
        """
        for member in self.members:
            name = member.config.dataset or dataset
            facts: ImageFacts = ask_member(member, methodcaller("describe", name), say=self._say)
            self._facts[member.name] = facts
            member.dataset = self._facts[member.name].name
        return joined_facts(self._facts)

    def plan(
        self,
        dataset: str,
        mechanism: str,
        parameters: Mapping[str, Any],
        *,
        num_steps: int | None = None,
        epsilon: float | None = None,
    ) -> PlanTotals:
        """Return what rounds cost; nothing is charged.

        Args:
            dataset: Not needed: each curator has its own.
            mechanism: Wire name.
            parameters: Not needed: each curator has its own.
            num_steps: Rounds; all that the budgets afford if this is None.
            epsilon: Or the epsilon that each data set's total may reach.
        """
        del dataset, parameters
        plans = self._plans(mechanism, None, epsilon)
        lefts = [plan.affordable_steps if epsilon is None else plan.num_steps for plan in plans]
        most = rounds_left(lefts, self.rule, next_round=1)
        return joined_plan(plans, num_rounds=num_steps or most, affordable_rounds=most)

    def open_run(
        self, dataset: str, mechanism: str, parameters: Mapping[str, Any], *, num_steps: int
    ) -> FederatedRun:
        """Reserve the whole cost at every curator and return their runs as one.

        Raises:
            AnalystError: If a curator refuses; the runs that were opened before are closed again.
        """
        del dataset, parameters
        plans = self._plans(mechanism, num_steps, None)
        most = [num_steps if plan.fits else plan.affordable_steps for plan in plans]
        share_K = shares(num_steps, most, self.rule)
        if not any(share_K):
            share_K = [1] * len(share_K)  # nothing is affordable: let a curator itself refuse
        # who cannot afford its share is asked first: it refuses before anything is opened
        order = sorted(range(len(plans)), key=lambda k: share_K[k] <= most[k])
        questions = [
            self._question("open_run", member, mechanism, num_steps=share)
            for member, share in zip(self.members, share_K, strict=True)
        ]
        open_all(self.members, order, share_K, questions, say=self._say)
        return self._run()

    def resume_run(self, run_id: str) -> FederatedRun:
        """Return the runs at the steps that their ledgers say are next.

        Args:
            run_id: All ids, joined by '+', in the order of the curators.

        Returns:
            The run; under `continue` a curator that does not answer is lost from the start.

        Raises:
            FederationError: If there are more or fewer ids than curators.
            AnalystError: If a curator does not know its run, or none of them answers.
        """
        run_ids = run_id.split("+")
        if len(run_ids) != len(self.members):
            message = f"the run is one of {len(run_ids)} curators, not of {len(self.members)}"
            raise FederationError(message, "Name the same curators in the same order.")
        for member, one in zip(self.members, run_ids, strict=True):
            member.run_id = one
            self._resume(member)
        problems = [member.problem for member in self.members if member.problem is not None]
        if len(problems) == len(self.members):
            raise problems[0]
        return self._run()

    def close(self) -> list[AnalystError]:
        """End the runs of all; return what went wrong, one per run that may still be open."""
        return close_members(self.members, self._executor, folder=self._folder, say=self._say)

    def _run(self) -> FederatedRun:
        run = FederatedRun(
            self.members, self.rule, self._executor, folder=self._folder, say=self._say
        )
        if self._reached is not None:
            run.go_on_from(*self._reached)
        if self._folder is not None:
            self._folder.save(self.members, self.rule)
        return run

    def _plans(
        self, mechanism: str, num_steps: int | None, epsilon: float | None
    ) -> list[PlanTotals]:
        return [
            ask_member(
                member,
                self._question("plan", member, mechanism, num_steps=num_steps, epsilon=epsilon),
                say=self._say,
            )
            for member in self.members
        ]

    def _question(
        self, method: str, member: Member, mechanism: str, **options: float | None
    ) -> Callable[[Curator], Any]:
        """Return a question to one curator about its own data set, with parameters for it."""
        facts = self._facts[member.name]
        return methodcaller(method, facts.name, mechanism, self._parameters(facts), **options)

    def _resume(self, member: Member) -> None:
        """Resume one run.

        Raises:
            AnalystError: If a loss stops all, and this is one.
        """
        member.dataset = member.config.dataset or ""
        try:
            if member.run_id == NO_RUN:
                _raise_no_run()
            member.take(
                ask_member(member, methodcaller("resume_run", member.run_id), say=self._say)
            )
        except AnalystError as error:
            if self.rule.on_loss is OnLoss.STOP:
                raise
            member.problem = error
            self._say(f"curator {member.name} is lost; going on without it")


def _raise_no_run() -> NoReturn:
    """Say that a curator was left out when the run was opened.

    Raises:
        FederationError: Always.
    """
    message = "a curator was left out when the run was opened"
    raise FederationError(message, "Go on without it: --on-loss continue.")
