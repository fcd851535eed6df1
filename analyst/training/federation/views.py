"""What several curators say about budgets and plans, and the end of their runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from analyst.errors import AnalystError
from analyst.recipes import Recipe
from analyst.training.federation.federation import Federation, Say
from analyst.training.federation.member import Member
from analyst.training.federation.rule import Combine, OnLoss, Rule
from analyst.training.planning import plan_table, show_refusal, statement
from analyst.training.ports import BarrierPort

_EACH_ALONE = (
    "Every guarantee above is that of one curator for its own people. For a person who is in the\n"
    "data of several curators the guarantees add up."
)


def budgets(members: Sequence[Member], dataset: str | None, show: Say, say: Say) -> None:
    """Show what is left at every curator.

    Args:
        members: All curators.
        dataset: One data set; else the one that each is asked for, else all that you may use.
        show: Takes the text.
        say: Told which curator does not answer.
    """

    def ask(member: Member, barrier: BarrierPort) -> str:
        name = dataset or member.config.dataset
        names = [name] if name else [one.name for one in barrier.datasets()]
        return "\n\n".join(statement(barrier.budget(one)) for one in names)

    _show_each(members, ask, show, say)


def plans(
    members: Sequence[Member], recipe: Recipe, asked: dict[str, float | None], show: Say, say: Say
) -> None:
    """Show what steps cost at every curator, and what an epsilon buys there; nothing is charged.

    Args:
        members: All curators.
        recipe: Mechanism and steps.
        asked: `num_steps` or `epsilon`, as of `plan_table`.
        show: Takes the text.
        say: Told which curator does not answer.
    """
    steps, epsilon = asked["num_steps"], asked["epsilon"]
    num_steps = None if steps is None else int(steps)

    def ask(member: Member, barrier: BarrierPort) -> str:
        mine = recipe_of(member, recipe)
        return plan_table(barrier, mine, num_steps=num_steps, epsilon=epsilon)

    _show_each(members, ask, show, say)
    show("\nWith --combine round-robin each curator answers only its part of the steps.")


def refusals(members: Sequence[Member], recipe: Recipe, show: Say, say: Say) -> None:
    """Ask every curator for one more step and show its refusal.

    Args:
        members: All curators.
        recipe: What one more step would be.
        show: Takes the text.
        say: Told which curator does not answer.
    """
    _show_each(members, lambda member, b: show_refusal(b, recipe_of(member, recipe)), show, say)


def close_together(members: Sequence[Member], run_id: str, say: Say) -> None:
    """End the runs of all curators.

    Args:
        members: In the order of the run's ids.
        run_id: All ids, joined by '+'.
        say: Told of each.

    Raises:
        AnalystError: Of the first curator whose run may still be open, after all were tried.
    """
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
    members: Sequence[Member], ask: Callable[[Member, BarrierPort], str], show: Say, say: Say
) -> None:
    """Show what each says; one that fails does not hide the others.

    Raises:
        AnalystError: Of the first that failed, after all were asked.
    """
    problems = []
    for member in members:
        show(f"== {member.name} ==")
        try:
            if member.barrier is not None:
                show(ask(member, member.barrier) + "\n")
        except AnalystError as error:
            say(f"curator {member.name}: {error.message}")
            member.problem = error
        if member.problem is not None:
            problems.append(member.problem)
            show("no answer\n")
    show(_EACH_ALONE)
    if problems:
        raise problems[0]
