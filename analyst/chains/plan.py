"""What each stage of a chain gets of the one budget: noise that is calibrated on the composition.

The curator is asked, by the ledger's own rule: each stage for the noise of its share of what is
left, the last one for the least noise with which all of them together reach the epsilon. No two
epsilons are ever added here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analyst.chains.recipe import ChainRecipe, GeneratorStage, charged, recipes_of, with_noise
from analyst.facts import Budget, Plan, PlannedRun, PlanQuestion
from analyst.rehearsal import BANNER, is_rehearsal, limit_text
from analyst.reports.budgets import share_lines, what_is_left
from analyst.screen import table_text
from analyst.training.run_source import Curator

_HEADS = ("stage", "mechanism", "share", "steps", "noise", "epsilon alone", "epsilon after")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What one stage gets of the budget."""

    stage: str
    mechanism: str
    share: float  # of all shares
    num_steps: int  # that are charged
    noise_multiplier: float
    epsilon_alone: float  # by privacy loss distributions; information
    epsilon_after: float  # of the data set with all stages so far, by the ledger's rule


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainPlan:
    """The parts of a chain's budget; nothing is charged."""

    dataset: str
    epsilon: float  # asked for
    parts: tuple[Part, ...]
    free: tuple[str, ...]  # what the other stages take, in words
    budget: Budget
    fits: bool

    def text(self) -> str:
        """Return a few lines and a table of the parts."""
        budget = self.budget
        limit = f"epsilon {limit_text(budget.epsilon)} at delta {budget.delta:g}"
        left = "" if is_rehearsal(self.dataset) else f", {what_is_left(budget)}"
        after = self.parts[-1].epsilon_after
        verb = "fits" if self.fits else "does not fit"
        lines = [BANNER] if is_rehearsal(self.dataset) else []
        lines += [
            f"data set    {self.dataset}: {limit}{left}",
            *share_lines(budget),
            (
                f"asked       up to epsilon {self.epsilon:g}, {len(self.parts)} releases as one "
                f"plan: epsilon {after:.4f} in total afterwards; {verb}"
            ),
            "",
            parts_text(self.parts),
        ]
        return "\n".join([*lines, *(f"free: {words}" for words in self.free)])

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "dataset": self.dataset,
            "rehearsal": is_rehearsal(self.dataset),
            "epsilon": self.epsilon,
            "epsilon_after": self.parts[-1].epsilon_after,
            "remaining": self.budget.remaining,
            "fits": self.fits,
            "parts": [asdict(part) for part in self.parts],
            "free": list(self.free),
        }


def parts_text(parts: Sequence[Part]) -> str:
    """Return a table of parts."""
    return table_text(_HEADS, [_cells(part) for part in parts])


def plan_chain(barrier: Curator, chain: ChainRecipe) -> ChainPlan:
    """Share a budget among the stages of a chain; charges nothing.

    Args:
        barrier: The curator.
        chain: Its stages, and the epsilon that the data set may reach with all of them.

    Raises:
        RecipeError: If a stage's recipe does not go with it.
    """
    recipes, shares = recipes_of(chain), charged(chain)
    facts = barrier.describe(chain.training.dataset)
    parts, before, plans = list[Part](), list[PlannedRun](), list[Plan]()
    for name, share in shares.items():
        mechanism = recipes[name].mechanism
        kind, is_last = mechanism.wire_name, len(parts) == len(shares) - 1
        steps = int(recipes[name].training.steps) if mechanism.pays_per_step else 1
        question = PlanQuestion(
            num_steps=steps,
            epsilon=chain.budget.epsilon,
            alone=True,
            points=0,
            share=1.0 if is_last else share,
            before=tuple(before) if is_last else (),
        )
        plan = barrier.plan_range(facts.name, kind, mechanism.parameters(facts), question)
        plans.append(plan)
        sent = with_noise(recipes[name], plan.noise_multiplier).mechanism.parameters(facts)
        after = plan.epsilon_after
        if before and not is_last:
            asked = PlanQuestion(num_steps=steps, points=0, before=tuple(before))
            after = barrier.plan_range(facts.name, kind, sent, asked).epsilon_after
        before.append(PlannedRun(mechanism=kind, parameters=sent, num_steps=steps))
        parts.append(
            Part(
                stage=name,
                mechanism=kind,
                share=share,
                num_steps=steps,
                noise_multiplier=plan.noise_multiplier,
                epsilon_alone=plan.epsilon_alone,
                epsilon_after=after,
            )
        )
    return ChainPlan(
        dataset=facts.name,
        epsilon=chain.budget.epsilon,
        parts=tuple(parts),
        free=_free(chain),
        budget=plans[-1].budget,
        fits=plans[-1].fits,
    )


def _free(chain: ChainRecipe) -> tuple[str, ...]:
    """Return what stages without a share are made of."""
    found = []
    for name, stage in chain.stage.items():
        if isinstance(stage, GeneratorStage) and stage.release is not None:
            found.append(f"{name}, {stage.members} trained on the release of {stage.release}")
        elif not hasattr(stage, "share"):
            found.append(f"{name}, images of {stage.source} as {stage.teacher} sees them")
    return tuple(found)


def _cells(part: Part) -> tuple[str, ...]:
    return (
        part.stage,
        part.mechanism,
        f"{part.share:.1%}",
        f"{part.num_steps:,}",
        f"{part.noise_multiplier:g}",
        f"{part.epsilon_alone:.4f}",
        f"{part.epsilon_after:.4f}",
    )
