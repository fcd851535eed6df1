"""The `analyst` command: every error is one message and what to do next, never a traceback.

analyst train     open or resume a run and train a generator
analyst plan      what steps cost and what an epsilon buys; charges nothing
analyst budget    what is left
analyst sample    images from a run's checkpoint; costs nothing
analyst evaluate  classifiers trained on synthetic images, tested on public ones; a report
analyst export    a synthetic set as NPZ, image folder or IDX
analyst embedding fetch a release once, and train on it without a curator
analyst recipes   the recipes that come with this package
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from analyst.certificate import certificate_text, verify_certificate
from analyst.config import (
    ConnectionConfig,
    ExitCode,
    connection_config,
    member_connection,
    parse,
)
from analyst.embedding import EmbeddingError
from analyst.embedding.command import run_download, run_offline_training
from analyst.errors import (
    AnalystError,
    BudgetExhausted,
    CredentialsError,
    CuratorUnreachable,
    ProtocolError,
    RequestRefused,
)
from analyst.evaluation import EvaluationError, ImageFileError, save_images
from analyst.evaluation.command import run_evaluate, run_export
from analyst.evaluation.sample import sample_run
from analyst.recipes import RecipeError, list_recipes, load_recipe
from analyst.recipes.flags import read_overrides
from analyst.recipes.load import recipe_text
from analyst.training.checkpoint import CheckpointError
from analyst.training.federation import FederationError, MemberConfig
from analyst.training.federation.commands import SEVERAL, Together
from analyst.training.federation.flags import access_words, federation_config
from analyst.training.federation.folder import check_one_run
from analyst.training.grid import save_grid
from analyst.training.loop import Outcome
from analyst.training.outputs import checkpoint_store
from analyst.training.planning import explain_refusal, plan_table, show_refusal, statement
from analyst.training.ports import BarrierPort
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, SessionResult, resume_session, run_session
from analyst.training.stop import stop_on_signals

Connect = Callable[[ConnectionConfig], AbstractContextManager[BarrierPort]]

_CLIENT_PATIENCE_S = 3.0  # longer outages are the training loop's: it listens to signals

_EXIT_CODES: tuple[tuple[type[AnalystError], ExitCode], ...] = (
    (BudgetExhausted, ExitCode.BUDGET_EXHAUSTED),
    (RequestRefused, ExitCode.REFUSED),
    (CredentialsError, ExitCode.FILES),
    (CuratorUnreachable, ExitCode.UNREACHABLE),
    (ProtocolError, ExitCode.PROTOCOL),
    (RecipeError, ExitCode.RECIPE),
    (FederationError, ExitCode.RECIPE),
    (CheckpointError, ExitCode.FILES),
    (ImageFileError, ExitCode.FILES),
    (EvaluationError, ExitCode.FILES),
    (EmbeddingError, ExitCode.FILES),
    (AnalystError, ExitCode.FAILED),
)


def main(argv: Sequence[str] | None = None, *, connect: Connect | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of the process if None.
        connect: How to reach a curator; the real client if None.

    Returns:
        An `ExitCode`.

    Raises:
        AnalystError: Only with --debug; otherwise it becomes a message and an exit code.
    """
    arguments = parse(argv)
    try:
        return _run(arguments, connect or _connect)
    except AnalystError as error:
        if arguments.debug:
            raise
        return _report(error, arguments)
    except KeyboardInterrupt:
        _say("interrupted; the last checkpoint is whole")
        _say_how_to_resume(arguments)
        return ExitCode.INTERRUPTED
    except Exception as error:  # the edge: no traceback without --debug
        if arguments.debug:
            raise
        _say(f"error: a fault of this program: {type(error).__name__}: {error}")
        _say("what to do: run it again with --debug and report the traceback")
        return ExitCode.FAILED


def _connect(config: ConnectionConfig) -> AbstractContextManager[BarrierPort]:
    from analyst.client import connect  # here: sample and evaluate need no gRPC

    return connect(
        config.target,
        credentials=config.credentials,
        insecure_loopback=config.insecure_loopback,
        timeout=config.timeout_s,
        patience=_CLIENT_PATIENCE_S,
    )


def _run(arguments: argparse.Namespace, connect: Connect) -> ExitCode:
    several = federation_config(arguments) if "curator" in arguments else None
    if several is None or arguments.command not in SEVERAL:
        return _COMMANDS[arguments.command](arguments, connect)

    def reach(member: MemberConfig) -> AbstractContextManager[BarrierPort]:
        return connect(member_connection(member, arguments))

    result = SEVERAL[arguments.command](Together(arguments, several, reach, _print, _say))
    completed = result is None or _say_outcome(result, arguments)
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


