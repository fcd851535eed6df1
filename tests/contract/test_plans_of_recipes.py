"""What the steward's side makes of every recipe: the same plan, and no bound that is too low."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import torch

from analyst.recipes.books import BOOKS, book_of, load_any
from curator.cli.recipe import wire_parameters
from curator.errors import PolicyRefused
from curator.mechanisms import feature_statistics
from curator.mechanisms.catalogue import mechanism_names, parameter_schema, parse_mechanism
from curator.mechanisms.specification import canonical_json
from curator.privacy.facts import DatasetFacts
from curator.service.checks import check_policy
from tests.fakes.facts import small_facts

NAMES = [name for book in BOOKS.values() for name in book.names()]
BOUNDS = ("max_size", "max_records_per_unit")


@pytest.fixture(autouse=True)
def _every_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recipe costs and asks for does not depend on the weights of its network."""

    def zeros(_name: str, _sha256: str, _architecture: str, sizes: Any) -> dict[str, Any]:
        return {name: torch.zeros(size) for name, size in sizes.items()}

    monkeypatch.setattr(feature_statistics, "read_network", zeros)


def _facts(name: str) -> DatasetFacts:
    side = 8 if name.endswith("-digits") else 28
    return small_facts(
        height=side, width=side, classes=tuple("0123456789"), nominal_size=50_000,
        max_size=70_000, capacity=5000, delta=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_both_sides_read_a_recipe_alike(name: str) -> None:
    facts = _facts(name)
    by_steward = wire_parameters(tomllib.loads(book_of(name).text(name))["mechanism"], facts)
    recipe = load_any(name, {}).mechanism

    def canonical(mechanism: str, parameters: dict[str, Any]) -> str:
        return canonical_json(parse_mechanism(mechanism, json.dumps(parameters), facts.space).spec)

    by_analyst = canonical(recipe.wire_name, recipe.parameters(facts))
    assert canonical(by_steward.mechanism, by_steward.parameters) == by_analyst


def _bounded() -> dict[str, str]:
    """Return a recipe for each mechanism whose cost relies on bounds, by mechanism."""
    found = {load_any(name, {}).mechanism.wire_name: name for name in NAMES}
    return {
        mechanism: found[mechanism]
        for mechanism in mechanism_names()
        if set(BOUNDS) & set(parameter_schema(mechanism)["properties"])
    }


def test_mechanisms_with_bounds_are_known_here() -> None:
    assert set(_bounded()) == {
        "dp-cgan",
        "dp-merf-ae",
        "dp-swd",
        "dp-swd-features",
        "feature-statistics",
        "linear-teacher",
        "score",
        "votes",
    }


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("mechanism", _bounded())
def test_a_bound_that_the_data_set_may_exceed_is_refused(mechanism: str, bound: str) -> None:
    name = _bounded()[mechanism]
    facts = _facts(name).model_copy(update={"unit": "group", "max_records_per_group": 3})
    parameters = load_any(name, {}).mechanism.parameters(facts)
    parameters |= {"max_size": facts.max_size, "max_records_per_unit": 3}

    def check(changes: dict[str, int]) -> None:
        text = json.dumps(parameters | changes)
        check_policy(parse_mechanism(mechanism, text, facts.space), facts)

    check({})
    check({bound: parameters[bound] + 1})
    with pytest.raises(PolicyRefused, match=f"{bound} must be at least {parameters[bound]}"):
        check({bound: parameters[bound] - 1})
