"""What each of the analyst's commands does; what is slow to import is imported where it is used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from analyst.adaptation.load import load_either
from analyst.cli_certificate import Connect as Connect
from analyst.cli_certificate import run_certificate
from analyst.cli_recipes import show_recipe, show_recipes
from analyst.config import ExitCode, connection_config, member_connection
from analyst.errors import ImageFileError
from analyst.new_file import check_output
from analyst.recipes import load_recipe
from analyst.recipes.flags import read_overrides
from analyst.screen import Screen
from analyst.training.federation.flags import access_words, federation_config

if TYPE_CHECKING:
    from analyst.training.session import SessionResult

Command = Callable[[argparse.Namespace, Connect, Screen], ExitCode]


def _train(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    from analyst.reports.budgets import show_refusal
    from analyst.training.federation.folder import check_one_run
    from analyst.training.progress import Progress
    from analyst.training.session import SessionOptions, resume_session, run_session
    from analyst.training.stop import stop_on_signals

    check_one_run(arguments.out)
    overrides = read_overrides(arguments)
    options = SessionOptions(out=arguments.out, start_from=arguments.start_from)
    progress = Progress(sys.stderr, quiet=screen.quiet)
    with (
        connect(connection_config(arguments)) as barrier,
        stop_on_signals(quiet=screen.quiet) as stop,
    ):
        if arguments.resume:
            result = resume_session(barrier, overrides, options, progress, stop)
        else:
            recipe = load_recipe(arguments.recipe, overrides)
            result = run_session(barrier, recipe, options, progress, stop)
        code = say_outcome(result, arguments, screen)
        if code is ExitCode.OK and arguments.show_refusal:
            screen.show(show_refusal(barrier, result.recipe))
    return code


def say_outcome(result: SessionResult, arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Say how a session ended.

    Returns:
        OK if the run is complete.
    """
    from analyst.training.loop import Outcome

    screen.answer(
        {
            "outcome": result.outcome.value,
            "num_updates": result.num_updates,
            "next_step": result.next_step,
            "num_steps": result.num_steps,
            "out": str(arguments.out),
        }
    )
    if result.outcome is Outcome.STOPPED:
        screen.say(f"stopped after {result.num_updates:,} updates; a checkpoint was saved")
        say_how_to_resume(arguments, screen)
        return ExitCode.INTERRUPTED
    screen.say(f"finished: {result.num_updates:,} updates in {arguments.out}")
    return ExitCode.OK


def trains(arguments: argparse.Namespace) -> bool:
    """Return whether a command writes checkpoints to --out."""
    return arguments.command == "train" or getattr(arguments, "action", None) == "train"


def say_how_to_resume(arguments: argparse.Namespace, screen: Screen) -> None:
    """Say how to go on with a run, if there is one."""
    if not trains(arguments) or "curator" not in arguments:
        return
    from analyst.training.checkpoint import checkpoint_store

    if checkpoint_store(arguments.out).exists():
        again = f"--resume --out {quote(str(arguments.out))} {access_words(arguments)}"
        adapts = arguments.command == "adapt"
        what = f"adapt train --source {quote(str(arguments.source))}" if adapts else "train"
        screen.say(f"to go on: analyst {what} {again}")


