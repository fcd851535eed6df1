"""Tables that answer, before anything is charged: what do steps cost, what does an epsilon buy?"""

from __future__ import annotations

from collections.abc import Iterable

from analyst.errors import BudgetExhausted, ShareExhausted
from analyst.recipes import Recipe
from analyst.recipes.mechanisms import describe_cost
from analyst.training.ports import BarrierPort, BudgetPort, PlanPort

_FRACTIONS = (0.1, 0.25, 0.5, 0.75, 1.0)


def plan_table(
    barrier: BarrierPort, recipe: Recipe, *, num_steps: int | None, epsilon: float | None
) -> str:
    """Return the plan of a recipe as text; charges nothing.

    Args:
        barrier: The curator.
        recipe: Data set and mechanism.
        num_steps: Steps to price; the recipe's if neither this nor `epsilon` is given.
        epsilon: Or the epsilon that the data set's total may reach.

    Returns:
        A few lines and a table.
    """
    mechanism = recipe.mechanism
    facts = barrier.describe(recipe.training.dataset)
    parameters = mechanism.parameters(facts)

    def ask(*, steps: int | None = None, spend: float | None = None) -> PlanPort:
        return barrier.plan(
            facts.name, mechanism.wire_name, parameters, num_steps=steps, epsilon=spend
        )

    overall = ask()
    lines = [
        (
            f"data set    {facts.name}: epsilon {facts.epsilon:g} at delta {facts.delta:g}, "
            f"{overall.remaining:.4f} left"
        ),
        f"mechanism   {mechanism.kind}: {describe_cost(mechanism)}",
    ]
    if not mechanism.pays_per_step:
        release = ask(steps=1)
        lines.append(_verdict("the release", release))
        return "\n".join(lines)
    lines.append(f"affordable  {overall.affordable_steps:,} steps")
    if num_steps is None and epsilon is None and recipe.training.steps != "all":
        num_steps = recipe.training.steps
    if num_steps is not None:
        lines.append(_verdict(f"{num_steps:,} steps", ask(steps=num_steps)))
    if epsilon is not None:
        bought = ask(spend=epsilon)
        lines.append(_verdict(f"up to epsilon {epsilon:g}, {bought.num_steps:,} steps", bought))
    most = overall.affordable_steps
    counts = sorted({max(1, round(fraction * most)) for fraction in _FRACTIONS}) if most else [1]
    lines += ["", _row("steps", "epsilon alone", "epsilon after", "fits")]
    lines += [_plan_row(ask(steps=count)) for count in counts]
    return "\n".join(lines)


def statement(budget: BudgetPort) -> str:
    """Return what is left of a data set's budget, as text."""
    return (
        f"data set    {budget.dataset}{_decided(budget)}\n"
        f"guarantee   ({budget.registered_epsilon:g}, {budget.delta:g})-differential privacy, "
        f"{budget.adjacency}, unit: {budget.unit}\n"
        f"accountant  {budget.accountant}\n"
        f"spent       epsilon {budget.spent:.4f}\n"
        f"reserved    epsilon {budget.reserved:.4f}  (spent and all open runs together)\n"
        f"remaining   epsilon {budget.remaining:.4f}\n"
        f"{_bar(budget.spent, budget.reserved, budget.epsilon)}"
    )


def _decided(budget: BudgetPort) -> str:
    """Return what the steward decided, each on a line of its own."""
    lines = [] if budget.status == "active" else [f"status      {budget.status} by the steward"]
    if budget.epsilon < budget.registered_epsilon:
        lines.append(f"cap         epsilon {budget.epsilon:g}, lowered by the steward")
    if budget.share is not None:
        lines.append(
            f"your share  epsilon {budget.share.spent:.4f} spent of {budget.share.epsilon:g}, "
            f"{budget.share.remaining:.4f} left"
        )
    return "".join(f"\n{line}" for line in lines)


def explain_refusal(error: BudgetExhausted) -> str:
    """Say in words why the curator refused, from the ledger's public numbers."""
    numbers = error.numbers
    if isinstance(error, ShareExhausted):
        whose, after = (
            "your share of the data set's budget, as the steward set it",
            (
                "Asking again does not help; the steward can change a share. What was released is "
                "yours;\n"
            ),
        )
    else:
        whose, after = (
            "the promise to the people in the data",
            (
                "Asking again does not help: a spent budget does not refill. What was released is "
                "yours;\n"
            ),
        )
    return (
        "The curator refused, and nothing was charged.\n"
        f"  budget     epsilon {numbers.budget:.4f} at delta {numbers.delta:g}: {whose}\n"
        f"  spent      epsilon {numbers.spent:.4f} by answers that were given\n"
        f"  reserved   epsilon {numbers.reserved:.4f} by those and all open runs\n"
        f"  remaining  epsilon {numbers.remaining:.4f}\n"
        f"  asked      the request would bring the total to epsilon {numbers.asked:.4f}, "
        "past the budget\n"
        f"{after}"
        "training on it, sampling and evaluating cost nothing more."
    )


def show_refusal(barrier: BarrierPort, recipe: Recipe) -> str:
    """Ask for one more step and return the curator's refusal in words.

    Args:
        barrier: The curator.
        recipe: What one more step would be.

    Returns:
        The refusal explained; or that one more step is affordable, in which case none is asked.
    """
    mechanism = recipe.mechanism
    facts = barrier.describe(recipe.training.dataset)
    parameters = mechanism.parameters(facts)
    plan = barrier.plan(facts.name, mechanism.wire_name, parameters, num_steps=1)
    if plan.fits:
        return (
            f"One more step would not be refused: epsilon {plan.remaining:.4f} is left, and the "
            f"step would bring the total to {plan.epsilon_after:.4f}. None was asked."
        )
    try:
        run = barrier.open_run(facts.name, mechanism.wire_name, parameters, num_steps=1)
    except BudgetExhausted as error:
        return f"Asked for one more step.\n{explain_refusal(error)}"
    run.close()
    return "One more step was affordable after all; its run was closed unused."


def _verdict(what: str, plan: PlanPort) -> str:
    verb = "fits" if plan.fits else "does not fit"
    return (
        f"asked       {what}: epsilon {plan.epsilon_alone:.4f} alone, "
        f"{plan.epsilon_after:.4f} in total afterwards; {verb}"
    )


def _plan_row(plan: PlanPort) -> str:
    return _row(
        f"{plan.num_steps:,}",
        f"{plan.epsilon_alone:.4f}",
        f"{plan.epsilon_after:.4f}",
        "yes" if plan.fits else "no",
    )


def _row(*cells: str) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))


_WIDTHS: Iterable[int] = (12, 14, 14, 5)


def _bar(spent: float, reserved: float, total: float, width: int = 50) -> str:
    used = min(width, round(width * spent / total))
    held = min(width, round(width * reserved / total)) - used
    return "[" + "#" * used + "+" * max(0, held) + "." * (width - used - max(0, held)) + "]"
