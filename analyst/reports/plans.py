"""Answers before anything is charged: what do steps cost, what does an epsilon buy, which noise?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from analyst.facts import ImageFacts, Plan, PlanQuestion
from analyst.recipes.books import AnyRecipe
from analyst.rehearsal import BANNER, is_rehearsal, limit_text
from analyst.reports.budgets import share_lines, what_is_left
from analyst.screen import table_text
from analyst.training.run_source import Curator

_HEADS = ("noise", "steps", "epsilon after", "fits")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanReport:
    """A plan with what was asked; charges nothing."""

    facts: ImageFacts
    kind: str
    cost: str
    pays_per_step: bool
    question: PlanQuestion
    plan: Plan
    other_noises: tuple[tuple[str, float], ...] = ()  # that stay as the recipe has them

    def text(self) -> str:
        """Return a few lines, a table, and what the plan wastes."""
        plan = self.plan
        rehearsal = is_rehearsal(self.facts.name)
        left = "" if rehearsal else f", {what_is_left(plan.budget)}"
        lines = [BANNER] if rehearsal else []
        lines += [
            (
                f"data set    {self.facts.name}: epsilon {limit_text(plan.budget.epsilon)} at "
                f"delta {self.facts.delta:g}{left}"
            ),
            *share_lines(plan.budget),
            f"mechanism   {self.kind}: {self.cost}",
        ]
        lines += [
            f"fixed       {name} {value:g}; the noise below is noise_multiplier"
            for name, value in self.other_noises
        ]
        if self.pays_per_step and not rehearsal:
            lines.append(f"affordable  {plan.affordable_steps:,} steps")
        lines += [f"asked       {self._answer()}", "", table_text(_HEADS, self._rows())]
        lines += [f"note: {one}" for one in plan.advice]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the same numbers, named as the curator's REST API names them."""
        plan = self.plan
        return {
            "dataset": self.facts.name,
            "rehearsal": is_rehearsal(self.facts.name),
            "mechanism": self.kind,
            "num_steps": plan.num_steps,
            "affordable_steps": plan.affordable_steps,
            "noise_multiplier": plan.noise_multiplier,
            "epsilon_after": plan.epsilon_after,
            "epsilon_alone": plan.epsilon_alone if self.question.alone else None,
            "remaining": plan.budget.remaining,
            "fits": plan.fits,
            "points": [asdict(point) for point in plan.points],
            "advice": list(plan.advice),
        }

    def _answer(self) -> str:
        plan, question = self.plan, self.question
        alone = f", {plan.epsilon_alone:.4f} alone" if question.alone else ""
        verb = "fits" if plan.fits else "does not fit"
        what = f"{plan.num_steps:,} steps" if self.pays_per_step else "the release"
        if question.epsilon is not None:
            what = f"up to epsilon {question.epsilon:g}, {what}"
            if question.num_steps is not None:
                what += f" with noise_multiplier {plan.noise_multiplier:g}"
        return f"{what}: epsilon {plan.epsilon_after:.4f} in total afterwards{alone}; {verb}"

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{point.noise_multiplier:g}",
                f"{point.num_steps:,}" if self.pays_per_step else "one release",
                f"{point.epsilon_after:.4f}",
                "yes" if point.fits else "no",
            )
            for point in self.plan.points
        ]


def make_plan(
    barrier: Curator,
    recipe: AnyRecipe,
    question: PlanQuestion,
    *,
    dataset: str | None = None,
) -> PlanReport:
    """Plan a recipe; charges nothing.

    Args:
        barrier: The curator.
        recipe: Data set and mechanism; its steps are asked if `question` asks nothing.
        question: Steps, an epsilon, or both.
        dataset: In the place of the recipe's.
    """
    mechanism = recipe.mechanism
    facts = barrier.describe(dataset or recipe.training.dataset)
    steps, epsilon = question.num_steps, question.epsilon
    if not mechanism.pays_per_step:
        steps = 1  # its one release is all that is charged
    elif steps is None and epsilon is None and recipe.training.steps != "all":
        steps = recipe.training.steps
    asked = replace(question, num_steps=steps)
    parameters = mechanism.parameters(facts)
    return PlanReport(
        facts=facts,
        kind=mechanism.kind,
        cost=mechanism.cost,
        pays_per_step=mechanism.pays_per_step,
        question=asked,
        plan=barrier.plan_range(facts.name, mechanism.wire_name, parameters, asked),
        other_noises=tuple(
            (name, value)
            for name, value in parameters.items()
            if name.endswith("_noise_multiplier")
        ),
    )