def _plan(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    from analyst.reports.plans import make_plan, question_of

    if arguments.plot not in {None, "-"}:
        from analyst.reports.plots import check_plot_file

        check_plot_file(Path(arguments.plot), force=arguments.force)
    recipe = load_either(arguments.recipe, read_overrides(arguments))
    with connect(connection_config(arguments)) as barrier:
        report = make_plan(barrier, recipe, question_of(arguments))
    screen.show(report.text())
    screen.answer(report.to_json())
    if arguments.plot is not None:
        from analyst.reports.plots import plot_plan

        screen.show(plot_plan(report, arguments.plot, force=arguments.force))
    return ExitCode.OK


def _budget(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    from analyst.reports.budgets import (
        NO_DATASETS,
        facts_json,
        facts_text,
        statement,
        statement_json,
    )

    with connect(connection_config(arguments)) as barrier:
        facts = {one.name: one for one in barrier.datasets()}
        names = [arguments.dataset] if arguments.dataset else list(facts)
        left = {name: barrier.budget(name) for name in names}  # refuses a name that is not listed
    texts = [f"{statement(left[n])}\n{facts_text(facts[n])}" for n in names]
    screen.show("\n\n".join(texts) or NO_DATASETS)
    screen.answer([statement_json(left[n]) | {"facts": facts_json(facts[n])} for n in names])
    return ExitCode.OK


def _runs(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    from analyst.reports.runs import runs_json, runs_text

    with connect(connection_config(arguments)) as barrier:
        found = barrier.runs(open_only=arguments.open)
    screen.show(runs_text(found))
    screen.answer(runs_json(found))
    return ExitCode.OK


def _close(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    with connect(connection_config(arguments)) as barrier:
        barrier.resume_run(arguments.run_id).close()
    screen.say(f"run {arguments.run_id} is closed; what it did not use went back to the budget")
    screen.answer({"closed": [arguments.run_id]})
    return ExitCode.OK


def _sample(arguments: argparse.Namespace, _connect: Connect, screen: Screen) -> ExitCode:
    """Write images of a run.

    Raises:
        ImageFileError: If the name is of another format.
    """
    out: Path = arguments.out
    if out.suffix not in {".npz", ".png"}:
        message = f"cannot write {out}"
        raise ImageFileError(message, "Give a name that ends in .npz or .png.")
    from analyst.evaluation.image_file import save_images
    from analyst.evaluation.sample import sample_run
    from analyst.training.grid import save_grid

    check_output(out, force=arguments.force)
    data = sample_run(
        arguments.out_of, arguments.count, seed=arguments.seed, weights=arguments.weights
    )
    if out.suffix == ".npz":
        save_images(out, data, force=arguments.force)
    else:
        order = data.labels.argsort(kind="stable")
        columns = -(-arguments.count // len(set(data.labels.tolist())))
        save_grid(out, data.images[order], columns, force=arguments.force)
    return _wrote(arguments.count, out, screen)


def _wrote(count: int, out: Path, screen: Screen) -> ExitCode:
    screen.say(f"wrote {count:,} images to {out}")
    screen.answer({"num_images": count, "out": str(out)})
    return ExitCode.OK


def _evaluate(arguments: argparse.Namespace, _connect: Connect, screen: Screen) -> ExitCode:
    from analyst.evaluation.command import run_evaluate

    run_evaluate(arguments, screen)
    return ExitCode.OK


def _export(arguments: argparse.Namespace, _connect: Connect, screen: Screen) -> ExitCode:
    from analyst.evaluation.command import run_export

    return _wrote(run_export(arguments), arguments.out, screen)


def _embedding(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    from analyst.embedding.command import run_download, run_offline_training

    if arguments.action == "download":
        run_download(arguments, lambda: connect(connection_config(arguments)), screen)
        return ExitCode.OK
    return ExitCode.OK if run_offline_training(arguments, screen) else ExitCode.INTERRUPTED


def _adapt(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    from analyst.adaptation.command import run_adaptation, run_adaptation_test
    from analyst.adaptation.curators import one_curator, several_curators

    if arguments.action == "test":
        run_adaptation_test(arguments, screen)
        return ExitCode.OK
    several = federation_config(arguments)
    if several is None:
        reach = one_curator(lambda: connect(connection_config(arguments)), arguments.out)
    else:
        reach = several_curators(
            several, lambda member: connect(member_connection(member, arguments)), arguments.out
        )
    completed = run_adaptation(arguments, reach, screen)
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


def _recipes(arguments: argparse.Namespace, _connect: Connect, screen: Screen) -> ExitCode:
    if arguments.name:
        show_recipe(arguments.name, screen)
    else:
        show_recipes(screen)
    return ExitCode.OK


def _completion(arguments: argparse.Namespace, _connect: Connect, _screen: Screen) -> ExitCode:
    from argcomplete.shell_integration import shellcode  # only this command prints it

    sys.stdout.write(shellcode(["analyst"], shell=arguments.shell))
    return ExitCode.OK


COMMANDS: dict[str, Command] = {
    "train": _train,
    "plan": _plan,
    "budget": _budget,
    "runs": _runs,
    "close": _close,
    "certificate": run_certificate,
    "sample": _sample,
    "evaluate": _evaluate,
    "export": _export,
    "embedding": _embedding,
    "adapt": _adapt,
    "recipes": _recipes,
    "completion": _completion,
}
