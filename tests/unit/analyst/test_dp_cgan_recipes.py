"""The recipes of DP-CGAN: what is sent, that a curator takes it, and that it fits its budget."""

from __future__ import annotations

import json

import pytest
import torch

from analyst.errors import RecipeError
from analyst.recipes import list_recipes, load_recipe
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.dp_cgan import DpCgan, DpCganSpec
from curator.mechanisms.dp_cgan_pace import PaceRule
from curator.privacy.batches import ImageSpace
from tests.fakes.barrier import FakeDataset
from tests.stated_steps import stated_and_affordable_steps

RECIPES = [name for name in list_recipes() if name.startswith("dp-cgan-")]


def facts(name: str) -> FakeDataset:
    return FakeDataset(nominal_size=1437 if name.endswith("digits") else 60000)


def test_there_are_some_for_digits_and_some_for_mnist() -> None:
    assert RECIPES == [
        "dp-cgan-adaptive-digits",
        "dp-cgan-digits",
        "dp-cgan-mnist",
        "dp-cgan-mnist-cpu",
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_a_curator_takes_what_is_sent(name: str) -> None:
    mechanism, side = load_recipe(name).mechanism, 8 if name.endswith("digits") else 28
    sent = mechanism.parameters(facts(name))
    assert set(sent) == set(DpCganSpec.model_fields)
    space = ImageSpace(channels=1, height=side, width=side, max_level=255, num_classes=10)
    made = parse_mechanism(mechanism.wire_name, json.dumps(sent), space)
    assert isinstance(made, DpCgan)
    assert len(mechanism.draw_labels(10, torch.Generator())) == made.rows_per_step
    rule = PaceRule(threshold=0.6, decay=0.99, grace=200)
    assert made.spec.pace_rule == (rule if "adaptive" in name else None)


@pytest.mark.parametrize("name", RECIPES)
def test_the_stated_steps_fit_the_stated_budget_and_hardly_more_would(name: str) -> None:
    stated, affordable = stated_and_affordable_steps(name, facts(name))
    assert stated <= affordable < 1.01 * stated


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism.adaptive_threshold": 0.6},
        {"mechanism.adaptive_threshold": 1.5, "mechanism.adaptive_decay": 0.9}
        | {"mechanism.adaptive_grace": 9},
        {"mechanism.num_fakes": 257},
    ],
)
def test_what_a_curator_would_refuse_does_not_load(change: dict[str, float]) -> None:
    with pytest.raises(RecipeError):
        load_recipe("dp-cgan-digits", change)
