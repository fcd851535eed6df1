"""A steward who plans a recipe is told what its analyst would ask for."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from analyst.adaptation.load import adaptation_recipes, adaptation_text, load_either
from analyst.recipes.load import list_recipes, recipe_text
from curator.cli_plan import wire_parameters
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.specification import canonical_json
from curator.privacy.facts import DatasetFacts

ADAPTATIONS = adaptation_recipes()


def _facts(name: str) -> DatasetFacts:
    side = 8 if name.endswith("-digits") else 28
    return DatasetFacts(
        name="cats", channels=1, height=side, width=side, max_level=255,
        classes=tuple("0123456789"), nominal_size=50_000, max_size=70_000, sampling_rate=0.5,
        capacity=800, relation="add-or-remove", unit="record", epsilon=10.0, delta=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("name", [*list_recipes(), *ADAPTATIONS])
def test_both_sides_read_a_recipe_alike(name: str) -> None:
    facts = _facts(name)
    text = adaptation_text(name) if name in ADAPTATIONS else recipe_text(name)
    by_steward = wire_parameters(tomllib.loads(text)["mechanism"], facts)
    recipe = load_either(name, {}).mechanism

    def canonical(mechanism: str, parameters: dict[str, Any]) -> str:
        return canonical_json(parse_mechanism(mechanism, json.dumps(parameters), facts.space).spec)

    by_analyst = canonical(recipe.wire_name, recipe.parameters(facts))
    assert canonical(by_steward.mechanism, by_steward.parameters) == by_analyst
