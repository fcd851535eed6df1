"""`analyst recipes`: those of every command that trains, as titles, as files, by key."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import typer

from analyst.cli.command import Task, command
from analyst.cli.options import Group, argument, flag

_COMMANDS = ("list", "show")


class RecipesGroup(Group):
    """Takes `recipes` and `recipes NAME` for `recipes list` and `recipes show NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line, with the command that was left out."""
        words = [word for word in args if not word.startswith("-")]
        if "--help" not in args and (not words or words[0] not in _COMMANDS):
            args = [_COMMANDS[bool(words)], *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="recipes", cls=RecipesGroup, help="List the recipes, or print one, or its keys."
)


@command(app, "recipes", "recipes list --json", name="list", reads=True)
def list_all(task: Task) -> None:
    """List all recipes with their titles."""
    from analyst.chains.recipe import CHAINS
    from analyst.recipes.books import BOOKS

    books = {"train": [BOOKS["train"], CHAINS]}
    titles = {
        words: {
            name: one.load(name).about.title
            for one in books.get(words, [book])
            for name in one.names()
        }
        for words, book in BOOKS.items()
    }
    width = max(len(name) for known in titles.values() for name in known)
    lines: list[str] = []
    for words, known in titles.items():
        lines += ["", f"for 'analyst {words}':"] if lines else []
        lines += [f"{name:{width}s}  {title}" for name, title in known.items()]
    task.screen.show("\n".join(lines))
    task.screen.answer(
        [
            {"name": name, "title": title, "command": words}
            for words, known in titles.items()
            for name, title in known.items()
        ]
    )


@command(app, "recipes show embedding-digits", "recipes show embedding-digits --keys", reads=True)
def show(
    task: Task,
    *,
    name: str = argument("NAME|FILE.toml", "The recipe."),
    keys: bool = flag(
        "--keys", "Every key that --set takes: its value here, its meaning, what it may be."
    ),
) -> None:
    """Print a recipe's file, or document its keys."""
    from analyst.recipes.books import book_of

    if keys:
        _show_keys(task, name)
        return
    text = book_of(name).text(name)
    task.screen.show(text)
    task.screen.answer({"name": name, "toml": text})


def _show_keys(task: Task, name: str) -> None:
    from analyst.chains.recipe import is_chain, load_chain
    from analyst.recipes.books import load_any
    from analyst.recipes.keys import recipe_keys, sections_of

    recipe = load_chain(name, {}) if is_chain(name) else load_any(name, {})
    sections, answers = sections_of(recipe), list[dict[str, Any]]()
    for key in recipe_keys(recipe):
        value = getattr(sections[key.section], key.key)
        default = "no default" if key.is_required else f"default {json.dumps(key.default)}"
        kind = ", ".join(filter(None, (key.type, key.range)))
        here = key.path if value is None else f"{key.path} = {json.dumps(value)}"
        task.screen.show(f"{here}\n    {key.sentence}\n    {kind}; {default}")
        answers.append({"path": key.path, "value": value} | asdict(key))
    task.screen.answer(answers)
