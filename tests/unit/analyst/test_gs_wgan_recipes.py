"""The recipes of GS-WGAN: what is sent, that a curator takes it, and that it fits its budget."""

from __future__ import annotations

import json

import pytest
import torch

from analyst.recipes import list_recipes, load_recipe
from analyst.recipes.mechanisms import MechanismConfig
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.gs_wgan_decoupled import GsWganDecoupled, GsWganDecoupledSpec
from curator.mechanisms.gs_wgan_mean import GsWganMean, GsWganMeanSpec
from curator.mechanisms.gs_wgan_round_robin import GsWganRoundRobin
from curator.mechanisms.specification import Specification
from curator.privacy.batches import ImageSpace
from tests.fakes.barrier import FakeDataset
from tests.stated_steps import stated_and_affordable_steps

RECIPES = [name for name in list_recipes() if name.startswith("gs-wgan-")]


KINDS: dict[str, tuple[type[Specification], type]] = {
    "gs-wgan-decoupled": (GsWganDecoupledSpec, GsWganDecoupled),
    "gs-wgan-mean": (GsWganMeanSpec, GsWganMean),
    "gs-wgan-round-robin": (GsWganMeanSpec, GsWganRoundRobin),
}


def test_there_is_one_of_each_kind_for_digits() -> None:
    assert RECIPES == [
        "gs-wgan-decoupled-digits",
        "gs-wgan-decoupled-mnist",
        "gs-wgan-mean-digits",
        "gs-wgan-mean-mnist",
        "gs-wgan-round-robin-digits",
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_a_curator_takes_what_is_sent(name: str) -> None:
    check(load_recipe(name).mechanism, 8 if name.endswith("digits") else 28)


def check(mechanism: MechanismConfig, side: int) -> None:
    spec, kind = KINDS[mechanism.wire_name]
    sent = mechanism.parameters(FakeDataset())
    assert set(sent) == set(spec.model_fields)
    space = ImageSpace(channels=1, height=side, width=side, max_level=255, num_classes=10)
    made = parse_mechanism(mechanism.wire_name, json.dumps(sent), space)
    assert isinstance(made, kind)
    labels = mechanism.draw_labels(10, torch.Generator())
    assert len(labels) == made.rows_per_step
    assert max(labels.bincount().tolist()) - min(labels.bincount().tolist()) <= 1
    assert "critic" in mechanism.cost


@pytest.mark.parametrize("name", RECIPES)
def test_the_stated_steps_fit_the_stated_budget_and_hardly_more_would(name: str) -> None:
    stated, affordable = stated_and_affordable_steps(name, FakeDataset())
    assert stated <= affordable < 1.01 * stated
