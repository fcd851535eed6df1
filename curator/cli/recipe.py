"""What the steward's commands read of an analyst's recipe: its mechanism."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curator.cli.command import UsageProblem
from curator.errors import CuratorError

if TYPE_CHECKING:
    from curator.privacy.facts import DatasetFacts

_MAX_BYTES = 64 * 1024
_RECIPES = ("recipes", "adaptation")


@dataclass(frozen=True, slots=True)
class Asked:
    """The mechanism of a recipe, as the curator takes it, and what only the analyst uses."""

    mechanism: str
    parameters: dict[str, Any]
    left_out: tuple[str, ...]


def mechanism_table(path: str) -> dict[str, Any]:
    """Return [mechanism] of a recipe.

    Raises:
        UsageProblem: If it is no recipe.
    """
    file = Path(path)
    if not file.exists():
        raise UsageProblem(no_such_recipe(path))
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_BYTES + 1).decode()
        table = tomllib.loads(text).get("mechanism")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        msg = f"cannot read recipe {path}: {reason}"
        raise UsageProblem(msg) from None
    if len(text) > _MAX_BYTES or not isinstance(table, dict) or not table.get("kind"):
        msg = f"{path} is no recipe: it has no [mechanism] with a kind"
        raise UsageProblem(msg)
    return table


def no_such_recipe(path: str) -> str:
    """Return that there is no such file, and how one is written, by the name that it may mean."""
    said = f"cannot read recipe {path}: there is no such file"
    stem = Path(path).stem
    near = get_close_matches(stem, _recipe_names(), n=1)
    if not near:
        return f"{said}; 'analyst recipes' lists recipes, and 'analyst recipes show' writes one"
    (name,) = near
    guess = "" if name == stem else f"did you mean {name}? "
    return f"{said}; {guess}'analyst recipes show {name} > {name}.toml' writes it"


def _recipe_names() -> list[str]:
    """Return the names of the analyst's recipes, where that package is installed; none is read."""
    found = find_spec("analyst")
    places = [] if found is None else [Path(one) for one in found.submodule_search_locations or ()]
    files = [file for one in places for file in one.glob("*/*.toml")]
    return sorted(file.stem for file in files if file.parent.name in _RECIPES)


def wire_parameters(table: Mapping[str, Any], facts: DatasetFacts) -> Asked:
    """Return what an analyst would send for a recipe.

    Args:
        table: Its [mechanism].
        facts: A batch size becomes a rate by the nominal size; the capacity is the data set's where
            the recipe has none.

    Returns:
        The mechanism with its parameters; keys that are no parameters are the analyst's own.
    """
    from curator.mechanisms.catalogue import parameter_schema  # torch

    mechanism = str(table["kind"])
    known = parameter_schema(mechanism)["properties"]
    given = {key: value for key, value in table.items() if key != "kind"}
    batch = given.get("expected_batch_size")
    if batch is not None and "sampling_rate" in known:
        given.setdefault("sampling_rate", batch / facts.nominal_size)
        if "expected_batch_size" not in known:
            del given["expected_batch_size"]
    if "capacity" in known:
        given.setdefault("capacity", facts.capacity)
    return Asked(
        mechanism,
        {key: value for key, value in given.items() if key in known},
        tuple(key for key in given if key not in known),
    )


def favourite_of_recipe(path: str, facts: DatasetFacts) -> tuple[float, str]:
    """Return the order that a budget should favour for a recipe, and what that is worth.

    Raises:
        UsageProblem: If the recipe's mechanism does not fit the data set, or its budget no step.
    """
    from curator.accounting.cost import Cost, event_cost
    from curator.accounting.rule import BudgetRule, favourite_for
    from curator.mechanisms.catalogue import parse_mechanism  # torch
    from curator.privacy.event_numbers import MAX_STEPS
    from curator.service.checks import check_policy

    table = mechanism_table(path)
    try:
        asked = wire_parameters(table, facts)
        mechanism = parse_mechanism(asked.mechanism, json.dumps(asked.parameters), facts.space)
        check_policy(mechanism, facts)
    except CuratorError as problem:
        msg = f"{path} does not fit this data set: {problem}"
        raise UsageProblem(msg) from None
    setup, step = event_cost(mechanism.setup_event()), event_cost(mechanism.step_event())
    order = favourite_for(facts.budget, setup, step)
    chosen, usual = BudgetRule.register(facts.budget, order), BudgetRule.register(facts.budget)
    if not chosen.admits(setup + step):
        msg = f"{path}: not one step is affordable, whatever is favoured: it needs more noise"
        raise UsageProblem(msg)
    if step.is_zero:
        worth, before = (f"epsilon {rule.spent_epsilon(setup):.4f}" for rule in (chosen, usual))
    else:
        steps, fewer = (
            rule.affordable_steps(Cost.zero(), setup, step, MAX_STEPS) for rule in (chosen, usual)
        )
        worth, before = f"{steps:,} steps", f"{fewer:,}"
    return order, f"the budget favours order {order:g}: {worth} of this recipe, {before} by default"
