"""Downloaded embeddings: both sides agree, files come back whole, training is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from analyst.embedding.feature_maps import feature_map
from analyst.embedding.file import SavedEmbedding, load_embedding, save_embedding
from analyst.embedding.offline import EmbeddingObjective, OfflineBarrier, class_means
from analyst.embedding.sessions import resume_offline, train_offline
from analyst.errors import EmbeddingError, OutputExists, RecipeError, RunClosed
from analyst.generators.generator import ImageShape
from analyst.recipes import load_recipe
from analyst.training.checkpoint import checkpoint_store
from analyst.training.generated_means import GeneratedMeans
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, run_session
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec
from curator.privacy.batches import ImageSpace, Samples
from curator.sanitizer.post_process import post_process, release_values
from curator.sanitizer.stored import decode_release
from tests.unit.curator.mechanisms.test_mean_embedding import (
    MIX,
    MIX_SORF,
    PARAMETERS,
    SCATTERING,
    SORF,
)

MakeStop = Callable[..., Any]

SPACE = ImageSpace(channels=2, height=8, width=10, max_level=16, num_classes=3)
SHAPE = ImageShape(channels=2, height=8, width=10, num_classes=3)
MAPS = pytest.mark.parametrize("chosen", [PARAMETERS, SCATTERING, MIX, SORF, MIX_SORF])
TAKING_TURNS = pytest.mark.parametrize("chosen", [PARAMETERS, SCATTERING, MIX])
SMALL = {"training.steps": 6, "session.checkpoint_every": 3, "generator.width": 16}


def images(num_images: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(num_images, 2, 8, 10, generator=generator) * 2 - 1


def saved(chosen: dict[str, Any], shape: ImageShape = SHAPE, name: str = "d") -> SavedEmbedding:
    width = chosen["num_features"] + chosen["num_scattering_features"] + 1
    generator = torch.Generator().manual_seed(3)
    sums = torch.randn(shape.num_classes, width, dtype=torch.float64, generator=generator)
    sums[:, -1] = torch.linspace(-5, 40, shape.num_classes)
    facts = {
        "name": name,
        "channels": shape.channels,
        "height": shape.height,
        "width": shape.width,
        "classes": [str(label) for label in range(shape.num_classes)],
        "nominal_size": 1437,
        "capacity": 90,
        "epsilon": 10.0,
        "delta": 1e-5,
    }
    return SavedEmbedding(run_id="r1", dataset=facts, parameters=chosen, sums_KR=sums)


@MAPS
def test_both_sides_have_the_same_features(chosen: dict[str, Any]) -> None:
    curators = MeanEmbedding(MeanEmbeddingSpec(**chosen), SPACE)._features
    batch = images(7, seed=0)
    ours = feature_map(chosen, SHAPE)(batch)
    assert float((ours - curators.rows(batch.flatten(1))).abs().max()) < 1e-5
    levels = torch.randint(0, 17, (7, 160), generator=torch.Generator().manual_seed(1))
    private = curators.record_rows(levels.to(torch.uint8))
    stored = feature_map(chosen, SHAPE)((levels / 8 - 1).double().reshape(7, 2, 8, 10))
    assert float((ours.norm(dim=1) - 1).abs().max()) < 1e-5
    assert float((stored - private).norm(dim=1).max()) < 2e-3  # maps on a grid of 2^-16


@MAPS
def test_both_sides_have_the_same_gradient(chosen: dict[str, Any]) -> None:
    embedding = saved(chosen)
    curators = MeanEmbedding(MeanEmbeddingSpec(**chosen), SPACE)
    batch, labels = images(5, seed=2), torch.tensor([0, 1, 1, 2, 2])
    samples = Samples(images_ND=batch.flatten(1), labels_N=labels)
    header = '{"version":1,"blocks":[{"shape":[1,1],"grid":null}]}\n'
    empty = decode_release(header.encode() + b"\0\0\0\0")
    release = post_process(empty, lambda _: embedding.sums_KR)
    theirs = release_values(curators.gradient(samples, release)).reshape(batch.shape)
    ours = EmbeddingObjective(embedding).gradient(batch, labels)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-6)


@TAKING_TURNS
def test_turns_have_the_gradient_as_their_mean(chosen: dict[str, Any]) -> None:
    batch, labels = images(5, seed=2), torch.tensor([0, 1, 1, 2, 2])
    whole = EmbeddingObjective(saved(chosen)).gradient(batch, labels)
    objective = EmbeddingObjective(saved(chosen), num_turns=3)
    turns = [objective.gradient(batch, labels, step=step) for step in (7, 8, 9)]
    rounding = 1e-5 * float(whole.abs().max())  # of float32 sums, in an order of the library's own
    torch.testing.assert_close(torch.stack(turns).mean(0), whole, rtol=1e-4, atol=rounding)
    assert all(float((turn - whole).norm() / whole.norm()) > 1e-2 for turn in turns)
    assert torch.equal(objective.gradient(batch, labels, step=10), turns[0])


def test_orthogonal_frequencies_take_no_turns() -> None:
    with pytest.raises(EmbeddingError, match="Gaussian frequencies"):
        EmbeddingObjective(saved(MIX_SORF), num_turns=3)


def test_a_noisy_count_is_not_let_below_twice_its_noise() -> None:
    embedding = saved(PARAMETERS)
    ratio = embedding.sums_KR[:, :-1] / class_means(embedding)
    assert bool((ratio > 0).all())
    assert float(ratio[0, 0]) == pytest.approx(float(ratio[0, 1]))


def test_a_file_comes_back_bit_for_bit(tmp_path: Path) -> None:
    path, embedding = tmp_path / "deep" / "e.safetensors", saved(MIX)
    save_embedding(path, embedding)
    again = load_embedding(path)
    assert torch.equal(again.sums_KR, embedding.sums_KR)
    assert (again.run_id, again.dataset, again.parameters) == ("r1", embedding.dataset, MIX)
    with pytest.raises(OutputExists, match="exists"):
        save_embedding(path, embedding)
    save_embedding(path, embedding, force=True)


def test_files_that_are_no_embedding_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    with pytest.raises(EmbeddingError, match="there is no such file or folder"):
        load_embedding(path)
    with pytest.raises(EmbeddingError, match="it is a folder"):
        load_embedding(tmp_path)
    path.write_bytes(b"\0" * 20)
    with pytest.raises(EmbeddingError, match="cannot read"):
        load_embedding(path)
    save_file({"sums": torch.zeros(2, 2)}, path)
    with pytest.raises(EmbeddingError, match="not a downloaded embedding"):
        load_embedding(path)


def digits() -> SavedEmbedding:
    recipe = load_recipe("embedding-digits")
    shape = ImageShape(channels=1, height=8, width=8, num_classes=10)
    return saved(recipe.mechanism.parameters(None), shape, name="digits")  # type: ignore[arg-type]


@pytest.mark.parametrize(("memory", "turns"), [(1, 1), (4, 1), (1, 3)])
def test_training_offline_can_be_cut_and_resumed(
    memory: int, turns: int, tmp_path: Path, progress: Progress, make_stop: MakeStop
) -> None:
    path = tmp_path / "e.safetensors"
    save_embedding(path, digits())
    changes = {"training.memory": memory, "training.turns": turns}
    recipe = load_recipe("embedding-digits", SMALL | changes)
    whole, cut = SessionOptions(out=tmp_path / "whole"), SessionOptions(out=tmp_path / "cut")
    assert train_offline(path, recipe, whole, progress, make_stop()).num_updates == 6
    first = train_offline(path, recipe, cut, progress, make_stop(after=4))
    assert (first.outcome, first.num_updates) == (Outcome.STOPPED, 4)
    assert resume_offline(path, {}, cut, progress, make_stop()).num_updates == 6
    (one, _), (other, _) = (checkpoint_store(options.out).load() for options in (whole, cut))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert ("past.means" in one) == (memory > 1)


@pytest.mark.parametrize("key", ["memory", "turns"])
def test_what_looks_at_features_needs_a_release(
    key: str, tmp_path: Path, progress: Progress, make_stop: MakeStop
) -> None:
    recipe = load_recipe("embedding-digits", SMALL | {f"training.{key}": 4})
    options = SessionOptions(out=tmp_path / "run")
    with pytest.raises(RecipeError, match=rf"training\.{key}") as caught:
        run_session(OfflineBarrier(digits()), recipe, options, progress, make_stop())
    assert "embedding download" in caught.value.remedy


def test_memory_and_turns_exclude_each_other(
    tmp_path: Path, progress: Progress, make_stop: MakeStop
) -> None:
    save_embedding(tmp_path / "e.safetensors", digits())
    both = SMALL | {"training.memory": 4, "training.turns": 2}
    recipe, options = load_recipe("embedding-digits", both), SessionOptions(out=tmp_path / "run")
    with pytest.raises(RecipeError, match=r"training\.turns"):
        train_offline(tmp_path / "e.safetensors", recipe, options, progress, make_stop())
    assert not options.out.exists()


def test_the_first_step_remembers_nothing_and_later_ones_add_up() -> None:
    """The means are of all steps that the window holds; a class that is missing waits."""
    objective = EmbeddingObjective(saved(PARAMETERS))
    rows_of = feature_map(PARAMETERS, SHAPE)
    batch, labels = images(6, seed=2), torch.tensor([0, 0, 1, 1, 2, 2])
    past = GeneratedMeans(3, PARAMETERS["num_features"], window=100.0)
    past.reached(1.0)
    alone = objective.gradient(batch, labels)
    assert torch.equal(objective.gradient(batch, labels, past), alone)
    others = images(4, seed=5)
    objective.gradient(others, torch.tensor([0, 0, 2, 2]), past)
    means = past.tensors()["past.means"]
    rows = torch.cat((rows_of(batch), rows_of(others)))
    torch.testing.assert_close(means[0], rows[[0, 1, 6, 7]].mean(dim=0))
    torch.testing.assert_close(means[1], rows[[2, 3]].mean(dim=0))
    assert past.tensors()["past.steps"].flatten().tolist() == [2, 1, 2]


def test_the_past_makes_gradients_of_one_generator_alike() -> None:
    """Of images that are drawn alike: with twenty steps behind, the spread is a fraction."""
    objective, labels = EmbeddingObjective(saved(PARAMETERS)), torch.tensor([0, 0, 1, 1, 2, 2])
    past = GeneratedMeans(3, PARAMETERS["num_features"], window=20.0)
    past.reached(1.0)
    for seed in range(40):
        objective.gradient(images(6, seed=seed), labels, past)
    probe = images(2, seed=99)
    gradients: dict[Any, list[torch.Tensor]] = {None: [], past: []}
    for seed in range(200, 220):
        batch = torch.cat((probe, images(4, seed=seed)))
        shown = torch.tensor([0, 1, 0, 1, 2, 2])
        for known, made in gradients.items():
            made.append(objective.gradient(batch, shown, known)[:2])
    plain, known = (torch.stack(made).var(dim=0).sum() for made in gradients.values())
    assert float(known) < 0.1 * float(plain)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_short_window_is_as_short_all_the_time(share: float) -> None:
    """Of two steps' rows, 1 and then 0, the mean keeps what is older by one step of a window."""
    past = GeneratedMeans(1, 1, window=1.25)
    past.reached(share)
    for value in (1.0, 0.0):
        past.others(torch.full((1, 1), 2 * value), torch.full((1, 1), 2.0))
    assert float(past.tensors()["past.means"]) == pytest.approx(1 - 1 / 1.25)


