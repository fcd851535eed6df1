"""What is left of a budget, and why a curator refuses, in words and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from analyst.errors import BudgetExhausted, ShareExhausted
from analyst.facts import Budget, DatasetFacts
from analyst.rehearsal import BANNER, NO_LIMIT, is_rehearsal
from analyst.training.run_source import Curator

if TYPE_CHECKING:
    from analyst.recipes import Recipe

_FINAL: Final = frozenset({"retired", "erased"})
"""What a steward does for ever: whatever is left of the budget cannot be spent."""

NO_DATASETS: Final = (
    "no data sets: the steward of this curator has added none yet; ask, and try again later"
)


def statement(budget: Budget) -> str:
    """Return what is left of a data set's budget, as text."""
    if is_rehearsal(budget.dataset):
        return (
            f"{BANNER}\n"
            f"data set    {budget.dataset}{_decided(budget)}\n"
            f"guarantee   none; the real one would be {budget.adjacency}, delta {budget.delta:g}\n"
            f"accountant  {budget.accountant}\n"
            f"spent       epsilon {budget.spent:.4f}, as the real one would\n"
            f"reserved    epsilon {budget.reserved:.4f}\n"
            f"remaining   {_left(budget)}"
        )
    if budget.status in _FINAL:
        left = f"nothing: no step will be answered again, as the data set is {budget.status}"
    else:
        bar = _bar(budget.spent, budget.reserved, budget.epsilon)
        left = f"epsilon {budget.remaining:.4f}\n{bar}"
    return (
        f"data set    {budget.dataset}{_decided(budget)}\n"
        f"guarantee   ({budget.registered_epsilon:g}, {budget.delta:g})-differential privacy, "
        f"{budget.adjacency}, unit: {budget.unit}\n"
        f"accountant  {budget.accountant}\n"
        f"spent       epsilon {budget.spent:.4f}\n"
        f"reserved    epsilon {budget.reserved:.4f}  (spent and all open runs together)\n"
        f"remaining   {left}"
    )


def statement_json(budget: Budget) -> dict[str, Any]:
    """Return the same as plain values."""
    share = budget.share
    return {
        "dataset": budget.dataset,
        "status": budget.status,
        "rehearsal": is_rehearsal(budget.dataset),
        "adjacency": budget.adjacency,
        "unit": budget.unit,
        "accountant": budget.accountant,
        "delta": budget.delta,
        "epsilon": {
            "registered": budget.registered_epsilon,
            "budget": budget.epsilon,
            "spent": budget.spent,
            "reserved": budget.reserved,
            "remaining": budget.remaining,
        },
        "your_share": None
        if share is None
        else {
            "budget": share.epsilon,
            "spent": share.spent,
            "reserved": share.reserved,
            "remaining": share.remaining,
        },
    }


def facts_text(facts: DatasetFacts) -> str:
    """Return what a recipe must fit, as text."""
    rules = ", ".join(f"{rule} {value}" for rule, value in facts.policy)
    return (
        f"images      {facts.channels}x{facts.height}x{facts.width}, {len(facts.classes)} classes: "
        f"{', '.join(facts.classes)}\n"
        f"sampling    rate at most {facts.sampling_rate:g} of nominally {facts.nominal_size:,}, "
        f"capacity {facts.capacity}\n"
        f"policy      {rules or 'no rules'}"
    )


def facts_json(facts: DatasetFacts) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "image_shape": [facts.channels, facts.height, facts.width],
        "classes": list(facts.classes),
        "nominal_size": facts.nominal_size,
        "sampling_rate": facts.sampling_rate,
        "capacity": facts.capacity,
        "policy": dict(facts.policy),
    }


def _decided(budget: Budget) -> str:
    """Return what the steward decided, each on a line of its own."""
    lines = [] if budget.status == "active" else [f"status      {budget.status} by the steward"]
    if budget.epsilon < budget.registered_epsilon:
        lines.append(f"cap         epsilon {budget.epsilon:g}, lowered by the steward")
    lines += share_lines(budget)
    return "".join(f"\n{line}" for line in lines)


def what_is_left(budget: Budget) -> str:
    """Return what is left of a budget, in a few words."""
    return budget.status if budget.status in _FINAL else f"{budget.remaining:.4f} left"


def share_lines(budget: Budget) -> list[str]:
    """Return the line about the analyst's own share, none if there is no share."""
    share = budget.share
    if share is None:
        return []
    numbers = (
        f"{share.spent:.4f} spent, {share.reserved:.4f} with your open runs, "
        f"{share.remaining:.4f} left"
    )
    alone = "(counted alone, so not a part of the total)"
    return [f"your share  epsilon {share.epsilon:g}: {numbers} {alone}"]


def reserved_text(budget: Budget) -> str:
    """Return what open runs hold, before the first step of one that was just opened."""
    share = budget.share
    held = f"epsilon {budget.reserved:.4f} of {budget.epsilon:g} with all open runs"
    if share is not None:
        held += f", {share.reserved:.4f} of your share of {share.epsilon:g} (counted alone)"
    return f"reserved: {held}; what the run does not use goes back when it is closed"


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


def show_refusal(barrier: Curator, recipe: Recipe) -> str:
    """Ask for one more step and return the curator's refusal in words.

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


def _left(budget: Budget) -> str:
    """Return what is left of a rehearsal, whose cap may have been lowered to rehearse a refusal."""
    if budget.status in _FINAL:
        return f"nothing: the data set is {budget.status}"
    return "no limit" if budget.epsilon >= NO_LIMIT else f"epsilon {budget.remaining:.4f}"


def _bar(spent: float, reserved: float, total: float, width: int = 50) -> str:
    used = min(width, round(width * spent / total))
    held = min(width, round(width * reserved / total)) - used
    return "[" + "#" * used + "+" * max(0, held) + "." * (width - used - max(0, held)) + "]"
