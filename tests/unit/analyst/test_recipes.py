from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.adaptation.recipe import load_adaptation
from analyst.errors import RecipeError
from analyst.recipes import list_recipes, load_recipe, recipe_from_dict, recipe_to_dict
from analyst.recipes.assignments import key_of_option, read_assignments
from analyst.recipes.keys import all_keys, recipe_keys
from analyst.recipes.load import recipe_text, with_session
from tests.fakes.barrier import FakeDataset


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_loads_and_documents_itself(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.about.source
    assert recipe_text(name).startswith("# ")
    assert recipe_from_dict(recipe_to_dict(recipe), origin="round trip") == recipe


def test_the_recipes_of_the_first_run_are_there() -> None:
    assert {"dp-sinkhorn-digits", "embedding-digits", "dp-sinkhorn-mnist"} <= set(list_recipes())


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"mechanism.clip_nrm": 1}, "of dp-sinkhorn; did you mean mechanism.clip_norm?"),
        ({"mechanism.nois": 1}, "did you mean mechanism.noise_multiplier?"),
        ({"mechanism.lr": 1}, "unknown key of dp-sinkhorn; did you mean optimizer.lr?"),
        ({"mechanism.num_critics": 1}, "mechanism.num_critics: unknown key of dp-sinkhorn."),
        ({"optimiser.lr": 1}, "optimiser: unknown section; did you mean optimizer?"),
        ({"optimizer.lr": "fast"}, "optimizer.lr: must be a number"),
        ({"optimizer.lr": 0}, "optimizer.lr: must be above 0"),
        ({"mechanism.clip_norm": float("inf")}, "mechanism.clip_norm: must be a finite number"),
        ({"mechanism.num_samples": float("inf")}, "mechanism.num_samples: must be a whole number"),
        ({"mechanism.num_debias": 41}, "num_debias must not exceed num_samples"),
        ({"training.steps": "most"}, "training.steps: must be a whole number, such as 12 or "),
        ({"training.steps": 1.5}, "training.steps: must be a whole number"),
        ({"mechanism.kind": "magic"}, "'dp-cgan', 'dp-merf-ae', 'dp-sinkhorn'"),
        ({"mechanism.kind": "dp-sinkhor"}, "did you mean dp-sinkhorn?"),
        ({"lr": 1}, "'lr' is not a key of a recipe; did you mean optimizer.lr?"),
        ({"batch_size": 1}, "did you mean mechanism.expected_batch_size?"),
    ],
)
def test_a_wrong_key_is_named(overrides: dict[str, Any], text: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("dp-sinkhorn-digits", overrides)
    assert text in str(caught.value)
    assert caught.value.message.endswith((".", "?"))


def test_the_keys_that_are_shown_are_those_of_a_recipe_that_loads(tmp_path: Path) -> None:
    def shown(name: str, overrides: dict[str, Any]) -> str:
        with pytest.raises(RecipeError) as refused:
            load_recipe(name, overrides)
        return refused.value.remedy.partition(" --keys'")[0].rpartition(" ")[2]

    mistyped = {"optimizer.rl": 1}
    assert shown("dp-swd-mnist", mistyped) == "dp-swd-mnist"
    assert shown("dp-swd-mnist", {"mechanism.kind": "magic"}) == "dp-swd-mnist"
    assert shown("dp-swd-mnist", {"mechanism.kind": "g-pate"}) == "g-pate-digits"
    own = tmp_path / "own.toml"
    own.write_text(recipe_text("g-pate-mnist"))
    assert shown(str(own), mistyped) == str(own)
    own.write_text(recipe_text("g-pate-mnist").replace("clip_norm", "clip"))
    assert shown(str(own), {}) == "g-pate-digits"
    with pytest.raises(RecipeError, match=r"recipes show mnist-to-usps --keys"):
        load_adaptation("mnist-to-usps", mistyped)


@pytest.mark.parametrize("key", ["clip_norm", "noise_multiplier", "expected_batch_size"])
def test_what_carries_privacy_has_no_default(tmp_path: Path, key: str) -> None:
    lines = recipe_text("dp-sinkhorn-digits").splitlines()
    path = tmp_path / "partial.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith(key)))
    with pytest.raises(RecipeError):
        load_recipe(str(path))


@pytest.mark.parametrize("name", list_recipes())
def test_a_mistake_in_any_recipe_names_its_key(name: str) -> None:
    with pytest.raises(RecipeError, match=r"\n  mechanism\.noise_multiplierr: unknown key"):
        load_recipe(name, {"mechanism.noise_multiplierr": 1.0})
    with pytest.raises(RecipeError, match=r"\n  generator\.widht: unknown key"):
        load_recipe(name, {"generator.widht": 1})


def test_a_name_that_is_nearly_right_is_guessed() -> None:
    with pytest.raises(RecipeError) as refused:
        load_recipe("dp-sinkhorn-digit")
    assert "Did you mean 'dp-sinkhorn-digits'" in refused.value.remedy


def test_all_steps_of_a_free_mechanism_are_refused() -> None:
    with pytest.raises(RecipeError, match="no meaning with mean-embedding"):
        load_recipe("embedding-digits", {"training.steps": "all"})


@pytest.mark.parametrize("name", ["no-such-recipe", "no/such/file.toml"])
def test_a_missing_recipe_is_named(name: str) -> None:
    with pytest.raises(RecipeError, match=name):
        load_recipe(name)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("steps =")
    with pytest.raises(RecipeError, match="not valid TOML"):
        load_recipe(str(path))


def test_expected_batch_size_becomes_a_rate_of_the_nominal_size() -> None:
    mechanism = load_recipe("dp-sinkhorn-digits").mechanism
    parameters = mechanism.parameters(FakeDataset())
    assert parameters["sampling_rate"] == 40 / 1437
    assert parameters["capacity"] == 90
    assert set(parameters) == {
        "sampling_rate",
        "capacity",
        "num_samples",
        "num_debias",
        "clip_norm",
        "noise_multiplier",
        "reg",
        "l1_weight",
        "label_scale",
        "schedule",
    }


@pytest.mark.parametrize("name", ["dp-cgan-digits", "dp-merf-ae-digits", "dp-sinkhorn-digits"])
def test_a_batch_larger_than_the_data_set_is_refused_in_its_own_words(name: str) -> None:
    mechanism = load_recipe(name, {"mechanism.expected_batch_size": 2000}).mechanism
    with pytest.raises(RecipeError, match="2000 is more than the data set's nominal 1,437"):
        mechanism.parameters(FakeDataset())


def test_dp_swd_sends_what_its_cost_depends_on() -> None:
    mechanism = load_recipe("dp-swd-mnist").mechanism
    sent = mechanism.parameters(FakeDataset())
    assert set(sent) == {
        "sampling_rate",
        "capacity",
        "num_samples",
        "num_projections",
        "clip_norm",
        "label_scale",
        "origin",
        "noise_multiplier",
        "max_size",
        "max_records_per_unit",
    }
    assert sent["sampling_rate"] == 100 / FakeDataset().nominal_size
    assert mechanism.draw_labels(10, torch.Generator()).bincount().tolist() == [10] * 10
    with pytest.raises(RecipeError, match="either sampling_rate or expected_batch_size"):
        recipe_from_dict(_without_a_rate("dp-swd-mnist"), origin="test")


def _without_a_rate(name: str) -> dict[str, Any]:
    table = recipe_to_dict(load_recipe(name))
    table["mechanism"] |= {"sampling_rate": None, "expected_batch_size": None}
    return table


@pytest.mark.parametrize(
    "name", [name for name in list_recipes() if name.startswith(("dp-swd-mnist", "dp-swd-fashion"))]
)
def test_recipes_of_dp_swd_are_two_noises_of_one_run(name: str) -> None:
    recipe = load_recipe(name)
    twin = load_recipe(name.removesuffix("-paper-noise"))
    ours, theirs = recipe_to_dict(twin), recipe_to_dict(recipe)
    noises = [table["mechanism"].pop("noise_multiplier") for table in (ours, theirs)]
    assert noises == [0.679, 5.88 if name.endswith("-paper-noise") else 0.679]
    for table in (ours, theirs):
        table.pop("about")
    assert ours == theirs


def test_a_rate_on_the_command_line_replaces_the_batch_size() -> None:
    mechanism = load_recipe("dp-sinkhorn-digits", {"mechanism.sampling_rate": 0.02}).mechanism
    assert mechanism.parameters(FakeDataset())["sampling_rate"] == 0.02


def test_debias_rows_repeat_the_first_labels() -> None:
    mechanism = load_recipe("dp-sinkhorn-digits").mechanism
    labels = mechanism.draw_labels(10, torch.Generator())
    assert labels[40:].tolist() == labels[:8].tolist()
    assert labels[:40].bincount().tolist() == [4] * 10


def test_images_per_class_is_not_sent() -> None:
    mechanism = load_recipe("embedding-digits").mechanism
    assert sorted(mechanism.parameters(FakeDataset())) == [
        "bandwidths",
        "count_scale",
        "feature_map",
        "feature_seed",
        "noise_multiplier",
        "num_features",
        "num_scattering_features",
        "scattering_bandwidths",
        "scattering_share",
    ]
    assert mechanism.draw_labels(10, torch.Generator()).bincount().tolist() == [30] * 10


def test_every_key_is_documented_and_had_an_option_of_its_own() -> None:
    keys = {one.path: one for one in all_keys()}
    for one in keys.values():
        assert one.sentence
        assert one.type
        name = one.key if one.section in {"training", "session"} else f"{one.section}-{one.key}"
        assert key_of_option("--" + name.replace("_", "-")) == one.path
    stated = recipe_to_dict(load_recipe("embedding-digits"))
    for name in (
        *("dp-sinkhorn-digits", "dp-cgan-mnist", "dp-swd-mnist", "gs-wgan-decoupled-mnist"),
        "dp-cgan-adaptive-digits",
        *("adversarial-dp-sinkhorn-mnist", "g-pate-mnist", "pate-gan-mnist", "statistics-mnist"),
    ):
        stated["mechanism"].update(recipe_to_dict(load_recipe(name))["mechanism"])
    for section in ("mechanism", "generator"):
        stated[section].update(recipe_to_dict(load_recipe("dp-merf-ae-digits"))[section])
    for name in ("dp-sinkhorn-celeba32", "embedding-pictures-10-cpu"):
        stated["generator"].update(recipe_to_dict(load_recipe(name))["generator"])
    found = {f"{section}.{key}" for section, table in stated.items() for key in table}
    kinds = {"mechanism.kind", "generator.kind"}
    assert found - kinds - {"about.title", "about.source"} == set(keys)


def test_the_keys_of_a_recipe_are_those_of_its_kinds() -> None:
    recipe = load_recipe("embedding-digits")
    keys = {one.path for one in recipe_keys(recipe)}
    table = recipe_to_dict(recipe)
    assert keys == {
        f"{section}.{name}"
        for section, part in table.items()
        for name in part
        if section != "about" and name != "kind"
    }


def test_assignments_read_values() -> None:
    overrides = read_assignments(
        [
            *("training.steps=all", "optimizer.lr=.5", "mechanism.bandwidths=1,2.5"),
            *("training.seed=7", "session.device=cuda:0"),
        ]
    )
    assert overrides == {
        "training.steps": "all",
        "optimizer.lr": 0.5,
        "mechanism.bandwidths": [1, 2.5],
        "training.seed": 7,
        "session.device": "cuda:0",
    }
    load_recipe("embedding-digits", {"mechanism.bandwidths": [1, 2.5]})


@pytest.mark.parametrize("given", [["a.b"], ["training.seed=1", "training.seed=2"]])
def test_bad_assignments_are_refused(given: list[str]) -> None:
    with pytest.raises(RecipeError):
        read_assignments(given)


def test_a_resumed_run_keeps_its_recipe() -> None:
    recipe = load_recipe("embedding-digits")
    changed = with_session(recipe, {"session.checkpoint_every": 7}, origin="test")
    assert changed.session.checkpoint_every == 7
    assert changed.training == recipe.training
    with pytest.raises(RecipeError, match=r"cannot change optimizer\.lr"):
        with_session(recipe, {"optimizer.lr": 1.0}, origin="test")
