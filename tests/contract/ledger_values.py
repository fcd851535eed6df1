"""Small data sets and runs for the tests of ledgers."""

from __future__ import annotations

from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.rule import BudgetRule
from curator.ledger.ledger import DatasetRegistration, RunOpening
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate as Rate

BUDGET = Budget(epsilon=3.0, delta=1e-6)
STEP = SampledGaussianEvent(sampling_rate=Rate.at_least(0.01), noise_multiplier=1.0)
SETUP = GaussianEvent(noise_multiplier=8.0)


def registration(name: str = "d", budget: Budget = BUDGET) -> DatasetRegistration:
    adjacency = Adjacency(relation=Relation.ADD_OR_REMOVE, unit=Unit.RECORD)
    return DatasetRegistration(name=name, budget=budget, adjacency=adjacency, facts_json="{}")


def opening(
    run_id: str = "r",
    num_steps: int = 10,
    *,
    dataset: str = "d",
    analyst: str = "ann",
    setup: PrivacyEvent | None = None,
    step: PrivacyEvent = STEP,
) -> RunOpening:
    return RunOpening.of_events(
        run_id=run_id,
        dataset=dataset,
        analyst=analyst,
        mechanism="m",
        parameters_json='{"z":1}',
        setup_event=setup or NoEvent(),
        step_event=step,
        num_steps=num_steps,
    )


def most_steps(setup: PrivacyEvent | None = None) -> int:
    """The exact number of steps that an unused data set affords."""
    first = event_cost(setup or NoEvent())
    return BudgetRule.register(BUDGET).affordable_steps(Cost.zero(), first, event_cost(STEP), 10**7)
