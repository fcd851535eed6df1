"""Adaptation recipes: those of the package load, and what is wrong is named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import analyst.adaptation
from analyst.adaptation.recipe import (
    adaptation_from_dict,
    adaptation_recipes,
    adaptation_to_dict,
    load_adaptation,
)
from analyst.errors import RecipeError
from curator.accounting.cost import event_cost
from curator.accounting.explain import DescribedRun
from curator.accounting.rule import BudgetRule
from curator.mechanisms.described import read_described
from curator.mechanisms.dp_swd_features import DpSwdFeaturesSpec
from tests.fakes.adaptation import table, toml
from tests.fakes.facts import small_facts

FOLDER = Path(analyst.adaptation.__file__).parent


def affordable(run: DescribedRun) -> bool:
    """Return whether the rule of a ledger with nothing in it admits a run."""
    assert run.num_steps is not None
    return BudgetRule.register(run.budget).admits(event_cost(run.step) * run.num_steps)


@pytest.mark.parametrize("name", adaptation_recipes())
def test_every_recipe_loads_and_its_noise_is_what_the_ledger_asks(name: str) -> None:
    """At (10, 1e-5) the declared steps are admitted, and 1% less noise is not."""
    recipe = load_adaptation(name, {})
    raw = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    size = {"mnist-to-usps": 7291, "usps-to-mnist": 60_000}[name]
    known = {"nominal_size": size, "epsilon": 10.0, "delta": 1e-5}
    assert affordable(read_described(raw, known))
    raw["mechanism"]["noise_multiplier"] *= 0.99
    assert not affordable(read_described(raw, known))
    sent = recipe.mechanism.parameters(small_facts(nominal_size=size, max_size=size, capacity=512))
    DpSwdFeaturesSpec(**sent)


def test_a_recipe_of_the_package_is_found() -> None:
    assert "mnist-to-usps" in adaptation_recipes()


def test_parameters_take_rate_and_capacity_from_the_facts() -> None:
    made = table(mechanism__expected_batch_size=5)
    del made["mechanism"]["capacity"]
    sent = adaptation_from_dict(made, origin="test").mechanism.parameters(
        small_facts(nominal_size=50, max_size=60, capacity=77)
    )
    assert sent["sampling_rate"] == 0.1
    assert sent["capacity"] == 77
    assert "kind" not in sent


def test_a_recipe_reads_back_and_counts_its_updates(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(toml(table()))
    recipe = load_adaptation(str(file), {"training.steps": 9, "session.metrics_every": 3})
    assert recipe.num_updates == 60 + 9 * 3
    assert recipe.session.metrics_every == 3
    assert adaptation_from_dict(adaptation_to_dict(recipe), origin="test") == recipe


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism__architecture": "resnet"}, "mechanism.architecture"),
        ({"mechanism__noise_multiplier": 0.0}, "mechanism.noise_multiplier"),
        ({"mechanism__sampling_rate": 0.1}, "either sampling_rate or expected_batch_size"),
        ({"mechanism__surprise": 1}, "mechanism.surprise: unknown key"),
        ({"training__num_classes": 1}, "training.num_classes"),
        ({"training__source_batch": 39}, "source_batch must be at least"),
        ({"move__weight": "much"}, "move.weight: must be a number"),
        ({"move__kind": "target"}, "move"),
        ({"session__device": "cuda"}, "session.device"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        adaptation_from_dict(table(**changes), origin="test")


@pytest.mark.parametrize("name", ["noise_multiplier", "clip_norm", "max_size", "num_projections"])
def test_nothing_that_carries_privacy_has_a_default(name: str) -> None:
    made = table()
    del made["mechanism"][name]
    with pytest.raises(RecipeError, match=f"mechanism.{name}"):
        adaptation_from_dict(made, origin="test")


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("nothing", {}, "there is no adaptation recipe"),
        ("missing.toml", {}, "cannot read"),
        ("bad.toml", {}, "not valid TOML"),
        ("good.toml", {"steps": 3}, "'steps' is not a key"),
        ("good.toml", {"training.pace": 3}, "training.pace"),
    ],
)
def test_files_and_overrides_that_are_wrong(
    tmp_path: Path, name: str, overrides: dict[str, Any], words: str
) -> None:
    (tmp_path / "bad.toml").write_text("[about")
    (tmp_path / "good.toml").write_text(toml(table()))
    given = str(tmp_path / name) if name.endswith(".toml") else name
    with pytest.raises(RecipeError, match=words):
        load_adaptation(given, overrides)
