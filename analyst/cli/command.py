"""What all commands share: their options as dataclasses, their help, and how they are begun.

A command is a function of a `Task` and of its options. A parameter that is a dataclass stands for
its fields, so that what several commands take is written once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from analyst.cli.exit_code import ExitCode
from analyst.output import Output
from analyst.screen import Screen

if TYPE_CHECKING:
    from analyst.cli.access import ConnectionConfig
    from analyst.training.ports import BarrierPort

Connect = Callable[["ConnectionConfig"], AbstractContextManager["BarrierPort"]]
"""Reaches a curator."""

Body = Callable[..., ExitCode | None]
"""What a command does, given a task and its options; None is OK."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Printing:
    """How to print; every command has it."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel="Printing")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Say nothing but problems.", rich_help_panel="Printing"),
    ] = False
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel="Printing"),
    ] = False


class Task:
    """One call of the program: where it prints, how it reaches a curator, what it is doing."""

    def __init__(self, output: Output, connect: Connect | None) -> None:
        """Make what the commands are given.

        Args:
            output: Standard output.
            connect: None is the real client.
        """
        self.output = output
        self.screen = Screen()
        self.debug = False
        self.words = ""
        self.out: Path | None = None  # of a run that is trained
        self._again: str | None = None
        self._connect = connect

    def begin(self, context: typer.Context, printing: Printing, *, reads: bool) -> None:
        """Remember how to print; what only reads stops where its output is lost."""
        self.screen = Screen(as_json=printing.as_json, quiet=printing.quiet)
        self.debug = printing.debug
        self.output.stops = reads
        of = context.params.get("run_id") or context.params.get("out")
        name = " ".join(context.command_path.split()[1:])
        self.words = f"'{name}'" + (f" of {of}" if of else "")

    @contextmanager
    def training(self, out: Path, *, resume: bool, again: str | None = None) -> Iterator[None]:
        """Be the only one that trains in a folder.

        Args:
            out: The folder.
            resume: Whether it holds the run already.
            again: The command that goes on with it; None where the user is not told.
        """
        from analyst.training.lock import only_trainer

        self.out, self._again = out, again
        with only_trainer(out, is_new=not resume):
            yield

    def say_how_to_resume(self) -> None:
        """Say how to go on with the run that is trained, if it has a checkpoint."""
        if self.out is None or self._again is None:
            return
        from analyst.training.outputs import checkpoint_store  # torch

        if checkpoint_store(self.out).exists():
            self.screen.say(f"to go on: analyst {self._again}")

    def connect(self, config: ConnectionConfig) -> AbstractContextManager[BarrierPort]:
        """Reach a curator."""
        if self._connect is not None:
            return self._connect(config)
        from analyst.cli.access import connect  # gRPC: sample and evaluate need none

        return connect(config, self.screen)


class Command(TyperCommand):
    """A command whose help has one section for each group of options, and its example as it is."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if one.param_type_name == "argument" else "Options"
                section = getattr(one, "rich_help_panel", None) or usual
                name = str(one.metavar) if usual == "Arguments" else record[0]
                sections.setdefault(section, []).append((name, record[1]))
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - one signature
        """Write the example, unwrapped."""
        formatter.write(f"\n{self.epilog}\n")


def command(
    app: typer.Typer,
    *examples: str,
    name: str | None = None,
    reads: bool = False,
    kind: type[Command] = Command,
) -> Callable[[Body], Body]:
    """Make a function a command; its docstring is the help.

    Args:
        app: Of the command's group.
        examples: Command lines without the program's name.
        name: The function's if None.
        reads: Whether it leaves nothing behind but what it prints.
        kind: Its class, where it reads its command line in another way.
    """

    def register(body: Body) -> Body:
        groups = _groups(body)

        def run(context: typer.Context, **given: Any) -> ExitCode:
            task: Task = context.obj
            task.begin(context, _filled(context, Printing, given), reads=reads)
            filled = {
                one: _filled(context, kind, given) if is_dataclass(kind) else given[one]
                for one, kind in groups.items()
            }
            return body(task, **filled) or ExitCode.OK

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("context", _KEYWORD, annotation=typer.Context),
                *_parameters(body, groups),
                *_fields(Printing),
            ]
        )
        text = inspect.getdoc(body) or ""
        app.command(
            name or body.__name__.replace("_", "-"),
            cls=kind,
            help=text.partition("\n\nRaises:")[0],
            short_help=text.partition("\n")[0].rstrip("."),
            epilog="\n".join(["Example:", *(f"  analyst {one}" for one in examples)]),
            context_settings=CONTEXT,
        )(run)
        return body

    return register


CONTEXT = {"max_content_width": 100}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _groups(body: Body) -> dict[str, Any]:
    hints = get_type_hints(body, include_extras=True)
    return {name: hints[name] for name in inspect.signature(body).parameters if name != "task"}


_TEXTS = (str, str | None, list[str], list[str] | None)


def _as_typed(annotation: Any) -> Any:
    """Let texts pass as they were typed: the command says what is wrong with one, in its words."""
    kind, *infos = get_args(annotation) or [annotation]
    for info in infos:
        if kind in _TEXTS:
            info.parser = info.parser or str
    return annotation


def _parameters(body: Body, groups: dict[str, Any]) -> list[inspect.Parameter]:
    """Return the options of a command, with those of its groups in their places."""
    found: list[inspect.Parameter] = []
    for name, kind in groups.items():
        default = inspect.signature(body).parameters[name].default
        one = inspect.Parameter(name, _KEYWORD, default=default, annotation=_as_typed(kind))
        found += _fields(kind) if is_dataclass(kind) else [one]
    return found


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            _KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_as_typed(hints[field.name]),
        )
        for field in fields(group)
    ]


def _filled(context: typer.Context, group: Any, given: dict[str, Any]) -> Any:
    """Return a group with what the command line says; what it refuses is a mistake of usage."""
    try:
        return group(**{field.name: given[field.name] for field in fields(group)})
    except ValueError as problem:
        context.fail(str(problem))


def spread(words: Sequence[str], option: str, bare: str | None = None) -> list[str]:
    """Return a command line in which an option that takes several values is repeated for each.

    Args:
        words: The command line.
        option: Such as --compare, of which all words up to the next option are values.
        bare: The value of the option where none follows; it then takes one value at most.
    """
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word != option:
            found.append(word)
            continue
        values: list[str] = []
        while rest and (rest[0] == "-" or not rest[0].startswith("-")):
            values.append(rest.pop(0))
            if bare is not None:
                break
        values = values or ([bare] if bare is not None else [])
        found += [f"{option}={value}" for value in values] or [option]
    return found