@pytest.mark.parametrize("broken", ["past.means", "past.steps"])
def test_a_memory_of_another_size_is_refused(broken: str) -> None:
    past = GeneratedMeans(3, 4, window=5.0)
    for tensors in ({broken: torch.zeros(1)}, {}):
        with pytest.raises(ValueError, match="missing or has another shape"):
            past.load({**past.tensors(), **tensors} if tensors else {})


def test_another_recipe_or_data_set_is_refused() -> None:
    barrier = OfflineBarrier(digits())
    parameters = digits().parameters
    with pytest.raises(EmbeddingError, match="not of 'mnist'"):
        barrier.describe("mnist")
    with pytest.raises(RecipeError, match=r"mechanism\.feature_seed"):
        barrier.open_run("digits", "mean-embedding", parameters | {"feature_seed": 9}, num_steps=1)
    with pytest.raises(RecipeError, match=r"mechanism\.kind"):
        barrier.open_run("digits", "dp-sinkhorn", parameters, num_steps=1)
    with pytest.raises(EmbeddingError, match="release of run other"):
        barrier.resume_run("other")
    with pytest.raises(EmbeddingError, match="costs nothing"):
        barrier.plan("digits", "mean-embedding", parameters)


def test_declared_steps_end() -> None:
    run = OfflineBarrier(digits()).open_run(
        "digits", "mean-embedding", digits().parameters, num_steps=1
    )
    batch, labels = torch.zeros(2, 1, 8, 8), torch.tensor([0, 3])
    assert run.gradient(batch, labels).shape == batch.shape
    with pytest.raises(RunClosed):
        run.gradient(batch, labels)
