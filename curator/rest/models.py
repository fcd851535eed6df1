"""The documented answers of the REST API."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from curator.ledger.ledger import NOTHING, Account, RunState, Spend, Statement
from curator.privacy.facts import DatasetFacts, is_rehearsal


class Readiness(BaseModel):
    """Whether the curator takes steps."""

    status: str


class Head(BaseModel):
    """The last entry of the ledger; whoever keeps it notices an older ledger."""

    sequence: int
    digest: str


class Identity(BaseModel):
    """The key that signs this curator's certificates: Ed25519, base64, and its fingerprint."""

    certificate_key: str
    fingerprint: str


class Dataset(BaseModel):
    """Public facts of a data set, as the steward declared them."""

    dataset: str
    channels: int
    height: int
    width: int
    classes: list[str]
    nominal_size: int
    capacity: int
    sampling_rate: float
    adjacency: str
    unit: str
    max_records_per_group: int | None
    epsilon: float
    delta: float
    rehearsal: bool
    policy: dict[str, str]

    @classmethod
    def of(cls, facts: DatasetFacts, policy: dict[str, str]) -> Dataset:
        """Return the answer for one data set.

        Args:
            facts: What the steward declared.
            policy: The steward's rules by name.
        """
        return cls(
            **facts.model_dump(include=set(cls.model_fields)),
            dataset=facts.name,
            adjacency=str(facts.adjacency),
            policy=policy,
        )


class Run(BaseModel):
    """A run: its fixed parameters, how far it is, and its epsilon as if it were the only one.

    Such numbers do not add up to what the data set has spent, which is measured together.
    """

    run_id: str
    dataset: str
    analyst: str
    mechanism: str
    parameters: str
    status: str
    close_reason: str
    steps_used: int
    steps_reserved: int
    epsilon_spent_alone: float
    opened_at: str
    closed_at: str

    @classmethod
    def of(cls, state: RunState, spent_alone: float) -> Run:
        """Return the answer for one run.

        Args:
            state: By the ledger. A closed run reserves nothing beyond what it used.
            spent_alone: Its epsilon, measured alone by its data set's rule.
        """
        return cls(
            run_id=state.run_id,
            dataset=state.dataset,
            analyst=state.analyst,
            mechanism=state.mechanism,
            parameters=state.parameters_json,
            status=state.status,
            close_reason=state.close_reason,
            steps_used=state.used,
            steps_reserved=state.num_steps if state.is_open else state.used,
            epsilon_spent_alone=spent_alone,
            opened_at=state.opened_at,
            closed_at=state.closed_at,
        )


class Epsilon(BaseModel):
    """Epsilon at the data set's delta: the cap, what is spent or reserved, and what is left.

    `budget` is what the steward allows now, at most what was `registered`.
    """

    registered: float
    budget: float
    spent: float
    reserved: float
    remaining: float


class Share(BaseModel):
    """The caller's own part of the budget, measured alone."""

    budget: float
    spent: float
    reserved: float
    remaining: float

    @classmethod
    def of(cls, account: Account | None) -> Share | None:
        """Return the answer for one analyst, None without a share."""
        if account is None:
            return None
        numbers = account.numbers(NOTHING)
        return cls(
            budget=numbers.budget,
            spent=numbers.spent,
            reserved=numbers.reserved,
            remaining=numbers.remaining,
        )


class AnalystSpend(BaseModel):
    """Epsilon of one analyst's runs, measured alone by the data set's rule.

    Such numbers do not add up to what the data set has spent, which is measured together.
    """

    analyst: str
    spent: float
    reserved: float

    @classmethod
    def of(cls, spend: Spend) -> AnalystSpend:
        """Return the answer for one analyst."""
        spent, reserved = spend.spent_epsilon, spend.reserved_epsilon
        return cls(analyst=spend.analyst, spent=spent, reserved=reserved)


class Delta(BaseModel):
    """Delta is fixed with the budget: the first charge uses all of it, and no later one more."""

    budget: float
    spent: float
    remaining: float


class BudgetAnswer(BaseModel):
    """What is left of a data set, over all analysts, and the caller's open runs.

    `analysts` are those with a run, for the steward and the auditor all, for an analyst itself.
    """

    dataset: str
    adjacency: str
    unit: str
    accountant: str
    status: str
    rehearsal: bool
    epsilon: Epsilon
    delta: Delta
    your_share: Share | None
    analysts: list[AnalystSpend]
    open_runs: list[Run]

    @classmethod
    def of(
        cls,
        statement: Statement,
        runs: list[Run],
        share: Account | None = None,
        spends: Iterable[Spend] = (),
    ) -> BudgetAnswer:
        """Return the answer for one data set.

        Args:
            statement: By the ledger.
            runs: Open runs that the caller may see.
            share: Of the caller, if there is one.
            spends: Of the analysts that the caller may see.
        """
        delta = statement.budget.delta
        used = delta if statement.spent_epsilon > 0 else 0.0
        return cls(
            dataset=statement.dataset,
            adjacency=str(statement.adjacency),
            unit=statement.adjacency.unit,
            accountant=statement.accountant,
            status=statement.status,
            rehearsal=is_rehearsal(statement.dataset),
            epsilon=Epsilon(
                registered=statement.budget.epsilon,
                budget=statement.cap,
                spent=statement.spent_epsilon,
                reserved=statement.reserved_epsilon,
                remaining=statement.remaining_epsilon,
            ),
            delta=Delta(budget=delta, spent=used, remaining=delta - used),
            your_share=Share.of(share),
            analysts=[AnalystSpend.of(spend) for spend in spends],
            open_runs=runs,
        )
