"""Recipes of released embeddings: the curator takes them, and they cost what their name says."""

from __future__ import annotations

import json

import pytest
import torch

from analyst.generators.generator import ImageShape, build_generator
from analyst.recipes import list_recipes, load_recipe
from curator.accounting.cost import event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.rule import BudgetRule
from curator.mechanisms.mean_embedding import MeanEmbeddingSpec, feature_map
from curator.privacy.batches import ImageSpace
from curator.privacy.budget import Budget
from tests.fakes.barrier import FakeDataset

SIZES = ("", "-cpu")
NAMES = [
    f"embedding-{name}-{epsilon}{size}"
    for name in ("mnist", "fashion")
    for epsilon in ("10", "1", "0.2")
    for size in SIZES
]
PICTURES = "embedding-pictures-10-cpu"
SPACE = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)


def test_every_set_budget_and_size_has_a_recipe() -> None:
    found = {name for name in list_recipes() if name.startswith("embedding-")}
    assert found == {*NAMES, PICTURES, "embedding-digits"}
    assert {"dp-merf-mnist", "dp-merf-fashion"} <= set(list_recipes())


@pytest.mark.parametrize("name", [*NAMES, PICTURES, "dp-merf-mnist", "dp-merf-fashion"])
def test_the_release_costs_what_the_name_says_and_hardly_less(name: str) -> None:
    mechanism = load_recipe(name).mechanism
    epsilon = 10.0 if name.startswith("dp-merf") else float(name.split("-")[2])
    rule = BudgetRule.register(Budget(epsilon=epsilon, delta=1e-5))
    cost = event_cost(GaussianEvent(noise_multiplier=mechanism.noise_multiplier))
    assert rule.admits(cost)
    assert rule.spent_epsilon(cost) > 0.998 * epsilon


@pytest.mark.parametrize(
    "name", ["embedding-mnist-1", "embedding-fashion-0.2-cpu", "dp-merf-mnist"]
)
def test_the_curator_takes_the_parameters_and_the_generator_fits(name: str) -> None:
    recipe = load_recipe(name)
    text = json.dumps(recipe.mechanism.parameters(FakeDataset()))
    spec = MeanEmbeddingSpec.model_validate_json(text, strict=True)
    assert feature_map(spec, SPACE).num_features == spec.width
    shape = ImageShape(channels=1, height=28, width=28, num_classes=10)
    generator = build_generator(recipe.generator, shape, torch.Generator())
    assert generator.num_classes == 10


@pytest.mark.parametrize("side", [64, 128, 256])
def test_pictures_of_every_size_have_a_generator_that_fits(side: int) -> None:
    shape = ImageShape(channels=3, height=side, width=side, num_classes=2)
    generator = build_generator(load_recipe(PICTURES).generator, shape, torch.Generator())
    images = generator(torch.zeros(2, 32).normal_(), torch.arange(2))
    assert images.shape == (2, 3, side, side)


def test_both_sizes_and_all_budgets_of_a_set_share_their_constants() -> None:
    shared = (
        "bandwidths",
        "scattering_bandwidths",
        "scattering_share",
        "count_scale",
        "feature_map",
    )
    chosen = [load_recipe(name).mechanism.parameters(FakeDataset()) for name in NAMES]
    assert all(one[key] == chosen[0][key] for one in chosen for key in shared)
