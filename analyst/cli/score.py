"""`analyst score`: which of several candidates taught best, asked of the private records."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from analyst.cli.access import Access, positive
from analyst.cli.command import Task, command
from analyst.cli.options import argument, option
from analyst.cli.recipe_options import Assignments

app = typer.Typer()


@command(
    app,
    "score runs/a runs/b synthetic.npz --curator localhost:50051 \\\n"
    "      --credentials alice.credentials.json --recipe score-mnist --epsilon 0.05",
)
def score(
    task: Task,
    *,
    candidates: list[Path] = argument("RUN_DIR|FILE.npz ...", "Runs of generators, or images."),
    recipe: str = option("Classifier, noise and data set.", "NAME|FILE.toml", needed=True),
    epsilon: float | None = option(
        "What all scores together may spend [by the recipe's noise].", "E", callback=positive
    ),
    access: Access,
    assignments: Assignments,
) -> None:
    """Rank candidates by how many private records a classifier of each gets right; charged."""
    from analyst.recipes.assignments import read_assignments
    from analyst.score.rank import rank
    from analyst.score.recipe import SCORES
    from analyst.training.progress import Progress

    loaded = SCORES.load(recipe, read_assignments(assignments or []))
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    with task.connect(access.one()) as barrier:
        ranking = rank(barrier, loaded, candidates, epsilon=epsilon, progress=progress)
    task.screen.show(ranking.text())
    task.screen.answer(ranking.to_json())
