"""Every key of a recipe is documented by what validates it, and the curator's schemas are kept."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest

from analyst.errors import RecipeError
from analyst.recipes import list_recipes, load_recipe
from analyst.recipes.books import BOOKS, load_any
from analyst.recipes.keys import RecipeKey, all_keys, recipe_keys
from analyst.recipes.mechanisms import mechanism_config, mechanism_names
from curator.mechanisms import catalogue
from scripts import mechanism_schemas
from tests.fakes.barrier import FakeDataset


def _data(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((resources.files("analyst.recipes") / name).read_text())
    return read


@pytest.mark.parametrize("name", [one for book in BOOKS.values() for one in book.names()])
def test_every_key_of_a_recipe_says_what_it_is(name: str) -> None:
    keys = recipe_keys(load_any(name, {}))
    assert len({key.path for key in keys}) == len(keys)
    assert all(key.sentence and key.type for key in keys)


def test_a_key_has_type_range_default_and_sentence() -> None:
    keys = {key.path: key for key in recipe_keys(load_recipe("embedding-digits"))}
    assert keys["mechanism.noise_multiplier"] == RecipeKey(
        section="mechanism",
        key="noise_multiplier",
        type="number",
        range="at least 0.01, at most 1,000,000",
        default=None,
        is_required=True,
        sentence="noise std / sensitivity (z)",
    )
    maps = "rff | scattering-rff | mix | sorf | scattering-sorf | mix-sorf"
    assert keys["mechanism.feature_map"].range == maps
    assert keys["mechanism.feature_map"].default == "rff"
    assert keys["mechanism.feature_seed"].range == "at least 0, below 2^63"
    bandwidths = keys["mechanism.bandwidths"]
    assert (bandwidths.type, bandwidths.default) == ("list of numbers", [])
    assert bandwidths.range == "up to 32, each at least 0.01, at most 10,000"
    assert keys["training.steps"].type == "whole number or text"
    assert keys["training.steps"].range == "at least 1, or all"


def test_a_key_that_may_be_left_out_is_not_required() -> None:
    keys = {key.key: key for key in recipe_keys(load_recipe("dp-sinkhorn-digits"))}
    left_out = {"sampling_rate", "expected_batch_size", "capacity"}
    assert not any(keys[name].is_required for name in left_out)
    assert keys["clip_norm"].is_required


def test_the_keys_of_all_are_those_of_each() -> None:
    paths = {key.path for key in all_keys()}
    assert paths == {key.path for name in list_recipes() for key in recipe_keys(load_recipe(name))}


def test_no_sentence_is_about_a_key_that_nobody_has() -> None:
    known = {
        name: set(mechanism_config(name).model_fields) - {"kind"} for name in mechanism_names()
    }
    sentences = _data("sentences.json")
    assert set(sentences.pop("any")) <= set().union(*known.values())
    assert all(set(keys) <= known[name] for name, keys in sentences.items())


def test_schemas_are_what_the_specifications_say() -> None:
    kept = mechanism_schemas.FILE.read_text(encoding="utf-8")
    assert kept == mechanism_schemas.text(), "run 'python scripts/mechanism_schemas.py'"
    assert mechanism_names() == list(catalogue.mechanism_names())


def test_a_value_outside_of_the_curators_range_does_not_load() -> None:
    """Without asking anybody: the recipe knows the ranges, which only the curator types."""
    with pytest.raises(RecipeError) as caught:
        load_recipe("dp-cgan-digits", {"mechanism.critic_width": 100_000})
    assert "mechanism.critic_width: must be at most 1024" in str(caught.value)
    with pytest.raises(RecipeError, match=r"mechanism\.schedule: must be 'published' or"):
        load_recipe("dp-sinkhorn-digits", {"mechanism.schedule": "slow"})


def test_a_mechanism_of_which_nothing_else_is_known_can_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its schema is enough: a new mechanism whose steps are paid needs no code of the analyst's."""
    rule = {"type": "integer", "minimum": 1, "description": "rows"}
    schema = {"required": ["num_samples"], "properties": {"num_samples": rule}}
    files = {"mechanisms.json": {"new": schema}, "sentences.json": {"any": {}}}
    monkeypatch.setattr("analyst.recipes.mechanisms.read_data", files.__getitem__)
    config = mechanism_config.__wrapped__("new")
    made = config.model_validate({"kind": "new", "num_samples": 3})
    assert made.parameters(FakeDataset()) == {"num_samples": 3}
    assert (made.pays_per_step, made.cost) == (True, "every step is charged")
    assert config.model_fields["num_samples"].description == "rows"
