"""`analyst evolve`: images of a public program, chosen by votes of private records."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

import typer

from analyst.cli.access import Access
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import option
from analyst.cli.recipe_options import Assignments
from analyst.cli.train import Start

app = typer.Typer()

_ACCESS = "--curator localhost:50051 --credentials alice.credentials.json"


@command(
    app,
    f"evolve {_ACCESS} \\\n      --recipe votes-mnist --out runs/evolved",
    f"evolve {_ACCESS} \\\n      --recipe votes-mnist --propose my_model:Model --out runs/mine",
)
def evolve(
    task: Task,
    *,
    start: Start,
    propose: str | None = option(
        "What makes candidates, in the place of fonts: a class of yours.", "MODULE:CLASS"
    ),
    fonts: Path | None = option(
        "Fonts to draw characters from [those that are installed].", "FOLDER"
    ),
    access: Access,
    assignments: Assignments,
) -> ExitCode:
    """Grow images from those that private records vote for; every vote is charged.

    Raises:
        RecipeError: If a resumed run is given another recipe.
    """
    from analyst.errors import RecipeError
    from analyst.evolution.recipe import EVOLUTIONS
    from analyst.evolution.session import EvolutionOptions, resume_evolution, start_evolution
    from analyst.recipes.assignments import read_assignments
    from analyst.training.federation.folder import check_one_run
    from analyst.training.loop import Outcome
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    overrides = read_assignments(assignments or [])
    overrides |= {} if propose is None else {"proposer.source": propose}
    overrides |= {} if fonts is None else {"proposer.fonts": str(fonts.absolute())}
    if start.resume and overrides:
        message = "a resumed run keeps its recipe, its proposer and its fonts"
        raise RecipeError(message, "Leave --set, --propose and --fonts out; or start a new run.")
    again = f"evolve --resume --out {quote(str(start.out))} {access.words()}"
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    with task.training(start.out, resume=start.resume, again=again):
        check_one_run(start.out)
        recipe = None if start.recipe is None else EVOLUTIONS.load(start.recipe, overrides)
        with (
            task.connect(access.one()) as barrier,
            stop_on_signals(quiet=task.screen.quiet) as stop,
        ):
            options = EvolutionOptions(out=start.out, progress=progress, stop=stop)
            if recipe is None:
                outcome = resume_evolution(barrier, options)
            else:
                outcome = start_evolution(barrier, recipe, options)
    completed = outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: what had votes is in {start.out}")
    task.screen.answer({"outcome": outcome.value, "out": str(start.out)})
    return ExitCode.OK if completed else ExitCode.INTERRUPTED
