"""What a ledger is told and what it answers, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

from curator.accounting.cost import Cost, event_cost, total_cost
from curator.accounting.event_text import event_to_text
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.rule import RULE_NAME, BudgetRule, epsilon_of_uses
from curator.errors import DatasetPaused, DatasetRetired
from curator.privacy.adjacency import Adjacency
from curator.privacy.budget import Budget, BudgetNumbers
from curator.privacy.event_numbers import check_num_steps

ACCOUNTANT: Final = RULE_NAME

NOTHING: Final = Cost.zero()
NOBODY: Final = ""
"""The holder of a run that was relinquished and not adopted since."""

Use = tuple[Cost, int]
"""A cost, and how often it counts."""


class DatasetStatus(StrEnum):
    """Whether anything may be charged to a data set; the last two are for ever."""

    ACTIVE = "active"
    PAUSED = "paused"
    RETIRED = "retired"
    ERASED = "erased"

    @property
    def is_final(self) -> bool:
        """Whether nothing will be charged again, whatever is left of the budget."""
        return self in {DatasetStatus.RETIRED, DatasetStatus.ERASED}


class RunStatus(StrEnum):
    """Whether a run may still be charged."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetRegistration:
    """A data set's cap and relation, and the public facts that the steward typed in."""

    name: str
    budget: Budget
    adjacency: Adjacency
    facts_json: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOpening:
    """Everything fixed about a run; the events let a second accountant recompute the costs."""

    run_id: str
    dataset: str
    analyst: str
    mechanism: str
    parameters_json: str
    setup: Cost
    step: Cost
    num_steps: int
    setup_event_json: str
    step_event_json: str

    def __post_init__(self) -> None:
        """Check the number of steps.

        Raises:
            ValueError: If it is not in range.
        """
        check_num_steps(self.num_steps)

    @classmethod
    def of_events(  # noqa: PLR0913 - the parts of a run
        cls,
        *,
        run_id: str,
        dataset: str,
        analyst: str,
        mechanism: str,
        parameters_json: str,
        setup_event: PrivacyEvent,
        step_event: PrivacyEvent,
        num_steps: int,
    ) -> Self:
        """Return the opening with both costs computed from the events."""
        return cls(
            run_id=run_id,
            dataset=dataset,
            analyst=analyst,
            mechanism=mechanism,
            parameters_json=parameters_json,
            setup=event_cost(setup_event),
            step=event_cost(step_event),
            num_steps=num_steps,
            setup_event_json=event_to_text(setup_event),
            step_event_json=event_to_text(step_event),
        )

    @property
    def declared(self) -> Cost:
        """The whole cost that opening reserves."""
        return self.setup + self.step * self.num_steps


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """A run as the ledger holds it.

    `used` is the durable mark, exact once the run is closed or relinquished.
    `answered` is the mark at the last takeover: what an earlier holder may have answered, and so
    the least that a close can return to.
    """

    run_id: str
    dataset: str
    analyst: str
    mechanism: str
    parameters_json: str
    setup: Cost
    step: Cost
    num_steps: int
    setup_event_json: str
    step_event_json: str
    used: int
    answered: int
    status: RunStatus
    close_reason: str
    holder: str
    epoch: int
    setup_begun: bool
    setup_digest: str
    opened_at: str
    closed_at: str

    @property
    def is_open(self) -> bool:
        """Whether the run may still be charged."""
        return self.status is RunStatus.OPEN

    @property
    def is_one_release(self) -> bool:
        """Whether all that is charged is one release, whose steps are free."""
        return self.step.is_zero and not self.setup.is_zero

    @property
    def spent_uses(self) -> tuple[Use, Use]:
        """What may have been answered: the setup once begun, and the steps up to the mark."""
        return (self.setup, int(self.setup_begun)), (self.step, self.used)

    @property
    def reserved_uses(self) -> tuple[Use, Use]:
        """What nobody else may use: all that was declared while open, then what was spent."""
        if self.is_open:
            return (self.setup, 1), (self.step, self.num_steps)
        return self.spent_uses

    @property
    def spent(self) -> Cost:
        """The cost of `spent_uses`."""
        return total_cost(self.spent_uses)

    @property
    def reserved(self) -> Cost:
        """The cost of `reserved_uses`."""
        return total_cost(self.reserved_uses)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetState:
    """A registered data set, the rule that was fixed with it, and what the steward decided since.

    `cap` only falls, and is measured with `rule`. `shares` are analysts' own caps, by name, each
    measured with a rule of its own: they allot the budget and promise nothing themselves.
    `added` is spend without a run: what an older copy of the ledger may have forgotten.
    """

    registration: DatasetRegistration
    rule: BudgetRule
    registered_at: str
    cap: float
    shares: tuple[tuple[str, float], ...] = ()
    policy_json: str = "{}"
    status: DatasetStatus = DatasetStatus.ACTIVE
    added: Cost = NOTHING

    @property
    def cap_rule(self) -> BudgetRule:
        """The rule under the present cap."""
        if self.cap == self.rule.budget.epsilon:
            return self.rule
        return replace(self.rule, budget=Budget(epsilon=self.cap, delta=self.rule.budget.delta))

    def spent_alone(self, run: RunState) -> float:
        """Return the epsilon of one run as if it were the only one; as for `Spend`."""
        return epsilon_of_uses(self.rule, run.spent_uses)

    def share(self, analyst: str) -> float | None:
        """Return an analyst's own cap, None without one."""
        return dict(self.shares).get(analyst)

    def share_rule(self, analyst: str) -> BudgetRule | None:
        """Return the rule under an analyst's own cap, None without one."""
        share = self.share(analyst)
        if share is None:
            return None
        return allotment_rule(share, self.rule.budget.delta, self.rule.chosen)

    def is_restricted(self, analyst: str) -> bool:
        """Whether a run that was opened within the caps may be beyond them by now."""
        lowered = self.cap < self.rule.budget.epsilon
        return lowered or not self.added.is_zero or self.share(analyst) is not None

    def check_active(self) -> None:
        """Return if something may be charged.

        Raises:
            DatasetPaused: If the steward has paused the data set.
            DatasetRetired: If it was retired or erased.
        """
        if self.status is DatasetStatus.PAUSED:
            raise DatasetPaused
        if self.status is not DatasetStatus.ACTIVE:
            raise DatasetRetired


