"""The options that change a recipe: a handful by name, every key by --set."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from analyst.cli.access import positive
from analyst.cli.options import Command, option

Assignments = Annotated[
    list[str] | None,
    option(
        "Set any key of the recipe; repeatable. 'analyst recipes show NAME --keys' lists all keys.",
        "SECTION.KEY=VALUE",
        "--set",
    ),
]
_NAMED = {
    **dict.fromkeys(("dataset", "steps", "seed", "depth"), "training"),
    "device": "session",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeOptions:
    """What the command line says in the place of the recipe's file."""

    SECTION: ClassVar = "Recipe"

    dataset: str | None = option("Name of the data set at the curator.", "NAME")
    steps: str | None = option("Declared steps, or all that the budget affords.", "N|all")
    seed: str | None = option("Seed of weights and latents.", "N")
    device: str | None = option("Torch device of the generator.", "NAME")
    assignments: Assignments

    def overrides(self) -> dict[str, Any]:
        """Return what is set, by dotted key."""
        from analyst.recipes.assignments import read_assignments  # pydantic

        named = [
            f"{section}.{name}={value}"
            for name, section in _NAMED.items()
            if (value := getattr(self, name, None)) is not None
        ]
        return read_assignments([*(self.assignments or ()), *named])


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainOptions(RecipeOptions):
    """The same where a recipe may be a chain."""

    depth: str | None = option(
        "Steps on their way at once, for slow lines; with 2 gradients are one update old, which "
        "acts as momentum does: also --set optimizer.beta1=0.",
        "K",
    )

    budget: float | None = option(
        "Of a chain: the epsilon that the data set may reach with all its stages.",
        "E",
        callback=positive,
    )

    def overrides(self) -> dict[str, Any]:
        """Return what is set, by dotted key."""
        budget = {} if self.budget is None else {"budget.epsilon": self.budget}
        return RecipeOptions.overrides(self) | budget


class RecipeCommand(Command):
    """A command that still takes the options of earlier versions, one for every key of a recipe.

    They are gone after the release that has --set for all of them.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line, with every old option as the --set that it means.

        Raises:
            TyperException: If it is not understood.
        """
        known = {name for one in self.get_params(ctx) for name in one.opts}
        found: list[str] = []
        old: list[str] = []
        rest = list(args)
        while rest and rest[0] != "--":
            word = rest.pop(0)
            option, equals, value = word.partition("=")
            key = None
            if option.startswith("--") and option not in known:
                from analyst.recipes.assignments import key_of_option  # pydantic

                key = key_of_option(option)
            if key is None or not (equals or rest):
                found.append(word)
                continue
            assignment = f"{key}={value if equals else rest.pop(0)}"
            old.append(f"{option}: --set {assignment}")
            found += ["--set", assignment]
        if old and "--quiet" not in args and not ctx.resilient_parsing:
            sys.stderr.write(
                f"note: options that go with the next release, and what to use: {'; '.join(old)}\n"
            )
        try:
            return super().parse_args(ctx, [*found, *rest])
        except typer.TyperException as mistake:
            if not ctx.resilient_parsing:
                _name_keys(mistake)
            raise


def _name_keys(mistake: Any) -> None:
    """Say of an option that there is not which keys of a recipe it may stand for."""
    if getattr(mistake, "possibilities", None) is None:
        return
    from analyst.recipes.keys import keys_by_section  # pydantic
    from analyst.recipes.mistakes import did_you_mean, keys_like

    key = mistake.option_name.lstrip("-").replace("-", "_")
    meant = list(keys_like(key, keys_by_section()))
    is_key = any(one.endswith(f".{key}") for one in meant)
    if is_key or not mistake.possibilities:  # else an option is nearer
        mistake.possibilities = None
        mistake.message += did_you_mean(f"--set {one}=VALUE" for one in meant)
