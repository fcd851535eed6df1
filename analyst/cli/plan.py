"""`analyst plan`: what steps cost and what an epsilon buys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import typer

from analyst.cli.access import Access, members, positive
from analyst.cli.command import Task, command
from analyst.cli.options import flag, option, spread
from analyst.cli.recipe_options import ChainOptions, RecipeCommand
from analyst.facts import Over, PlanQuestion

app = typer.Typer()

_ASKED = "Question (with both: which noise reaches both?)"
_MOST_POINTS = 50
_AT_ONCE = "-"  # a plot that is printed
_EXAMPLE = (
    "plan --curator localhost:50051 --credentials alice.credentials.json \\\n"
    "      --recipe dp-sinkhorn-digits"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked, and which rows are shown around the answer."""

    SECTION: ClassVar = "Question (with both: which noise reaches both?)"

    for_steps: int | None = option("What would N steps cost?", "N", min=1)
    for_epsilon: float | None = option("What would E buy?", "E", callback=positive)
    alone: bool = flag(
        "--alone", "Also the tighter epsilon of this run alone; takes seconds.", _ASKED
    )
    over: Over = option("What differs from row to row.", group="Table", default="steps")
    points: int = option("Rows.", "N", group="Table", min=1, max=_MOST_POINTS, default=8)

    def question(self) -> PlanQuestion:
        """Return it as the curator is asked."""
        return PlanQuestion(
            num_steps=self.for_steps,
            epsilon=self.for_epsilon,
            alone=self.alone,
            over=self.over,
            points=self.points,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """Where the table is drawn."""

    SECTION: ClassVar = "Table"

    plot: str | None = option(
        "Draw the table, as text or to .png, .svg, .pdf or .html.", "[FILE]", group="Table"
    )
    force: bool = flag("--force", "Replace the file of --plot.", "Table")

    @property
    def file(self) -> Path | None:
        """The file; None where nothing is drawn, or as text."""
        return None if self.plot in {None, _AT_ONCE} else Path(str(self.plot))


class PlanCommand(RecipeCommand):
    """Takes --plot without a file, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line, with what --plot means alone."""
        return super().parse_args(ctx, spread(args, "--plot", bare=_AT_ONCE))


@command(
    app,
    f"{_EXAMPLE} --for-steps 400",
    f"{_EXAMPLE} --for-steps 400 --for-epsilon 5",
    f"{_EXAMPLE} --over noise --plot plan.png",
    f"{_EXAMPLE.replace('dp-sinkhorn', 'two-stage')} --budget 5",
    kind=PlanCommand,
)
def plan(
    task: Task,
    *,
    recipe: str = option("What to plan.", "NAME|FILE.toml", needed=True),
    question: Question,
    plot: Plot,
    access: Access,
    options: ChainOptions,
) -> None:
    """What steps cost and what an epsilon buys; of a chain, what each stage gets; free."""
    from analyst.chains.recipe import is_chain
    from analyst.recipes.books import load_any
    from analyst.reports.plans import make_plan

    task.output.stops = plot.file is None
    overrides = options.overrides()
    if is_chain(recipe):
        _chain(
            task, recipe, overrides, access, asks=question != Question() or plot.plot is not None
        )
        return
    several = access.several()
    if several is None and plot.file is not None:
        from analyst.reports.plots import check_plot_file

        check_plot_file(plot.file, force=plot.force)
    planned = load_any(recipe, overrides)
    if several is not None:
        from analyst.training.federation.reports import plans

        with members(task, access, several) as asked:
            plans(asked, planned, question.question(), task.screen)
        return
    with task.connect(access.one()) as barrier:
        report = make_plan(barrier, planned, question.question())
    task.screen.show(report.text())
    task.screen.answer(report.to_json())
    if plot.plot is not None:
        from analyst.reports.plots import plot_plan

        task.screen.show(plot_plan(report, plot.plot, force=plot.force))


def _chain(
    task: Task, recipe: str, overrides: dict[str, Any], access: Access, *, asks: bool
) -> None:
    """Show what each stage of a chain gets.

    Raises:
        RecipeError: If what one run is asked is asked of a chain.
    """
    from analyst.chains.plan import plan_chain
    from analyst.chains.recipe import load_chain
    from analyst.errors import RecipeError

    if asks:
        message = "a chain has one question: what each stage gets of the budget"
        raise RecipeError(message, "Give --budget E in the place of other questions and tables.")
    chain = load_chain(recipe, overrides)
    with task.connect(access.one()) as barrier:
        report = plan_chain(barrier, chain)
    task.screen.show(report.text())
    task.screen.answer(report.to_json())
