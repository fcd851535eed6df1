"""`analyst recipes`: those of `train` and those of `adapt train`, as titles or as files."""

from __future__ import annotations

from analyst.adaptation.load import adaptation_recipes, adaptation_text, load_adaptation
from analyst.recipes import list_recipes, load_recipe
from analyst.recipes.load import recipe_text
from analyst.screen import Screen


def show_recipe(name: str, screen: Screen) -> None:
    """Print one recipe's file.

    Args:
        name: Of a recipe of either command, or the path of a TOML file.
        screen: Takes it.
    """
    text = adaptation_text(name) if name in adaptation_recipes() else recipe_text(name)
    screen.show(text)
    screen.answer({"name": name, "toml": text})


def show_recipes(screen: Screen) -> None:
    """List all recipes with their titles."""
    train = {name: load_recipe(name).about.title for name in list_recipes()}
    adapt = {name: load_adaptation(name, {}).about.title for name in adaptation_recipes()}
    width = max(map(len, train | adapt))
    lines = [f"{name:{width}s}  {title}" for name, title in train.items()]
    lines += ["", "for 'analyst adapt train':"]
    lines += [f"{name:{width}s}  {title}" for name, title in adapt.items()]
    screen.show("\n".join(lines))
    screen.answer(
        [
            {"name": name, "title": title, "command": command}
            for command, titles in (("train", train), ("adapt train", adapt))
            for name, title in titles.items()
        ]
    )
