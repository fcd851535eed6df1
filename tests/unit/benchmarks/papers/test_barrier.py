"""The steward's side of a cell: what is declared, and the least noise that is affordable."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from analyst.recipes import load_recipe
from benchmarks.papers.barrier import Served, calibrated_noise, facts_for, federation_toml
from benchmarks.papers.catalogue import Cell
from benchmarks.papers.data import read_data
from benchmarks.papers.work import Work
from curator.accounting.cost import event_cost
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.rule import BudgetRule
from curator.mechanisms.catalogue import MECHANISMS, read_specification
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.facts import DatasetFacts


def _declared(recipe: Any, tmp_path: Path) -> Any:
    settings = {"epsilon": 10.0, "delta": 1e-5}
    cell = Cell(
        table="t",
        paper="P",
        place="p",
        name="c",
        kind="trained",
        size="cpu",
        settings=settings,
    )
    work = Work(cell=cell, seed=0, folder=tmp_path)
    return facts_for(work, recipe, read_data("digits", None))


def test_what_is_declared_allows_the_recipe_s_batches(tmp_path: Path) -> None:
    facts = _declared(load_recipe("dp-sinkhorn-digits", {}), tmp_path)
    assert facts.sampling_rate == 40 / 1437
    assert facts.capacity == round(40 + 8 * 40**0.5) + 1
    assert (facts.nominal_size, facts.max_size) == (1437, 1676)


@pytest.mark.parametrize("steps", [10, 500])
def test_the_calibrated_noise_is_affordable_and_hardly_more(steps: int, tmp_path: Path) -> None:
    recipe = load_recipe("dp-sinkhorn-digits", {"training.steps": steps})
    facts = _declared(recipe, tmp_path)
    noise, rule = calibrated_noise(recipe, facts), BudgetRule.register(facts.budget)
    rate = SamplingRate.at_least(recipe.mechanism.parameters(facts)["sampling_rate"])

    def is_affordable(noise_multiplier: float) -> bool:
        event = SampledGaussianEvent(sampling_rate=rate, noise_multiplier=noise_multiplier)
        return rule.admits(event_cost(event) * steps)

    assert is_affordable(noise)
    assert not is_affordable(noise * (1 - 3e-4))


def test_all_steps_have_no_noise_of_their_own(tmp_path: Path) -> None:
    recipe = load_recipe("dp-sinkhorn-digits", {"training.steps": "all"})
    with pytest.raises(ValueError, match="not to 'all'"):
        calibrated_noise(recipe, _declared(recipe, tmp_path))


def test_a_federation_names_its_curators() -> None:
    served = {"a": Served(address="localhost:1", credentials=Path("a.json"))}
    (one,) = tomllib.loads(federation_toml(served))["curator"]
    assert one == {"name": "a", "address": "localhost:1", "credentials": "a.json"}


@pytest.mark.parametrize(("name", "side"), [("dp-sinkhorn-celeba32", 32), ("dp-swd-celeba64", 64)])
def test_the_noise_of_the_celeba_recipes_is_affordable_for_faces(
    name: str, side: int, tmp_path: Path
) -> None:
    recipe = load_recipe(name, {})
    batch = recipe.mechanism.expected_batch_size
    facts = DatasetFacts.model_validate(
        {
            "name": recipe.training.dataset,
            "channels": 3,
            "height": side,
            "width": side,
            "max_level": 255,
            "classes": ["no", "yes"],
            "nominal_size": 162_770,
            "max_size": 165_000,
            "sampling_rate": batch / 162_770,
            "capacity": 448,
            "relation": "add-or-remove",
            "unit": "record",
            "epsilon": 10.0,
            "delta": 1e-6,
        }
    )
    parameters, rule = recipe.mechanism.parameters(facts), BudgetRule.register(facts.budget)
    (mechanism,) = (one for one in MECHANISMS if one.name == recipe.mechanism.wire_name)
    noise, steps = recipe.mechanism.noise_multiplier, recipe.training.steps
    assert isinstance(steps, int)
    for noise_multiplier, is_enough in ((noise, True), (noise / 1.05, False)):
        changed = {**parameters, "noise_multiplier": noise_multiplier}
        setup, step = mechanism.costs_of(
            read_specification(mechanism.name, json.dumps(changed)), facts.space
        )
        total = event_cost(setup) + event_cost(step) * steps
        assert rule.admits(total) == is_enough
