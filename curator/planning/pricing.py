"""What a run must stay within, and what it costs, by public facts and the ledger; charges nothing.

A run is bounded by the data set's budget, by the caller's own share of it, and by the steward's
policy. All of them are asked with the same integers that opening the run would charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from curator.accounting.cost import Cost, event_cost
from curator.accounting.rule import BudgetRule
from curator.errors import MalformedRequest, PolicyRefused
from curator.ledger.ledger import NOTHING, Account, DatasetState, DatasetStatus, Ledger, RunState
from curator.mechanisms.base import ServedMechanism
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import MAX_STEPS
from curator.privacy.facts import DatasetFacts
from curator.service.caller import Caller
from curator.service.steward_policy import StewardPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """The two costs of a run."""

    setup: Cost
    step: Cost

    @classmethod
    def of(cls, mechanism: ServedMechanism) -> Self:
        """Return the price of a mechanism."""
        return cls(
            setup=event_cost(mechanism.setup_event()), step=event_cost(mechanism.step_event())
        )

    def times(self, num_steps: int) -> Cost:
        """Return what a run of so many steps reserves."""
        return self.setup + self.step * num_steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """Everything that a run is measured against, as the ledger has it now."""

    facts: DatasetFacts
    rule: BudgetRule
    registered: BudgetRule  # the same before any cap was lowered
    reserved: Cost
    share: Account | None
    policy: StewardPolicy
    obstacle: str  # why no run would be opened now, whatever it costs; empty if there is none
    is_over: bool = False  # no run will ever be opened again

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        facts: DatasetFacts,
        caller: Caller,
        max_open_runs: int,
        policy: StewardPolicy | None = None,
        *,
        in_service: bool = True,
    ) -> Self:
        """Read what one caller may spend of one data set.

        Args:
            ledger: Where it is written.
            facts: Of the data set.
            caller: Who may have a cap of its own.
            max_open_runs: Of one analyst here.
            policy: Instead of the steward's present one, to try another.
            in_service: Whether nothing that is stored of the data set is damaged.
        """
        account, state = ledger.account(facts.name), ledger.dataset(facts.name)
        policy = policy or StewardPolicy.of(state)
        return cls(
            facts=facts,
            rule=account.rule,
            registered=state.rule,
            reserved=account.reserved,
            share=ledger.share(facts.name, caller.name),
            policy=policy,
            obstacle=_obstacle(
                state,
                policy,
                ledger.open_runs(analyst=caller.name),
                max_open_runs,
                in_service=in_service,
            ),
            is_over=state.status.is_final,
        )

    def after(self, cost: Cost) -> Self:
        """Return the same after runs of the caller that reserve so much more."""
        own = self.share
        own = None if own is None else replace(own, reserved=own.reserved + cost)
        return replace(self, reserved=self.reserved + cost, share=own)

    def allow(self, mechanism: ServedMechanism) -> bool:
        """Return whether the steward's policy allows a mechanism with its parameters."""
        try:
            self.policy.check_mechanism(mechanism.name, mechanism)
        except PolicyRefused:
            return False
        return True

    def affordable_steps(self, price: Price) -> int:
        """Return the most steps that a run may declare; 0 when not even the first is affordable."""
        return self.by_policy(price, self.by_share(price, self.by_budget(price)))

    def by_budget(self, price: Price) -> int:
        """Return the most steps that the rest of the data set's budget affords."""
        return self.rule.affordable_steps(self.reserved, price.setup, price.step, MAX_STEPS)

    def by_share(self, price: Price, at_most: int) -> int:
        """Return the most steps, up to `at_most`, that the caller's share affords."""
        if self.share is None:
            return at_most
        reserved = self.share.reserved
        return self.share.rule.affordable_steps(reserved, price.setup, price.step, at_most)

    def by_policy(self, price: Price, at_most: int) -> int:
        """Return the most steps, up to `at_most`, that the policy allows."""
        most = min(at_most, self.policy.max_steps or MAX_STEPS)
        alone = self.policy.epsilon_rule(self.registered)
        if alone is None:
            return most
        return alone.affordable_steps(NOTHING, price.setup, price.step, most)

    def epsilon_after(self, price: Price, num_steps: int) -> float:
        """Return the data set's epsilon with the run's whole cost, by the ledger's rule."""
        return self.rule.spent_epsilon(self.reserved + price.times(num_steps))

    @staticmethod
    def share_after(share: Account, price: Price, num_steps: int) -> float:
        """Return the epsilon of an analyst's share with the run's whole cost, measured alone."""
        return share.rule.spent_epsilon(share.reserved + price.times(num_steps))

    def steps_to(self, price: Price, epsilon: float) -> int:
        """Return the most steps that bring the data set's total to an epsilon.

        Args:
            price: Of the run.
            epsilon: At most the budget counts.

        Raises:
            MalformedRequest: If it is not a budget, or reached already.
        """
        rule = self.target(epsilon)
        return rule.affordable_steps(self.reserved, price.setup, price.step, MAX_STEPS)

    def target(self, epsilon: float) -> BudgetRule:
        """Return the data set's rule with a lower cap.

        Args:
            epsilon: At most the budget counts.

        Raises:
            MalformedRequest: If it is not a budget, or reached already.
        """
        try:
            budget = Budget(epsilon=epsilon, delta=self.rule.budget.delta)
        except ValueError as error:
            raise MalformedRequest(str(error), "epsilon") from None
        lower = budget.epsilon < self.rule.budget.epsilon
        rule = replace(self.rule, budget=budget) if lower else self.rule
        if lower and not rule.admits(self.reserved):
            msg = (
                f"epsilon is the data set's total afterwards, and "
                f"{self.rule.spent_epsilon(self.reserved):.4f} of it is spent or reserved already"
            )
            raise MalformedRequest(msg, "epsilon")
        return rule


def _obstacle(
    state: DatasetState,
    policy: StewardPolicy,
    mine: Sequence[RunState],
    max_open_runs: int,
    *,
    in_service: bool,
) -> str:
    """Return why a caller could open no run on a data set now; empty if it could.

    Args:
        state: Of the data set.
        policy: Of the steward.
        mine: The caller's open runs.
        max_open_runs: Of one analyst here.
        in_service: Whether nothing that is stored of the data set is damaged.
    """
    if state.status is not DatasetStatus.ACTIVE:
        return f"the data set is {state.status} by the steward"
    if not in_service:
        return "the data set is out of service until the steward has restored its stored images"
    here = sum(run.dataset == state.registration.name for run in mine)
    for count, most in ((here, policy.max_open_runs), (len(mine), max_open_runs)):
        if most is not None and count >= most:
            return (
                f"{count} of at most {most} runs are open ('analyst runs --open' lists them, "
                "'analyst close' ends one)"
            )
    return ""
