"""Recipes of methods with one network a shard: what is sent, that it is taken, and that it fits."""

from __future__ import annotations

import json

import pytest
import torch
from pydantic import BaseModel

from analyst.errors import RecipeError
from analyst.recipes import list_recipes, load_recipe
from curator.mechanisms.adversarial_dp_sinkhorn import (
    AdversarialDpSinkhorn,
    AdversarialDpSinkhornSpec,
)
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.g_pate import GPate, GPateSpec
from curator.mechanisms.pate_gan import PateGan, PateGanSpec
from curator.privacy.batches import ImageSpace
from tests.fakes.barrier import FakeDataset
from tests.stated_steps import stated_and_affordable_steps

KNOWN: dict[str, tuple[type[BaseModel], type]] = {
    "adversarial-dp-sinkhorn": (AdversarialDpSinkhornSpec, AdversarialDpSinkhorn),
    "g-pate": (GPateSpec, GPate),
    "pate-gan": (PateGanSpec, PateGan),
}
STARTS = ("adversarial-dp-sinkhorn-", "g-pate-", "pate-gan-")
RECIPES = [name for name in list_recipes() if name.startswith(STARTS)]


def test_there_is_one_for_digits_and_one_for_mnist() -> None:
    wanted = {start + data for start in STARTS for data in ("digits", "mnist")}
    assert wanted <= set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_curator_takes_what_is_sent(name: str) -> None:
    mechanism = load_recipe(name).mechanism
    specification, kind = KNOWN[mechanism.wire_name]
    sent = mechanism.parameters(FakeDataset())
    assert set(sent) == set(specification.model_fields)
    side = 8 if "digits" in name else 28
    space = ImageSpace(channels=1, height=side, width=side, max_level=255, num_classes=10)
    made = parse_mechanism(mechanism.wire_name, json.dumps(sent), space)
    assert isinstance(made, kind)
    labels = mechanism.draw_labels(10, torch.Generator())
    assert len(labels) == made.rows_per_step
    counts = labels[: sent["num_samples"]].bincount().tolist()
    assert max(counts) - min(counts) <= 1
    assert "a network of each shard" in mechanism.cost


@pytest.mark.parametrize("name", RECIPES)
def test_the_stated_steps_fit_the_stated_budget_and_hardly_more_would(name: str) -> None:
    stated, affordable = stated_and_affordable_steps(name, FakeDataset())
    assert stated <= affordable < 1.02 * stated


@pytest.mark.parametrize(
    ("name", "key"),
    [("pate-gan-digits", "num_labelled"), ("adversarial-dp-sinkhorn-digits", "num_debias")],
)
def test_more_rows_than_there_are_cannot_be_asked(name: str, key: str) -> None:
    with pytest.raises(RecipeError, match=f"{key} must not exceed num_samples"):
        load_recipe(name, {f"mechanism.{key}": 10_000})


def test_further_rows_repeat_the_labels_of_the_first() -> None:
    mechanism = load_recipe("adversarial-dp-sinkhorn-digits", {"mechanism.num_debias": 7}).mechanism
    labels = mechanism.draw_labels(10, torch.Generator())
    assert torch.equal(labels[mechanism.num_samples :], labels[:7])
