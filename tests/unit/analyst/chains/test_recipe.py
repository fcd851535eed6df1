"""A chain is read as data: what does not go together is told before anything is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyst.chains.recipe import (
    CHAINS,
    ChainRecipe,
    charged,
    is_chain,
    load_chain,
    recipes_of,
    with_noise,
)
from analyst.errors import RecipeError
from analyst.recipes import Recipe
from analyst.recipes.books import book_of
from analyst.recipes.keys import recipe_keys, sections_of
from analyst.teacher.recipe import TeacherRecipe

DIGITS = "two-stage-digits"


def changed(**changes: Any) -> ChainRecipe:
    """Return the small chain with changes such as second__members=3."""
    return load_chain(DIGITS, {key.replace("__", "."): value for key, value in changes.items()})


@pytest.mark.parametrize("name", CHAINS.names())
def test_each_chain_of_the_package_goes_together(name: str) -> None:
    chain = load_chain(name, {})
    found = recipes_of(chain)
    assert list(found) == [one for one in chain.stage if chain.stage[one].kind != "refine"]
    assert sum(charged(chain).values()) == pytest.approx(1)
    assert {one.training.dataset for one in found.values()} == {chain.training.dataset}
    assert CHAINS.from_dict(CHAINS.to_dict(chain), origin="itself") == chain
    assert is_chain(name)
    assert book_of(name) is CHAINS


def test_what_is_no_chain_is_known(tmp_path: Path) -> None:
    assert not is_chain("embedding-digits")
    assert not is_chain(str(tmp_path / "missing.toml"))
    (tmp_path / "one.toml").write_text("[stage.a]\n")
    assert is_chain(str(tmp_path / "one.toml"))
    (tmp_path / "bad.toml").write_text("[stage")
    assert not is_chain(str(tmp_path / "bad.toml"))


def test_keys_of_the_chain_of_a_stage_and_of_its_recipe_are_set() -> None:
    chain = changed(
        budget__epsilon=2.5, training__seed=7, first__share=1.4, sums__training__steps=2,
        first__optimizer__lr=1e-4, second__optimizer__lr=2e-4,
    )  # fmt: skip
    assert chain.budget.epsilon == 2.5
    assert charged(chain)["first"] == pytest.approx(1.4 / 1.7)
    found = recipes_of(chain)
    first, sums, second = found["first"], found["sums"], found["second"]
    assert isinstance(first, Recipe)
    assert isinstance(second, Recipe)
    assert isinstance(sums, TeacherRecipe)
    assert {one.training.seed for one in found.values()} == {7}
    assert sums.training.steps == 2
    assert (first.optimizer.lr, second.optimizer.lr) == (1e-4, 2e-4)
    assert first.mechanism == second.mechanism


def test_a_stage_on_a_release_has_the_recipe_of_that_release() -> None:
    found = recipes_of(changed(first__mechanism__num_features=40, first__generator__width=16))
    first, second = found["first"], found["second"]
    assert first.mechanism == second.mechanism
    assert first.mechanism.num_features == 40
    assert isinstance(second, Recipe)
    assert isinstance(first, Recipe)
    assert first.generator == second.generator
    assert with_noise(second, 3.25).mechanism.noise_multiplier == 3.25


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget.epsilon": 0.0}, "budget.epsilon"),
        ({"training.steps": 10}, "each stage of a chain has steps of its own"),
        ({"first.share": -1.0}, "first.share: must be above 0"),
        ({"first.shares": 1.0}, "first.shares: unknown key of generator; did you mean first.share"),
        ({"first.release": "sums"}, "'release' alone"),
        ({"second.release": "sums"}, "'sums' is no earlier stage that gives a release"),
        ({"second.start_from": "third"}, "'third' is no earlier stage"),
        ({"second.teacher": "first"}, "'first' is no earlier stage that gives a teacher"),
        ({"sums.source": "second"}, "'second' is no earlier stage that gives a source"),
        ({"first.kind": "painter"}, "first: kind must be one of"),
        ({"fist.samples": 4}, "unknown section; did you mean first"),
        ({"first.recipe": "embedding-digit"}, "stage first: there is no recipe"),
        ({"sums.recipe": "embedding-digits"}, "stage sums: there is no teacher's recipe"),
        ({"first.optimizer.rate": 0.1}, "(?s)stage first: .*optimizer.rate: unknown key"),
        ({"second.training.guidance": 0.0}, "training.guidance .now 0. go together"),
        ({"first.training.guidance": 1.0}, "training.guidance .now 1. go together"),
        ({"second.generator.width": 9}, "goes on from 'first', whose .generator. is another"),
        ({"sums.source.epochs": 0}, "source.epochs is 0"),
        ({"first.recipe": "dp-sinkhorn-digits"}, "no release for several generators"),
    ],
)
def test_what_does_not_go_together_is_told(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        recipes_of(load_chain(DIGITS, changes))


HEAD = """
[about]
title = "a chain"
source = "a test"
[budget]
epsilon = 1.0
[training]
dataset = "digits"
seed = 0
"""
PAID = """
[stage.first]
kind = "generator"
recipe = "embedding-digits"
share = 1.0
samples = 20
"""
TEACHER = """
[stage.map]
kind = "teacher"
recipe = "linear-teacher-digits"
share = 1.0
source = "first"
set.source.epochs = 1
"""
REFINED = """
[stage.refined]
kind = "refine"
source = "first"
teacher = "map"
"""


def read(tmp_path: Path, *parts: str) -> ChainRecipe:
    path = tmp_path / "chain.toml"
    path.write_text("\n".join([HEAD, *parts]))
    return load_chain(str(path), {})


def test_images_may_be_refined_by_a_map_and_by_nothing_else(tmp_path: Path) -> None:
    assert list(recipes_of(read(tmp_path, PAID, TEACHER, REFINED))) == ["first", "map"]
    sums = TEACHER + 'set.mechanism.asks = "class-sums"\nset.mechanism.clip_norm = 1.0\n'
    with pytest.raises(RecipeError, match="'map' asks for class sums, and teaches no map"):
        recipes_of(read(tmp_path, PAID, sums, REFINED))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((), "stage"),
        ((PAID.replace("stage.first", "stage.First"),), "'First' is no name of a stage"),
        ((PAID.replace("stage.first", "stage.budget"),), "'budget' is no name of a stage"),
        ((PAID.replace("share = 1.0", ""),), "'release' alone"),
        ((PAID + "members = 0\n",), "members"),
        ((PAID, PAID.replace("stage.first", "stage.second") + "[stage.second.set.training]\n"
          'steps = "all"\n'), "state a number"),
        ((PAID.replace("embedding-digits", "dp-sinkhorn-digits")
          + 'set.training.steps = "all"\n',), "noise is calibrated to a number of steps"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_chain_is_refused(
    tmp_path: Path, parts: tuple[str, ...], words: str
) -> None:
    with pytest.raises(RecipeError, match=words):
        recipes_of(read(tmp_path, *parts))


def test_only_a_release_that_was_charged_is_taken(tmp_path: Path) -> None:
    free = '[stage.{}]\nkind = "generator"\nrelease = "{}"\nsamples = 20\n'
    assert len(read(tmp_path, PAID, free.format("a", "first")).stage) == 2
    with pytest.raises(RecipeError, match="'a' has no release of its own"):
        read(tmp_path, PAID, free.format("a", "first"), free.format("b", "a"))


def test_every_key_is_documented_and_has_a_value_of_the_chain() -> None:
    chain = load_chain(DIGITS, {})
    sections = sections_of(chain)
    keys = recipe_keys(chain)
    assert {key.section for key in keys} == {"budget", "training", "session", *chain.stage}
    for key in keys:
        assert key.sentence
        assert hasattr(sections[key.section], key.key)