@lru_cache(maxsize=256)
def allotment_rule(epsilon: float, delta: float, favourite: float | None = None) -> BudgetRule:
    """Return the rule that measures a part of a budget, such as an analyst's share."""
    return BudgetRule.register(Budget(epsilon=epsilon, delta=delta), favourite)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """The totals of a data set, or of one analyst there, for planning and calibration."""

    rule: BudgetRule
    spent: Cost
    reserved: Cost

    def numbers(self, extra: Cost) -> BudgetNumbers:
        """Return the public numbers if `extra` were reserved too."""
        return self._numbers(self.reserved + extra)

    def spent_numbers(self, extra: Cost) -> BudgetNumbers:
        """Return the public numbers if `extra` were spent too."""
        return self._numbers(self.spent + extra)

    def _numbers(self, asked: Cost) -> BudgetNumbers:
        reserved = self.rule.spent_epsilon(self.reserved)
        return BudgetNumbers(
            budget=self.rule.budget.epsilon,
            spent=self.rule.spent_epsilon(self.spent),
            reserved=reserved,
            asked=self.rule.spent_epsilon(asked),
            remaining=max(0.0, self.rule.budget.epsilon - reserved),
            delta=self.rule.budget.delta,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Spend:
    """What one analyst's runs of a data set come to, measured alone by the data set's rule.

    Such numbers do not add up to what the data set has spent: the rule measures costs together,
    and epsilon of a sum is no sum of epsilons.
    """

    analyst: str
    spent_epsilon: float
    reserved_epsilon: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What a data set has spent and what is left, all in epsilon at the budget's delta.

    `budget` is what was registered, `cap` what the steward allows of it now.
    """

    dataset: str
    budget: Budget
    cap: float
    status: DatasetStatus
    adjacency: Adjacency
    spent_epsilon: float
    reserved_epsilon: float
    remaining_epsilon: float
    accountant: str
    open_runs: tuple[RunState, ...]
