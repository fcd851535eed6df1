"""`analyst plan`: what steps cost and what an epsilon buys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from analyst.cli.access import Access, members, positive
from analyst.cli.command import Task, command
from analyst.cli.options import spread
from analyst.cli.recipe_options import RecipeCommand, RecipeOptions
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

    for_steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="What would N steps cost?", rich_help_panel=_ASKED),
    ] = None
    for_epsilon: Annotated[
        float | None,
        typer.Option(
            callback=positive, metavar="E", help="What would E buy?", rich_help_panel=_ASKED
        ),
    ] = None
    alone: Annotated[
        bool,
        typer.Option(
            "--alone",
            help="Also the tighter epsilon of this run alone; takes seconds.",
            rich_help_panel=_ASKED,
        ),
    ] = False
    over: Annotated[
        Over, typer.Option(help="What differs from row to row.", rich_help_panel="Table")
    ] = "steps"
    points: Annotated[
        int,
        typer.Option(min=1, max=_MOST_POINTS, metavar="N", help="Rows.", rich_help_panel="Table"),
    ] = 8

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

    plot: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Draw the table, as text or to .png, .svg, .pdf or .html.",
            rich_help_panel="Table",
        ),
    ] = None
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the file of --plot.", rich_help_panel="Table"),
    ] = False

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
    kind=PlanCommand,
)
def plan(
    task: Task,
    recipe: Annotated[str, typer.Option(metavar="NAME|FILE.toml", help="What to plan.")],
    question: Question,
    plot: Plot,
    access: Access,
    options: RecipeOptions,
) -> None:
    """What steps cost and what an epsilon buys; free."""
    from analyst.adaptation.load import load_either
    from analyst.reports.plans import make_plan

    task.output.stops = plot.file is None
    several = access.several()
    if several is None and plot.file is not None:
        from analyst.reports.plots import check_plot_file

        check_plot_file(plot.file, force=plot.force)
    planned = load_either(recipe, options.overrides())
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
