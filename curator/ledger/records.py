"""What a ledger is told and what it answers: frozen values, and the errors that it raises."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from curator.accounting.cost import Cost, event_cost, total_cost
from curator.accounting.event_text import event_to_text
from curator.accounting.rule import RULE_NAME, BudgetRule
from curator.errors import BudgetNumbers, LedgerUnavailable
from curator.privacy.adjacency import Adjacency
from curator.privacy.budget import Budget
from curator.privacy.event import PrivacyEvent, check_num_steps

ACCOUNTANT: Final = RULE_NAME

Use = tuple[Cost, int]
"""A cost, and how often it counts."""


class LedgerConflict(ValueError):
    """The caller asked for something that cannot follow what is written; a mistake in a program."""


class DatasetExists(LedgerConflict):
    """A data set of this name is registered; its budget never changes."""


class RunExists(LedgerConflict):
    """A run of this id was opened before."""


class HolderLost(LedgerUnavailable):
    """Another process took the run over; this one may neither count nor release anything."""


class HolderAlive(LedgerUnavailable):
    """Another process holds the run, and its lease has not run out."""


class LedgerLocked(RuntimeError):
    """Another process writes this ledger."""


class LedgerFromTheFuture(RuntimeError):
    """The ledger was written by a newer version of this software."""


class ChainBroken(RuntimeError):
    """The ledger was changed by something other than this software."""


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
    """A run as the ledger holds it. `used` is the durable mark, exact once the run is closed.

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
    """A registered data set and the rule that was fixed with it."""

    registration: DatasetRegistration
    rule: BudgetRule
    registered_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """The totals of one data set, for planning and calibration."""

    rule: BudgetRule
    spent: Cost
    reserved: Cost

    def numbers(self, extra: Cost) -> BudgetNumbers:
        """Return the public numbers if `extra` were reserved too."""
        reserved = self.rule.spent_epsilon(self.reserved)
        return BudgetNumbers(
            budget=self.rule.budget.epsilon,
            spent=self.rule.spent_epsilon(self.spent),
            reserved=reserved,
            asked=self.rule.spent_epsilon(self.reserved + extra),
            remaining=max(0.0, self.rule.budget.epsilon - reserved),
            delta=self.rule.budget.delta,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What a data set has spent and what is left, all in epsilon at the budget's delta."""

    dataset: str
    budget: Budget
    adjacency: Adjacency
    spent_epsilon: float
    reserved_epsilon: float
    remaining_epsilon: float
    accountant: str
    open_runs: tuple[RunState, ...]
