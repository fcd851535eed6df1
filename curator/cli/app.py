"""The steward's command line: every error is one message, never a traceback."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup
from typer.main import get_group

from curator.cli import (
    analyst,
    dataset_decisions,
    doctor,
    explain,
    init,
    ledger,
    network,
    plan,
    serve,
)
from curator.cli.command import NeedsAttention, Task, command
from curator.cli.exit_code import ExitCode
from curator.cli.options import CONTEXT, Group, argument
from curator.system.core_dumps import forbid_core_dumps
from curator.system.os_errors import in_words
from curator.system.output import Output, OutputLost, steady_output

_COMPLETE = "_CURATOR_COMPLETE"  # what a shell sets that completes a command line
_WORLD = (OSError, sqlite3.Error, MemoryError)  # a full disk: no fault of this program
app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)


def _say_version(asked: bool) -> None:  # noqa: FBT001 - as Typer calls it
    if asked:
        typer.echo(f"curator of weir-dp {metadata.version('weir-dp')}")
        raise typer.Exit


@app.callback()
def curator(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Hold private images and answer with differentially private gradients."""


last = typer.Typer()
# by name: the audit asks with the analyst's client, which the curator may not know
audit = import_module("audit.cli").app
evidence = import_module("audit.evidence_cli").app
for part in (
    *(
        init.app,
        dataset_decisions.app,
        analyst.app,
        network.app,
        serve.app,
        ledger.budget_app,
        plan.app,
        ledger.app,
    ),
    *(explain.app, audit, evidence, doctor.app, init.key_app, last),
):
    app.add_typer(part)


@command(last, "completion bash > ~/.local/share/bash-completion/completions/curator", reads=True)
def completion(
    task: Task,
    *,
    shell: Literal["bash", "zsh", "fish"] = argument("bash|zsh|fish", "The shell."),
) -> None:
    """Print what makes a shell complete this command."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="curator", complete_var=_COMPLETE, shell=shell)
    task.output.write(script + "\n")


def program() -> TyperGroup:
    """Return the whole command line."""
    return get_group(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what it did is told by the exit code, whatever becomes of its output.

    Args:
        argv: Arguments without the program's name; the process's by default.

    Returns:
        An `ExitCode`.
    """
    if _COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
        program().main(prog_name="curator", complete_var=_COMPLETE)
    with steady_output() as output:
        return _main(sys.argv[1:] if argv is None else argv, Task(output), output)


def _main(argv: Sequence[str], task: Task, output: Output) -> int:
    forbid_core_dumps()
    try:
        with program().make_context("curator", list(argv), obj=task) as context:
            context.command.invoke(context)
        output.flush()
    except typer.Exit as end:  # such as after --help
        return end.exit_code
    except typer.TyperException as mistake:
        return _report_usage(mistake, argv)
    except KeyboardInterrupt:
        sys.stderr.write("curator: interrupted\n")
        return ExitCode.INTERRUPTED
    except OutputLost as lost:
        if isinstance(lost.__cause__, BrokenPipeError):  # such as 'head', which has seen enough
            return ExitCode.OK
        sys.stderr.write(
            f"curator: standard output cannot be written ({output.why_lost}): give it another "
            "place, then run the same command again\n"
        )
        return ExitCode.FAILED
    except Exception as problem:  # the edge: no traceback without --debug
        if task.debug:
            raise
        return _report(problem, task)
    return _done(task, output)


def _done(task: Task, output: Output) -> int:
    """Return how a command ended that was carried out; say so where its own words were lost."""
    if output.failure is None or not task.is_answered:
        return ExitCode.OK
    sys.stderr.write(
        f"curator: {task.words} is done and stays done; only what it printed was "
        f"lost ({output.why_lost}): do not run it again\n"
    )
    return ExitCode.OUTPUT_LOST


def _words(argv: Sequence[str]) -> str:
    """Return the command that a command line names, as it is typed."""
    found: Any = program()
    words = ["curator"]
    for word in argv:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            break
        words.append(word)
    return " ".join(words)


def _report_usage(mistake: typer.TyperException, argv: Sequence[str]) -> ExitCode:
    context = getattr(mistake, "ctx", None)
    words = _words(argv) if context is None else context.command_path
    text = mistake.format_message().replace("Value error, ", "").replace("Input should", "must")
    sys.stderr.write(f"curator: {text}\ncurator: read '{words} --help', then type it again\n")
    return ExitCode.USAGE


def _report(problem: Exception, task: Task) -> ExitCode:
    """Say what went wrong, and return the exit code."""
    from curator.errors import CuratorError, LedgerUnavailable

    if isinstance(problem, LedgerUnavailable):
        text = _of_ledger(problem, task.places.get("folder", ""))
    elif isinstance(problem, CuratorError):
        detail = f" ({problem.detail})" if problem.detail else ""  # as the analyst reads it
        text = f"{problem.public_message}{detail} {problem.remedy}"
    elif isinstance(problem, _WORLD):
        text = in_words(problem, next(iter(task.places.values()), "")) or str(problem)
    elif type(problem).__module__.startswith(("curator.", "audit.")):  # made for its reader
        text = str(problem)
    else:
        text = (
            f"a fault of this program: {type(problem).__name__}: {problem}\n"
            "curator: run it again with --debug and report the traceback"
        )
    sys.stderr.write(f"curator: {text}\n")
    return _code_of(problem)


def _of_ledger(problem: Exception, folder: str) -> str:
    from curator.ledger.database_errors import in_database_words  # SQLAlchemy

    cause = in_words(problem, folder) or in_database_words(problem)
    return str(problem) if cause is None else f"{problem}: {cause}"


def _code_of(problem: Exception) -> ExitCode:
    from curator.identity.listen import PortUnavailable
    from curator.ledger.problems import (
        ChainBroken,
        LedgerFromTheFuture,
        LedgerLocked,
        LedgerRestored,
    )

    match problem:
        case ChainBroken() | LedgerFromTheFuture() | LedgerLocked() | LedgerRestored():
            return ExitCode.LEDGER
        case PortUnavailable():
            return ExitCode.PORT
        case NeedsAttention():
            return ExitCode.ATTENTION
        case _:
            return ExitCode.FAILED
