"""`analyst train`: open or resume a run with one curator or several, and train a generator."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from analyst.cli.access import Access, RuleOptions, members
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import flag, option
from analyst.cli.recipe_options import RecipeCommand, RecipeOptions

if TYPE_CHECKING:
    from analyst.training.federation.config import FederationConfig
    from analyst.training.session import SessionOptions, SessionResult

app = typer.Typer()

_ACCESS = "--curator localhost:50051 --credentials alice.credentials.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A new run, or one that is gone on with."""

    recipe: str | None = option("Start a new run.", "NAME|FILE.toml")
    resume: bool = flag("--resume", "Go on with the run in --out.")
    out: Path = option("Where a run lives.", "DIR", needed=True)

    def __post_init__(self) -> None:
        """Check that it is one of the two.

        Raises:
            ValueError: If it is not.
        """
        if self.resume == (self.recipe is not None):
            message = "give either --recipe NAME, to start, or --resume"
            raise ValueError(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorStart(Start):
    """The same for a generator, which may start from another's weights."""

    start_from: Path | None = option("Take the generator's weights of another run.", "DIR")
    teacher: Path | None = option(
        "Guide it by a run of 'teacher train'; --set training.guidance=W says how much.", "DIR"
    )

    def options(self) -> SessionOptions:
        """Return where a session writes and what it starts from."""
        from analyst.training.session import SessionOptions  # torch

        guide = None
        if self.teacher is not None:
            from analyst.teacher.guidance import guide_of
            from analyst.teacher.session import load_teacher

            guide = guide_of(load_teacher(self.teacher))
        return SessionOptions(out=self.out, start_from=self.start_from, guide=guide)


@command(
    app,
    f"train {_ACCESS} \\\n      --recipe embedding-digits --steps 300 --out runs/digits",
    f"train {_ACCESS} \\\n      --resume --out runs/digits",
    kind=RecipeCommand,
)
def train(
    task: Task,
    *,
    start: GeneratorStart,
    access: Access,
    recipe: RecipeOptions,
    rule: RuleOptions,
    show_refusal: bool = flag(
        "--show-refusal", "When finished, ask for one more step and explain the refusal."
    ),
) -> ExitCode:
    """Open or resume a run and train a generator."""
    several = access.several(rule)
    again = f"train --resume --out {quote(str(start.out))} {access.words(rule)}"
    with task.training(start.out, resume=start.resume, again=again):
        overrides = recipe.overrides()
        if several is None:
            return _alone(task, start, access, overrides, show_refusal=show_refusal)
        return _together(task, start, access, overrides, several, show_refusal=show_refusal)


def _alone(
    task: Task,
    start: GeneratorStart,
    access: Access,
    overrides: dict[str, Any],
    *,
    show_refusal: bool,
) -> ExitCode:
    from analyst.recipes import load_recipe
    from analyst.reports.budgets import show_refusal as refusal_of
    from analyst.training.checkpoint import check_no_run, checkpoint_store
    from analyst.training.federation.folder import check_one_run
    from analyst.training.progress import Progress
    from analyst.training.session import recipe_of, resume_session, run_session
    from analyst.training.stop import stop_on_signals

    check_one_run(start.out)
    if start.recipe is not None:
        check_no_run(start.out)
        recipe = load_recipe(start.recipe, overrides)  # what is wrong is told before it is asked
    else:
        recipe = recipe_of(checkpoint_store(start.out).manifest(), start.out, overrides)
    options = start.options()
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    with (
        task.connect(access.one()) as barrier,
        stop_on_signals(quiet=task.screen.quiet) as stop,
    ):
        if start.recipe is None:
            result = resume_session(barrier, overrides, options, progress, stop)
        else:
            result = run_session(barrier, recipe, options, progress, stop)
        code = _say_outcome(task, result, start.out)
        if code is ExitCode.OK and show_refusal:
            task.screen.show(refusal_of(barrier, result.recipe))
    return code


def _together(
    task: Task,
    start: GeneratorStart,
    access: Access,
    overrides: dict[str, Any],
    several: FederationConfig,
    *,
    show_refusal: bool,
) -> ExitCode:
    from analyst.training.federation.reports import refusals
    from analyst.training.federation.train_together import Together, train_together
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    with stop_on_signals(quiet=task.screen.quiet) as stop:
        result = train_together(
            Together(
                recipe=start.recipe,
                overrides=overrides,
                options=start.options(),
                config=several,
                connect=lambda one: task.connect(access.member(one)),
                progress=Progress(sys.stderr, quiet=task.screen.quiet),
                stop=stop,
            )
        )
    code = _say_outcome(task, result, start.out)
    if code is ExitCode.OK and show_refusal:
        with members(task, access, several) as asked:
            refusals(asked, result.recipe, task.screen)
    return code


def _say_outcome(task: Task, result: SessionResult, out: Path) -> ExitCode:
    from analyst.training.loop import Outcome

    task.screen.answer(
        {
            "outcome": result.outcome.value,
            "num_updates": result.num_updates,
            "next_step": result.next_step,
            "num_steps": result.num_steps,
            "out": str(out),
        }
    )
    if result.outcome is Outcome.STOPPED:
        task.screen.say(f"stopped after {result.num_updates:,} updates; a checkpoint was saved")
        task.say_how_to_resume()
        return ExitCode.INTERRUPTED
    task.screen.say(f"finished: {result.num_updates:,} updates in {out}")
    return ExitCode.OK
