"""Whatever an earlier version wrote is read; `tests/fixtures/analyst` is older than the house.

A real curator's run of four steps with its certificate and an embedding, an adaptation, the names
of a federation, and for each mechanism a recipe as a checkpoint holds it, with what was sent.
"""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.adaptation.recipe import AdaptationRecipe, adaptation_from_dict, adaptation_to_dict
from analyst.adaptation.state import adaptation_tensors, load_adaptation_tensors, new_adaptation
from analyst.certificate import check_certificate
from analyst.cli import main
from analyst.embedding.file import load_embedding
from analyst.evaluation.run_folder import read_run_folder
from analyst.evaluation.sample import sample_run
from analyst.generators.generator import ImageShape
from analyst.recipes import Recipe, load_recipe, recipe_from_dict, recipe_to_dict
from analyst.training.checkpoint import read_run
from analyst.training.federation.folder import FederationFolder
from tests.fakes.adaptation import write_digits
from tests.fakes.barrier import Account, FakeBarrier, FakeDataset

HERE = Path(__file__).parents[2] / "fixtures" / "analyst"
EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text())
RECIPES: dict[str, Any] = json.loads((HERE / "recipes.json").read_text())
LATER = {
    "session": {"keep_checkpoints": 2},
    "training": {"depth": 1, "guidance": 0.0, "memory": 1.0, "turns": 1},
}
"""Keys that came later, as such a run has them."""


def _read(table: dict[str, Any]) -> Recipe | AdaptationRecipe:
    if "move" in table:
        return adaptation_from_dict(table, origin="a checkpoint")
    return recipe_from_dict(table, origin="a checkpoint")


def _with_later(table: dict[str, Any]) -> dict[str, Any]:
    return table | {name: table[name] | later for name, later in LATER.items()}


@pytest.mark.parametrize("kind", sorted(RECIPES))
def test_a_recipe_of_a_checkpoint_asks_for_the_same(kind: str) -> None:
    known = RECIPES[kind]
    recipe = _read(known["recipe"])
    sent = json.loads(json.dumps(recipe.mechanism.parameters(FakeDataset())))
    assert sent == known["sent"]
    if isinstance(recipe, AdaptationRecipe):
        assert adaptation_to_dict(recipe) == known["recipe"]
    else:
        assert recipe_to_dict(recipe) == _with_later(known["recipe"])


def test_a_recipe_that_somebody_wrote_is_the_one_of_its_checkpoint() -> None:
    _, manifest = read_run(HERE / "run")
    written = recipe_to_dict(load_recipe(str(HERE / "recipe.toml")))
    assert written == _with_later(manifest.recipe)


def test_images_are_sampled_from_a_checkpoint() -> None:
    data = sample_run(HERE / "run", 20, seed=0, weights="ema")
    assert data.images.shape == (20, 1, 8, 8)
    assert data.run_id == read_run(HERE / "run")[1].run_id


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(HERE / "run", out)
    path = next((out / "checkpoints").glob("*.json"))
    words = json.loads(path.read_text())
    path.write_text(json.dumps(words | {"finished": False, "num_steps": 6}))
    barrier = FakeBarrier()
    barrier.accounts[words["run_id"]] = Account(num_steps=6, used=4)
    access = ["--curator", "a:1", "--insecure-loopback"]
    assert main(["train", "--resume", "--out", str(out), *access], connect=lambda _: barrier) == 0
    assert [step for step, _ in barrier.asked] == [5, 6]
    assert read_run(out)[1].num_updates == 6
    before, after = (read_run(place)[0] for place in (HERE / "run", out))
    assert before.keys() == after.keys()
    assert after["optimizer.step.embedding.weight"] == 6


def test_a_certificate_holds_and_a_report_reads_its_run() -> None:
    key = base64.b64decode(EXPECTED["certificate_key"])
    verified = check_certificate(HERE / "run" / "certificate.json", key)
    folder = read_run_folder(HERE / "run")
    assert folder.privacy is not None
    assert folder.privacy.epsilon == verified.statement["dataset"]["spent_epsilon"]
    assert folder.curves is not None
    assert folder.curves.steps == (1, 2, 3, 4)


def test_a_saved_embedding_is_trained_on(tmp_path: Path) -> None:
    file = HERE / "embedding.safetensors"
    assert load_embedding(file).sums_KR.shape == (10, 5)
    options = ["--set", "mechanism.num_features=4", "--mechanism-bandwidths", "2.5", "--steps", "2"]
    command = ["embedding", "train", str(file), "--recipe", "embedding-digits", *options]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0


def test_an_adaptation_is_tested_and_its_tensors_keep_their_names(tmp_path: Path) -> None:
    test = write_digits(tmp_path / "test.npz", 40)
    assert main(["adapt", "test", str(HERE / "adapted"), "--test", str(test)]) == 0
    tensors, manifest = read_run(HERE / "adapted")
    recipe = adaptation_from_dict(manifest.recipe, origin="a checkpoint")
    shape = ImageShape(channels=1, height=2, width=2, num_classes=10)
    state = new_adaptation(recipe, shape, torch.zeros(1, 1, 2, 2))
    load_adaptation_tensors(state, tensors)
    saved = adaptation_tensors(state)
    assert all(torch.equal(saved[name], tensor) for name, tensor in tensors.items())
    assert saved.keys() == tensors.keys()
    loss = state.model(torch.zeros(1, 1, 2, 2)).sum()
    torch.autograd.backward([loss])
    state.optimizer.step()
    found = {name: list(tensor.shape) for name, tensor in adaptation_tensors(state).items()}
    assert found == EXPECTED["adaptation_tensors"]


def test_the_curators_of_a_federation_are_known() -> None:
    saved = FederationFolder(HERE / "together").load()
    assert (saved.combine.value, saved.on_loss.value) == ("mean", "continue")
    assert [one.name for one in saved.curators] == ["a:1", "b:2"]
