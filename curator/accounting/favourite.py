"""Which order a budget's weights should favour, for a method that is known in advance."""

from __future__ import annotations

from curator.accounting.cost import Cost
from curator.accounting.orders import ORDERS
from curator.accounting.rule import BudgetRule, default_favourite
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import MAX_STEPS


def favourite_for(budget: Budget, setup: Cost, step: Cost) -> float:
    """Return the order whose rule affords most of a method.

    Args:
        budget: Of the data set, unspent.
        setup: What one run of it costs beside its steps.
        step: What each of its steps costs; a method that is charged once has none.

    Returns:
        An order of the grid; the default one unless another is better.

    Privacy:
        Looks at public numbers only, so the rule that follows is fixed without the data.
    """
    default = default_favourite(budget)

    def value(order: float) -> tuple[float, float, bool]:
        rule = BudgetRule.register(budget, order)
        if step.is_zero:
            return (0.0, -rule.spent_epsilon(setup), order == default)
        nothing = Cost.zero()
        steps = rule.affordable_steps(nothing, setup, step, MAX_STEPS)
        return (steps, -rule.spent_epsilon(setup + step), order == default)

    return max(ORDERS, key=value)
