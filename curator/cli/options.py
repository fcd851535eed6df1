"""Commands whose options are dataclasses, on Typer; the two programs have this file alike.

A command is a function of its program's `Task` and of its options. A parameter that is a dataclass
stands for its fields, so that what several commands take is written once; a ValueError of one that
is made is a mistake of usage.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

Body = Callable[..., Any]
CONTEXT = {"max_content_width": 100}
_KEYWORD, _NO_DEFAULT = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
_TEXTS = (str, str | None, list[str], list[str] | None)
_PROGRAM = __name__.partition(".")[0]
_TOLD = "typer"  # the key of what Typer is told of a field


def option(text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Return a field of options, or the default of a command's parameter.

    Args:
        text: Its help.
        metavar: What stands for its value; None where it is one of a few.
        names: Its spelling, where the field's name is another.
        more: As `typer.Option` takes it, but for `default` (None), `needed` (it has no default)
            and `group` (a section of the help that is not its dataclass's).
    """
    default = MISSING if more.pop("needed", False) else more.pop("default", None)
    group = more.pop("group", None)
    told = typer.Option(*names, help=text, metavar=metavar, rich_help_panel=group, **more)
    return field(default=default, metadata={_TOLD: told})


def flag(name: str, text: str, group: str | None = None) -> Any:
    """Return the same for an option without a value."""
    return option(text, None, name, default=False, group=group)


def argument(metavar: str, text: str, default: Any = MISSING) -> Any:
    """Return the same for what is no option."""
    told = typer.Argument(metavar=metavar, help=text)
    return field(default=default, metadata={_TOLD: told})


@dataclass(frozen=True, kw_only=True, slots=True)
class Printing:
    """How to print; every command has it."""

    SECTION: ClassVar = "Printing"

    as_json: bool = flag("--json", "Print the answer as JSON.")
    quiet: bool = flag("--quiet", "Print nothing but what was asked, and problems.")
    debug: bool = flag("--debug", "Show the traceback of an error.")


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


def command(
    app: typer.Typer,
    *examples: str,
    name: str | None = None,
    reads: bool = False,
    kind: type[Command] = Command,
) -> Callable[[Body], Body]:
    """Make a function of a task and of options a command; its docstring is the help.

    Args:
        app: Of the command's group.
        examples: Command lines without the program's name.
        name: The function's if None.
        reads: Whether it leaves nothing behind but what it prints.
        kind: Its class, where it reads its command line in another way.
    """

    def register(body: Body) -> Body:
        def run(context: typer.Context, **given: Any) -> Any:
            context.obj.begin(context, _made(context, Printing, given), reads=reads)
            return body(context.obj, **_filled(context, body, given))

        of_context = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
        told = [of_context, *_options(body), *_fields(Printing)]
        run.__signature__ = inspect.Signature(told)  # type: ignore[attr-defined]
        text = inspect.getdoc(body) or ""
        app.command(
            name or body.__name__.replace("_", "-"),
            cls=kind,
            help=text.partition("\n\nRaises:")[0],
            short_help=text.partition("\n")[0].rstrip("."),
            epilog="\n".join(["Example:", *(f"  {_PROGRAM} {one}" for one in examples)]),
            context_settings=CONTEXT,
        )(run)
        return body

    return register


def _filled(context: typer.Context, body: Body, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a command's function takes, with its dataclasses made."""
    return {
        name: _made(context, kind, given) if is_dataclass(kind) else given[name]
        for name, kind in _parameters(body).items()
    }


def _made(context: typer.Context, group: Any, given: dict[str, Any]) -> Any:
    """Return a dataclass of options; what it refuses is a mistake of usage."""
    try:
        return group(**{one.name: given[one.name] for one in fields(group)})
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
    hints, section = get_type_hints(group, include_extras=True), getattr(group, "SECTION", None)
    return [_option(one.name, hints[one.name], one, section) for one in fields(group)]


def _option(name: str, kind: Any, default: Any, section: str | None = None) -> inspect.Parameter:
    """Return an option as Typer takes it.

    Args:
        name: Of the field or parameter.
        kind: Its type, with what `option` returned where the parameter is annotated with it.
        default: What `option` returned; another default; or none.
        section: Of the help.
    """
    value = default.default if isinstance(default, Field) else default
    one = default
    if get_origin(kind) is Annotated:
        kind, one = get_args(kind)
        if value is MISSING or value is _NO_DEFAULT:
            value = one.default
    told = copy(one.metadata[_TOLD])
    told.rich_help_panel = told.rich_help_panel or section
    if kind in _TEXTS:  # a text passes as it was typed: the command has words for a bad one
        told.parser = told.parser or str
    value = _NO_DEFAULT if value is MISSING else value
    return inspect.Parameter(name, _KEYWORD, default=value, annotation=Annotated[kind, told])


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