def _train(arguments: argparse.Namespace, connect: Connect) -> ExitCode:
    check_one_run(arguments.out)
    overrides = read_overrides(arguments)
    options = SessionOptions(out=arguments.out, start_from=arguments.start_from)
    progress = Progress(sys.stderr)
    with connect(connection_config(arguments)) as barrier, stop_on_signals(progress.say) as stop:
        if arguments.resume:
            result = resume_session(barrier, overrides, options, progress, stop)
        else:
            recipe = load_recipe(arguments.recipe, overrides)
            result = run_session(barrier, recipe, options, progress, stop)
        completed = _say_outcome(result, arguments)
        if completed and arguments.show_refusal:
            _print(show_refusal(barrier, result.recipe))
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


def _say_outcome(result: SessionResult, arguments: argparse.Namespace) -> bool:
    """Say how a sitting ended; return whether the run is complete."""
    if result.outcome is Outcome.STOPPED:
        _say(f"stopped after {result.num_updates:,} updates; a checkpoint was saved")
        _say_how_to_resume(arguments)
        return False
    _say(f"finished: {result.num_updates:,} updates in {arguments.out}")
    return True


def _plan(arguments: argparse.Namespace, connect: Connect) -> ExitCode:
    recipe = load_recipe(arguments.recipe, read_overrides(arguments))
    asked = {"num_steps": arguments.for_steps, "epsilon": arguments.for_epsilon}
    with connect(connection_config(arguments)) as barrier:
        _print(plan_table(barrier, recipe, **asked))
    return ExitCode.OK


def _budget(arguments: argparse.Namespace, connect: Connect) -> ExitCode:
    with connect(connection_config(arguments)) as barrier:
        names = [arguments.dataset] if arguments.dataset else [d.name for d in barrier.datasets()]
        _print("\n\n".join(statement(barrier.budget(name)) for name in names))
    return ExitCode.OK


def _close(arguments: argparse.Namespace, connect: Connect) -> ExitCode:
    with connect(connection_config(arguments)) as barrier:
        barrier.resume_run(arguments.run_id).close()
    _say(f"run {arguments.run_id} is closed; what it did not use went back to the budget")
    return ExitCode.OK


def _certificate(arguments: argparse.Namespace, _connect: Connect) -> ExitCode:
    from analyst.client.credentials import load_credentials

    key = None
    if arguments.credentials is not None:
        key = load_credentials(arguments.credentials).certificate_key
    statement = verify_certificate(arguments.file, key)
    _print(certificate_text(statement))
    if key is None:
        _say("the signature holds; give --credentials to check that your curator made it")
    return ExitCode.OK


def _sample(arguments: argparse.Namespace, _connect: Connect) -> ExitCode:
    out: Path = arguments.out
    if out.suffix not in {".npz", ".png"}:
        message = f"cannot write {out}"
        raise ImageFileError(message, "Give a name that ends in .npz or .png.")
    data = sample_run(
        arguments.out_of, arguments.count, seed=arguments.seed, weights=arguments.weights
    )
    if out.suffix == ".npz":
        save_images(out, data)
    else:
        order = data.labels.argsort(kind="stable")
        columns = -(-arguments.count // len(set(data.labels.tolist())))
        save_grid(out, data.images[order], columns)
    _say(f"wrote {arguments.count:,} images to {out}")
    return ExitCode.OK


def _evaluate(arguments: argparse.Namespace, _connect: Connect) -> ExitCode:
    run_evaluate(arguments, _print)
    return ExitCode.OK


def _export(arguments: argparse.Namespace, _connect: Connect) -> ExitCode:
    count = run_export(arguments)
    _say(f"wrote {count:,} images to {arguments.out}")
    return ExitCode.OK


def _embedding(arguments: argparse.Namespace, connect: Connect) -> ExitCode:
    if arguments.action == "download":
        run_download(arguments, lambda: connect(connection_config(arguments)))
        return ExitCode.OK
    completed = run_offline_training(arguments) is Outcome.COMPLETED
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


def _recipes(arguments: argparse.Namespace, _connect: Connect) -> ExitCode:
    if arguments.name:
        _print(recipe_text(arguments.name))
    else:
        _print("\n".join(f"{name:20s} {load_recipe(name).about.title}" for name in list_recipes()))
    return ExitCode.OK


_COMMANDS: dict[str, Callable[[argparse.Namespace, Connect], ExitCode]] = {
    "train": _train,
    "plan": _plan,
    "budget": _budget,
    "close": _close,
    "certificate": _certificate,
    "sample": _sample,
    "evaluate": _evaluate,
    "export": _export,
    "embedding": _embedding,
    "recipes": _recipes,
}


def _report(error: AnalystError, arguments: argparse.Namespace) -> ExitCode:
    if isinstance(error, BudgetExhausted):
        _say(explain_refusal(error))
    else:
        _say(f"error: {error.message}")
    _say(f"what to do: {error.remedy}")
    if isinstance(error, CuratorUnreachable):
        _say_how_to_resume(arguments)
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


def _say_how_to_resume(arguments: argparse.Namespace) -> None:
    if arguments.command == "train" and checkpoint_store(arguments.out).exists():
        _say(f"to go on: analyst train --resume --out {arguments.out} {access_words(arguments)}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
