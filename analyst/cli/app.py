"""The `analyst` command: every error is one message and what to do next, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup
from typer.main import get_group

from analyst.cli import (
    adapt,
    certificate,
    embedding,
    evaluate,
    evolve,
    plan,
    recipes,
    runs,
    score,
    synthetic,
    teacher,
    train,
)
from analyst.cli.command import Connect, Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import CONTEXT, Group, argument
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
from analyst.tune_process import tune_process

_COMPLETE = "_ANALYST_COMPLETE"  # what a shell sets that completes a command line
app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)


def _say_version(asked: bool) -> None:  # noqa: FBT001 - as Typer calls it
    if asked:
        typer.echo(f"analyst of weir-dp {metadata.version('weir-dp')}")
        raise typer.Exit


@app.callback()
def analyst(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Train generators of images that you never see."""


for part in (
    train,
    plan,
    runs,
    certificate,
    synthetic,
    evaluate,
    embedding,
    adapt,
    teacher,
    score,
    evolve,
    recipes,
):
    app.add_typer(part.app)
last = typer.Typer()
app.add_typer(last)


@command(last, "completion bash > ~/.local/share/bash-completion/completions/analyst", reads=True)
def completion(
    task: Task,
    *,
    shell: Literal["bash", "zsh", "fish"] = argument("bash|zsh|fish", "The shell."),
) -> None:
    """Print what makes a shell complete this command."""
    from typer._completion_shared import get_completion_script

    task.output.write(
        get_completion_script(prog_name="analyst", complete_var=_COMPLETE, shell=shell) + "\n"
    )


def program() -> TyperGroup:
    """Return the whole command line."""
    return get_group(app)


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
    if _COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
        program().main(prog_name="analyst", complete_var=_COMPLETE)
    with steady_output() as output:
        return _main(sys.argv[1:] if argv is None else argv, Task(output, connect), output)


def _main(argv: Sequence[str], task: Task, output: Output) -> int:
    tune_process()
    try:
        with program().make_context("analyst", list(argv), obj=task) as context:
            code = context.command.invoke(context) or ExitCode.OK
        output.flush()
    except typer.Exit as end:  # such as after --help
        return end.exit_code
    except typer.TyperException as mistake:
        return _report_usage(mistake, task, argv)
    except OutputLost as lost:
        if isinstance(lost.__cause__, BrokenPipeError):  # such as 'head', which has seen enough
            return ExitCode.OK
        task.screen.warn(f"error: standard output cannot be written ({output.why_lost})")
        task.screen.warn("what to do: give it another place, then run the same command again")
        return ExitCode.FILES
    except KeyboardInterrupt:
        whole = "" if task.out is None else "; the last checkpoint is whole"
        task.screen.warn(f"interrupted{whole}")
        task.say_how_to_resume()
        return ExitCode.INTERRUPTED
    except Exception as error:  # the edge: no traceback without --debug
        if task.debug:
            raise
        return _report(error, task)
    return _done(code, task, output)


def _done(code: ExitCode, task: Task, output: Output) -> ExitCode:
    """Return how a command ended that was carried out; say so where its own words were lost."""
    if output.failure is None:
        return code
    task.screen.warn(
        f"{task.words} is done and stays done; only what it printed was "
        f"lost ({output.why_lost}): do not run it again"
    )
    return ExitCode.OUTPUT_LOST if code is ExitCode.OK else code


def _words(argv: Sequence[str]) -> str:
    """Return the command that a command line names, as it is typed."""
    found: Any = program()
    words = ["analyst"]
    for word in argv:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            break
        words.append(word)
    return " ".join(words)


def _report_usage(mistake: typer.TyperException, task: Task, argv: Sequence[str]) -> ExitCode:
    context = getattr(mistake, "ctx", None)
    words = _words(argv) if context is None else context.command_path
    text = mistake.format_message().replace("Value error, ", "").replace("Input should", "must")
    task.screen.warn(f"error: {text}")
    task.screen.warn(f"what to do: read '{words} --help', then type it again")
    return ExitCode.USAGE


def _report(error: Exception, task: Task) -> ExitCode:
    """Say what went wrong, what to do, and how to go on with a run that it ended."""
    warn = task.screen.warn
    if isinstance(error, BudgetExhausted):
        from analyst.reports.budgets import explain_refusal

        warn(explain_refusal(error))
        warn(f"what to do: {error.remedy}")
    elif isinstance(error, AnalystError):
        warn(f"error: {error.message}")
        warn(f"what to do: {error.remedy}")
    elif isinstance(error, OSError | MemoryError):
        words, remedy = explain_os_error(error, str(task.out or ""))
        warn(f"error: {words}")
        warn(f"what to do: {remedy}")
    else:
        warn(f"error: a fault of this program: {type(error).__name__}: {error}")
        warn("what to do: run it again with --debug and report the traceback")
    if isinstance(error, CuratorUnreachable) or not isinstance(error, AnalystError):
        task.say_how_to_resume()
    return _code_of(error)


def _code_of(error: Exception) -> ExitCode:
    codes: tuple[tuple[type[Exception] | tuple[type[Exception], ...], ExitCode], ...] = (
        (BudgetExhausted, ExitCode.BUDGET_EXHAUSTED),
        (RequestRefused, ExitCode.REFUSED),
        (CuratorUnreachable, ExitCode.UNREACHABLE),
        (ProtocolError, ExitCode.PROTOCOL),
        ((RecipeError, FederationError), ExitCode.RECIPE),
        ((CredentialsError, CheckpointError, ImageFileError), ExitCode.FILES),
        ((CertificateFileError, OutputRefused, EvaluationError, EmbeddingError), ExitCode.FILES),
        ((OSError, MemoryError), ExitCode.FILES),
    )
    return next((code for kinds, code in codes if isinstance(error, kinds)), ExitCode.FAILED)
