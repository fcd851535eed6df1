"""Commands whose options are dataclasses, on Typer; the two programs have this file alike.

A command is a function of what the program gives it and of its options. A parameter that is a
dataclass stands for its fields, so that what several commands take is written once; a ValueError
of one that is made is a mistake of usage.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

Body = Callable[..., Any]
CONTEXT = {"max_content_width": 100}
_KEYWORD, _NO_DEFAULT = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
_TEXTS = (str, str | None, list[str], list[str] | None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Printing:
    """How to print; every command has it."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON.", rich_help_panel="Printing")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            help="Print nothing but what was asked, and problems.",
            rich_help_panel="Printing",
        ),
    ] = False
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel="Printing"),
    ] = False


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


class Group(TyperGroup):
    """A group of commands that needs no pydantic to print a help."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return --help, not given unless it is: no value is left to be converted."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


def add_command(
    app: typer.Typer,
    body: Body,
    run: Callable[[typer.Context, dict[str, Any]], Any],
    *,
    name: str | None,
    kind: type[Command],
    examples: Sequence[str],
) -> None:
    """Add a command.

    Args:
        app: Of the command's group.
        body: Its function: the docstring is the help, the parameters but the first are options.
        run: Carries it out, given what the command line says of every option.
        name: The function's if None.
        kind: Its class, where it reads its command line in another way.
        examples: Command lines.
    """

    def callback(context: typer.Context, **given: Any) -> Any:
        return run(context, given)

    of_context = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
    options = [*_options(body), *_fields(Printing)]
    callback.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [of_context, *options]
    )
    text = inspect.getdoc(body) or ""
    app.command(
        name or body.__name__.replace("_", "-"),
        cls=kind,
        help=text.partition("\n\nRaises:")[0],
        short_help=text.partition("\n")[0].rstrip("."),
        epilog="\n".join(["Example:", *(f"  {one}" for one in examples)]),
        context_settings=CONTEXT,
    )(callback)


def filled(context: typer.Context, body: Body, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a command's function takes, with its dataclasses made."""
    return {
        name: made(context, kind, given) if is_dataclass(kind) else given[name]
        for name, kind in _parameters(body).items()
    }


def made(context: typer.Context, group: Any, given: dict[str, Any]) -> Any:
    """Return a dataclass of options; what it refuses is a mistake of usage."""
    try:
        return group(**{field.name: given[field.name] for field in fields(group)})
    except ValueError as problem:
        context.fail(str(problem))


def _parameters(body: Body) -> dict[str, Any]:
    hints = get_type_hints(body, include_extras=True)
    return {name: hints[name] for name in list(inspect.signature(body).parameters)[1:]}


def _options(body: Body) -> list[inspect.Parameter]:
    """Return the options of a command, with those of its dataclasses in their places."""
    found: list[inspect.Parameter] = []
    for name, kind in _parameters(body).items():
        default = inspect.signature(body).parameters[name].default
        found += _fields(kind) if is_dataclass(kind) else [_option(name, kind, default)]
    return found


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _option(one.name, hints[one.name], _NO_DEFAULT if one.default is MISSING else one.default)
        for one in fields(group)
    ]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind, *infos = get_args(annotation)
    for info in infos:  # a text passes as it was typed: the command has words for a bad one
        if kind in _TEXTS:
            info.parser = info.parser or str
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


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
