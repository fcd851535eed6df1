"""The steps that a recipe states, beside those that its budget affords by the ledger's rule."""

from __future__ import annotations

from typing import Any

from analyst.recipes import load_recipe
from curator.accounting.cost import Cost, event_cost
from curator.accounting.rule import BudgetRule
from curator.mechanisms.described import read_described
from curator.privacy.event_numbers import MAX_STEPS
from tests.fakes.barrier import FakeDataset


def stated_and_affordable_steps(name: str, facts: FakeDataset) -> tuple[int, int]:
    """Return both, at epsilon 10 and delta 1e-5."""
    recipe = load_recipe(name)
    parameters = recipe.mechanism.parameters(facts)
    table: dict[str, Any] = {
        "mechanism": {"kind": recipe.mechanism.wire_name, **parameters},
        "training": {"steps": recipe.training.steps},
    }
    run = read_described(table, {"epsilon": 10.0, "delta": 1e-5})
    rule = BudgetRule.register(run.budget)
    setup, step = event_cost(run.setup), event_cost(run.step)
    assert run.num_steps is not None
    return run.num_steps, rule.affordable_steps(Cost.zero(), setup, step, MAX_STEPS)
