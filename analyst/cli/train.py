"""`analyst train`: open or resume a run with one curator or several, or a chain of them."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import typer

from analyst.cli.access import Access, RuleOptions, members
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import flag, option
from analyst.cli.recipe_options import ChainOptions, RecipeCommand

if TYPE_CHECKING:
    from analyst.chains.folder import Chain
    from analyst.embedding.sessions import ReleasingCurator
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
    f"train {_ACCESS} \\\n      --recipe two-stage-digits --budget 5 --out runs/chain",
    kind=RecipeCommand,
)
def train(
    task: Task,
    *,
    start: GeneratorStart,
    access: Access,
    recipe: ChainOptions,
    rule: RuleOptions,
    show_refusal: bool = flag(
        "--show-refusal", "When finished, ask for one more step and explain the refusal."
    ),
) -> ExitCode:
    """Open or resume a run and train a generator; or a chain of stages under one budget."""
    several = access.several(rule)
    again = f"train --resume --out {quote(str(start.out))} {access.words(rule)}"
    with task.training(start.out, resume=start.resume, again=again):
        overrides = recipe.overrides()
        if _is_chain(start):
            return _chain(task, start, access, overrides)
        if several is None:
            return _alone(task, start, access, overrides, show_refusal=show_refusal)
        return _together(task, start, access, overrides, several, show_refusal=show_refusal)


def _is_chain(start: Start) -> bool:
    from analyst.chains.recipe import is_chain

    if start.recipe is not None:
        return is_chain(start.recipe)
    from analyst.chains.folder import holds_chain

    return holds_chain(start.out)


def _chain(
    task: Task, start: GeneratorStart, access: Access, overrides: dict[str, Any]
) -> ExitCode:
    """Begin a chain or go on with one.

    Raises:
        RecipeError: If something is given that a chain has for each stage, or keeps.
    """
    from analyst.chains.folder import read_chain
    from analyst.chains.plan import parts_text
    from analyst.chains.recipe import load_chain
    from analyst.chains.session import begin_chain, run_chain
    from analyst.errors import RecipeError
    from analyst.training.loop import Outcome
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    if start.start_from is not None or start.teacher is not None:
        message = "a chain says for each stage what it starts from, and what guides it"
        raise RecipeError(message, "Leave --start-from and --teacher out, or write a chain.")
    if start.resume and overrides:
        message = "a chain keeps its stages and its budget once it is begun"
        raise RecipeError(message, "Leave --set, --budget and the like out, or begin a new one.")
    recipe = None if start.recipe is None else load_chain(start.recipe, overrides)
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    with (
        task.connect(access.one()) as barrier,
        stop_on_signals(quiet=task.screen.quiet) as stop,
    ):
        out = start.out
        chain = read_chain(out) if recipe is None else begin_chain(barrier, recipe, out)
        progress.say(parts_text(chain.parts))
        outcome = run_chain(cast("ReleasingCurator", barrier), chain, progress, stop)
    completed = outcome is Outcome.COMPLETED
    _say_chain(task, chain, completed=completed)
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


def _say_chain(task: Task, chain: Chain, *, completed: bool) -> None:
    task.screen.answer(
        {
            "outcome": "completed" if completed else "stopped",
            "parts": [asdict(part) for part in chain.parts],
            "images": str(chain.images()),
            "out": str(chain.out),
        }
    )
    if completed:
        task.screen.say(f"finished: the images are {chain.images()}, the stages in {chain.out}")
    else:
        task.screen.say("stopped; what the stages made is kept")
        task.say_how_to_resume()


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
