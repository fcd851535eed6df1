"""`curator accountant explain`: read a description, print the chain to epsilon."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import typer

from curator.cli.command import Task, UsageProblem, command
from curator.cli.options import Group, argument, flag, option
from curator.cli.recipe import no_such_recipe

app = typer.Typer(name="accountant", cls=Group, help="Explain what a run costs; needs no folder.")

_MAX_BYTES: Final = 64 * 1024
_CHANGES_NOTHING: Final = (
    "note: --favour changes nothing here: any such budget favours this order by default"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What replaces or adds to the description."""

    epsilon: float | None = option("Cap of the data set.", "E")
    delta: float | None = option("Delta of the data set.", "D")
    num_steps: int | None = option("Declared steps, instead of those in SPEC.", "N", "--steps")
    nominal_size: int | None = option("Size that a batch size refers to.", "N")
    dimension: int | None = option("Of dp-swd's rows: pixels and classes.", "N")
    capacity: int | None = option("Slots of the data set, where SPEC has none.", "N")


@command(
    app, "accountant explain recipe.toml --epsilon 10 --delta 1e-5 --nominal-size 60000", reads=True
)
def explain(
    task: Task,
    *,
    spec: str = argument("SPEC", "An analyst's recipe, a TOML or JSON file, or inline JSON."),
    given: Given,
    favour: str | None = option("What the budget favours, as for 'dataset add --favour'.", "SPEC"),
    cross_check: bool = flag("--cross-check", "Ask opacus too."),
) -> None:
    """Show the chain from a description to epsilon.

    Raises:
        UsageProblem: If the description is not valid.
    """
    from curator.accounting.explain import explain as explained  # the accountants
    from curator.accounting.explain import explain_lines
    from curator.accounting.rule import default_favourite
    from curator.mechanisms.described import read_described

    overrides = asdict(given)
    try:
        run = read_described(_table(spec), overrides)
        favourite = None
        if favour is not None:
            favourite = read_described(_table(favour), overrides).favourite
        why = explained(run, cross_check=cross_check, favourite=favourite)
        task.screen.answer(why.to_json())
        task.screen.show(*explain_lines(why))
        if favourite == default_favourite(run.budget):
            task.screen.tell(_CHANGES_NOTHING)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None


def _table(spec: str) -> dict[str, Any]:
    """Parse the description.

    Raises:
        ValueError: If it is not one JSON object or TOML document of at most 64 KiB.
    """
    text, is_toml = spec, False
    if not spec.lstrip().startswith("{"):
        path = Path(spec)
        if not path.exists():
            msg = f"{no_such_recipe(spec)}; inline JSON begins with a brace"
            raise ValueError(msg)
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        text, is_toml = content.decode("utf-8", "replace"), path.suffix != ".json"
    if len(text) > _MAX_BYTES:
        msg = "a description has at most 64 KiB"
        raise ValueError(msg)
    try:
        table = tomllib.loads(text) if is_toml else json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if is_toml else "JSON"
        msg = f"the description is not valid {kind}: {str(error)[:200]}"
        raise ValueError(msg) from None
    if not isinstance(table, dict):
        msg = "the description must be one JSON object"
        raise ValueError(msg)  # noqa: TRY004
    return table
