"""What several curators say about budgets and plans, and the end of their runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from analyst.errors import AnalystError
from analyst.facts import PlanQuestion
from analyst.recipes import Recipe
from analyst.recipes.books import AnyRecipe
from analyst.reports.budgets import NO_DATASETS, show_refusal, statement, statement_json
from analyst.reports.plans import make_plan
from analyst.reports.runs import runs_json, runs_text
from analyst.screen import Screen
from analyst.training.federation.members import Member, Say
from analyst.training.federation.rounds import Combine, OnLoss, Rule
from analyst.training.run_source import Curator

Said = tuple[str, Any]
"""An answer for people, and the same for programs; None is nothing of its own."""

_EACH_ALONE = (
    "Every guarantee above is that of one curator for its own people. For a person who is in the\n"
    "data of several curators the guarantees add up."
)


def budgets(members: Sequence[Member], dataset: str | None, screen: Screen) -> None:
    """Show what is left at every curator.

    Args:
        members: All curators.
        dataset: One data set; else the one that each is asked for, else all that you may use.
        screen: Takes the answer, and which curator does not answer.
    """

    def ask(member: Member, barrier: Curator) -> Said:
        name = dataset or member.config.dataset
        names = [name] if name else [one.name for one in barrier.datasets()]
        found = [barrier.budget(one) for one in names]
        text = "\n\n".join(map(statement, found)) or NO_DATASETS
        return text, [statement_json(one) for one in found]

    _show_each(members, ask, screen)


def runs(members: Sequence[Member], screen: Screen, *, open_only: bool) -> None:
    """Show the analyst's runs at every curator.

    Args:
        members: All curators.
        screen: Takes the answer, and which curator does not answer.
        open_only: Leave out closed runs.
    """

    def ask(_member: Member, barrier: Curator) -> Said:
        found = barrier.runs(open_only=open_only)
        return runs_text(found), runs_json(found)

    _show_each(members, ask, screen, at_the_end="")


def plans(
    members: Sequence[Member],
    recipe: AnyRecipe,
    question: PlanQuestion,
    screen: Screen,
) -> None:
    """Show what steps cost at every curator, and what an epsilon buys there; nothing is charged.

    Args:
        members: All curators.
        recipe: Mechanism and steps.
        question: As of `make_plan`.
        screen: Takes the answer, and which curator does not answer.
    """

    def ask(member: Member, barrier: Curator) -> Said:
        report = make_plan(barrier, recipe, question, dataset=member.config.dataset)
        return report.text(), report.to_json()

    _show_each(members, ask, screen)
    screen.show("\nWith --combine round-robin each curator answers only its part of the steps.")


def refusals(members: Sequence[Member], recipe: Recipe, screen: Screen) -> None:
    """Ask every curator for one more step and show its refusal.

    Args:
        members: All curators.
        recipe: What one more step would be.
        screen: Takes the text, and which curator does not answer.
    """

    def ask(member: Member, barrier: Curator) -> Said:
        return show_refusal(barrier, recipe_of(member, recipe)), None

    _show_each(members, ask, screen)


def close_together(members: Sequence[Member], run_id: str, say: Say) -> None:
    """End the runs of all curators.

    Args:
        members: In the order of the run's ids.
        run_id: All ids, joined by '+'.
        say: Told of each.

    Raises:
        AnalystError: Of the first curator whose run may still be open, after all were tried.
    """
    from analyst.training.federation.federation import Federation  # here: it needs torch

    rule = Rule(combine=Combine.MEAN, on_loss=OnLoss.CONTINUE, patience_s=0.0)
    with Federation(members, rule, lambda _facts: {}, folder=None, say=say) as federation:
        federation.resume_run(run_id)
        problems = federation.close()
    if problems:
        raise problems[0]


def recipe_of(member: Member, recipe: Recipe) -> Recipe:
    """Return a recipe for the data set of one curator."""
    if member.config.dataset is None:
        return recipe
    training = dataclasses.replace(recipe.training, dataset=member.config.dataset)
    return dataclasses.replace(recipe, training=training)


def _show_each(
    members: Sequence[Member],
    ask: Callable[[Member, Curator], Said],
    screen: Screen,
    *,
    at_the_end: str = _EACH_ALONE,
) -> None:
    """Show what each says; one that fails does not hide the others.

    Raises:
        AnalystError: Of the first that failed, after all were asked.
    """
    problems, answers = [], {}
    for member in members:
        screen.show(f"== {member.name} ==")
        try:
            if member.barrier is not None:
                text, answers[member.name] = ask(member, member.barrier)
                screen.show(text + "\n")
        except AnalystError as error:
            screen.warn(f"curator {member.name}: {error.message}")
            member.problem = error
        if member.problem is not None:
            problems.append(member.problem)
            screen.show("no answer\n")
    if at_the_end:
        screen.show(at_the_end)
    if any(answer is not None for answer in answers.values()):
        screen.answer(answers)
    if problems:
        raise problems[0]
