"""The `analyst` command: every error is one message and what to do next, never a traceback.

analyst train       open or resume a run and train a generator
analyst plan        what steps cost and what an epsilon buys; charges nothing
analyst budget      what is left
analyst close       end a run and give back what it did not use
analyst certificate check a privacy certificate, offline, or fetch a lost one
analyst sample      images from a run's checkpoint; costs nothing
analyst evaluate    classifiers trained on synthetic images, tested on public ones; a report
analyst export      a synthetic set as NPZ, image folder or IDX
analyst embedding   fetch a release once, and train on it without a curator
analyst adapt       a classifier of public images, moved to a private set without labels
analyst recipes     the recipes that come with this package
analyst completion  what makes a shell complete this command
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

from analyst.cli_commands import COMMANDS, say_how_to_resume, say_outcome, trains
from analyst.cli_commands import Connect as Connect
from analyst.config import ConnectionConfig, ExitCode, member_connection, parse
from analyst.errors import (
    AnalystError,
    BudgetExhausted,
    CertificateFileError,
    CheckpointError,
    CredentialsError,
    CuratorUnreachable,
    EmbeddingError,
    EvaluationError,
    FederationError,
    ImageFileError,
    OutputRefused,
    ProtocolError,
    RecipeError,
    RequestRefused,
)
from analyst.os_errors import explain_os_error
from analyst.output import Output, OutputLost, steady_output
from analyst.reports.budgets import explain_refusal
from analyst.screen import Screen
from analyst.training.federation.config import FederationConfig, MemberConfig
from analyst.training.federation.flags import SEVERAL_COMMANDS, federation_config
from analyst.training.output_folder import only_trainer
from analyst.training.run_source import Curator
from analyst.tune_process import tune_process

_READING = frozenset({
    ("runs", None), ("budget", None), ("recipes", None), ("completion", None),
    ("certificate", "verify"), ("adapt", "test"),
})  # fmt: skip
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
    (CertificateFileError, ExitCode.FILES),
    (OutputRefused, ExitCode.FILES),
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
    with steady_output() as output:
        return _main(argv, connect, output)


def _main(argv: Sequence[str] | None, connect: Connect | None, output: Output) -> int:
    arguments = parse(argv)
    output.stops = only_reads(arguments)
    tune_process()
    screen = Screen.of(arguments)
    try:
        code = _run(arguments, connect or partial(_connect, screen), screen)
        output.flush()
    except OutputLost as lost:
        if isinstance(lost.__cause__, BrokenPipeError):  # such as 'head', which has seen enough
            return ExitCode.OK
        screen.warn(f"error: standard output cannot be written ({output.why_lost})")
        screen.warn("what to do: give it another place, then run the same command again")
        return ExitCode.FILES
    except AnalystError as error:
        if arguments.debug:
            raise
        return _report(error, arguments, screen)
    except KeyboardInterrupt:
        whole = "; the last checkpoint is whole" if trains(arguments) else ""
        screen.warn(f"interrupted{whole}")
        say_how_to_resume(arguments, screen)
        return ExitCode.INTERRUPTED
    except Exception as error:  # the edge: no traceback without --debug
        if arguments.debug:
            raise
        return _report_surprise(error, arguments, screen)
    return _done(code, arguments, output, screen)


def _done(
    code: ExitCode, arguments: argparse.Namespace, output: Output, screen: Screen
) -> ExitCode:
    """Return how a command ended that was carried out; say so where its own words were lost."""
    if output.failure is None:
        return code
    name = " ".join(filter(None, (arguments.command, getattr(arguments, "action", None))))
    of = getattr(arguments, "run_id", None) or getattr(arguments, "out", None)
    screen.warn(
        f"'{name}'{f' of {of}' if of else ''} is done and stays done; only what it printed was "
        f"lost ({output.why_lost}): do not run it again"
    )
    return ExitCode.OUTPUT_LOST if code is ExitCode.OK else code


def only_reads(arguments: argparse.Namespace) -> bool:
    """Return whether a command leaves nothing behind but what it prints."""
    if arguments.command == "plan":
        return arguments.plot in {None, "-"}
    return (arguments.command, getattr(arguments, "action", None)) in _READING


def _report_surprise(error: Exception, arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Say what no part of the program expected, and how to go on with a run that it ended."""
    if isinstance(error, OSError | MemoryError):
        words, remedy = explain_os_error(error, str(getattr(arguments, "out", None) or ""))
        screen.warn(f"error: {words}")
        screen.warn(f"what to do: {remedy}")
    else:
        screen.warn(f"error: a fault of this program: {type(error).__name__}: {error}")
        screen.warn("what to do: run it again with --debug and report the traceback")
    say_how_to_resume(arguments, screen)
    is_of_system = isinstance(error, OSError | MemoryError)
    return ExitCode.FILES if is_of_system else ExitCode.FAILED


def _connect(screen: Screen, config: ConnectionConfig) -> AbstractContextManager[Curator]:
    from analyst.client import connect  # here: sample and evaluate need no gRPC

    return connect(
        config.target,
        credentials=config.credentials,
        insecure_loopback=config.insecure_loopback,
        timeout=config.timeout_s,
        patience=_CLIENT_PATIENCE_S,
        say=screen.say,
    )


def _run(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    if not trains(arguments):
        return _carry_out(arguments, connect, screen)
    with only_trainer(arguments.out, is_new=not arguments.resume):
        return _carry_out(arguments, connect, screen)


def _carry_out(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    several = federation_config(arguments) if "curator" in arguments else None
    if several is None or arguments.command not in SEVERAL_COMMANDS:
        return COMMANDS[arguments.command](arguments, connect, screen)
    return _run_together(arguments, connect, screen, several)


def _run_together(
    arguments: argparse.Namespace, connect: Connect, screen: Screen, several: FederationConfig
) -> ExitCode:
    from analyst.training.federation.commands import SEVERAL, FederationCommand

    def reach(member: MemberConfig) -> AbstractContextManager[Curator]:
        return connect(member_connection(member, arguments))

    result = SEVERAL[arguments.command](FederationCommand(arguments, several, reach, screen))
    return ExitCode.OK if result is None else say_outcome(result, arguments, screen)


def _report(error: AnalystError, arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    if isinstance(error, BudgetExhausted):
        screen.warn(explain_refusal(error))
    else:
        screen.warn(f"error: {error.message}")
    screen.warn(f"what to do: {error.remedy}")
    if isinstance(error, CuratorUnreachable):
        say_how_to_resume(arguments, screen)
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


if __name__ == "__main__":
    sys.exit(main())
