"""DP-MERF-AE on the analyst's side: both sides agree, files keep weights, codes are trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.embedding.autoencoder import encode, split_release
from analyst.embedding.feature_maps import feature_map
from analyst.embedding.file import SavedEmbedding, load_embedding, save_embedding
from analyst.embedding.offline import EmbeddingObjective
from analyst.embedding.sessions import download, resume_offline, train_offline
from analyst.errors import FederationError, RecipeError
from analyst.generators.configs import DecodedConfig
from analyst.generators.decoded import DecodedGenerator, sent_rows
from analyst.generators.generator import ImageShape, build_generator
from analyst.recipes import load_recipe
from analyst.training.checkpoint import checkpoint_store
from analyst.training.federation.train_together import release_sum
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, run_session
from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.mechanisms.dp_merf_ae import DpMerfAe, DpMerfAeSpec
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.budget import Budget
from curator.privacy.release import Release
from curator.sanitizer.post_process import release_values
from tests.fakes.barrier import FakeDataset
from tests.unit.curator.mechanisms import test_dp_merf_ae as curators

MakeStop = Callable[..., Any]
SHAPE = ImageShape(channels=1, height=2, width=3, num_classes=3)
FACTS: dict[str, Any] = {
    "name": "digits",
    "channels": 1,
    "height": 2,
    "width": 3,
    "classes": ["0", "1", "2"],
    "nominal_size": 1437,
    "capacity": 90,
    "epsilon": 10.0,
    "delta": 1e-5,
}
RECIPES = ["dp-merf-ae-digits", "dp-merf-ae-mnist"]
SMALL: dict[str, Any] = {
    "mechanism.hidden_width": 5,
    "mechanism.code_width": 3,
    "generator.hidden_width": 5,
    "generator.code_width": 3,
    "generator.width": 16,
    "training.steps": 6,
    "session.checkpoint_every": 3,
}


def released(subject: DpMerfAe) -> Release:
    return curators.released(subject)


def saved(parameters: dict[str, Any], release: Release) -> SavedEmbedding:
    weights, sums_KR = split_release(release_values(release), parameters, SHAPE)
    return SavedEmbedding(
        run_id="r1", dataset=FACTS, parameters=parameters, sums_KR=sums_KR, autoencoder=weights
    )


def images(num_rows: int = 6) -> torch.Tensor:
    return torch.rand(num_rows, 1, 2, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_both_sides_have_the_same_features_and_gradient() -> None:
    subject = curators.mechanism()
    release = released(subject)
    embedding = saved(curators.PARAMETERS, release)
    theirs = subject._features(subject._weights(release_values(release)[:-3]))
    waves = feature_map(curators.PARAMETERS, SHAPE)
    moving = images().requires_grad_()
    codes = encode(embedding.autoencoder, moving)
    torch.testing.assert_close(
        waves(codes).detach(), theirs.rows(images().flatten(1)), rtol=1e-4, atol=1e-5
    )
    labels = torch.arange(6) % 3
    of_codes = EmbeddingObjective(embedding).gradient(codes.detach(), labels)
    assert of_codes.shape == (6, 3)
    (ours,) = torch.autograd.grad(codes, moving, of_codes)
    samples = Samples(images_ND=images().flatten(1), labels_N=labels)
    of_curator = release_values(subject.gradient(samples, release)).reshape(ours.shape)
    torch.testing.assert_close(ours.double(), of_curator, rtol=1e-3, atol=1e-6)


def test_the_decoder_makes_the_images_that_the_curators_would() -> None:
    subject = curators.mechanism()
    embedding = saved(curators.PARAMETERS, released(subject))
    generator = decoded()
    generator.take_decoder(embedding.autoencoder)
    latents, labels = (
        torch.randn(4, 16, generator=torch.Generator().manual_seed(1)),
        torch.arange(4) % 3,
    )
    weights = embedding.autoencoder
    hidden = generator.codes(latents, labels) @ weights["decoder.hidden.weight"].T
    hidden = torch.nn.functional.leaky_relu(hidden + weights["decoder.hidden.bias"], 0.2)
    pixels = hidden @ weights["decoder.pixels.weight"].T + weights["decoder.pixels.bias"]
    made = generator(latents, labels)
    assert made.shape == (4, 1, 2, 3)
    torch.testing.assert_close(made.flatten(1), torch.tanh(pixels))
    assert torch.equal(sent_rows(generator, latents, labels), generator.codes(latents, labels))
    assert float(sent_rows(generator, latents, labels).detach().abs().max()) < 1


def decoded() -> DecodedGenerator:
    config = DecodedConfig(kind="decoded", width=16, hidden_width=5, code_width=3)
    generator = build_generator(config, SHAPE, torch.Generator().manual_seed(0))
    assert isinstance(generator, DecodedGenerator)
    return generator


def test_a_file_keeps_the_weights_by_name(tmp_path: Path) -> None:
    embedding = saved(curators.PARAMETERS, released(curators.mechanism()))
    path = tmp_path / "e.safetensors"
    save_embedding(path, embedding)
    again = load_embedding(path)
    assert torch.equal(again.sums_KR, embedding.sums_KR)
    assert again.autoencoder.keys() == embedding.autoencoder.keys()
    assert len(again.autoencoder) == 8
    for name, value in embedding.autoencoder.items():
        assert torch.equal(again.autoencoder[name], value)


def test_a_release_of_too_few_weights_is_refused() -> None:
    values = torch.zeros(5, 21, dtype=torch.float64)
    with pytest.raises(ValueError, match="fewer weights"):
        split_release(values, curators.PARAMETERS, SHAPE)


class Handing:
    """A curator that hands out one release."""

    def __init__(self, values: torch.Tensor) -> None:
        self.run_id, self.dataset, self.values = "r1", "digits", values
        self.parameters = curators.PARAMETERS

    def download_release(self, run_id: str) -> Handing:
        assert run_id == "r1"
        return self

    def describe(self, name: str) -> Any:
        assert name == "digits"
        return replace(FakeDataset(), height=2, width=3, classes=("0", "1", "2"))


def test_a_download_splits_the_release(tmp_path: Path) -> None:
    values = release_values(released(curators.mechanism()))
    barrier: Any = Handing(values)
    embedding = download(barrier, "r1", tmp_path / "e.safetensors")
    assert embedding.sums_KR.shape == (3, 21)
    assert torch.equal(embedding.sums_KR, values[-3:])
    again = load_embedding(tmp_path / "e.safetensors")
    assert torch.equal(
        again.autoencoder["decoder.pixels.bias"], values[:-3].flatten()[103:109].float()
    )


def parameters_of(recipe: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = recipe.mechanism.parameters(FakeDataset())
    return chosen


def small_file(path: Path) -> None:
    """Save a release of the small recipe, as if it had been downloaded."""
    chosen = parameters_of(load_recipe("dp-merf-ae-digits", SMALL))
    generator = torch.Generator().manual_seed(3)
    width = chosen["num_features"] + 1
    values = torch.randn(-(-109 // width) + 3, width, dtype=torch.float64, generator=generator)
    values[-3:, -1] = 40.0
    weights, sums = split_release(values, chosen, SHAPE)
    facts = FACTS | {"nominal_size": FakeDataset().nominal_size, "capacity": FakeDataset().capacity}
    save_embedding(
        path,
        SavedEmbedding(
            run_id="r1", dataset=facts, parameters=chosen, sums_KR=sums, autoencoder=weights
        ),
    )


def test_training_offline_can_be_cut_and_resumed_and_leaves_the_decoder_alone(
    tmp_path: Path, progress: Progress, make_stop: MakeStop
) -> None:
    path = tmp_path / "e.safetensors"
    small_file(path)
    recipe = load_recipe("dp-merf-ae-digits", SMALL)
    whole, cut = SessionOptions(out=tmp_path / "whole"), SessionOptions(out=tmp_path / "cut")
    assert train_offline(path, recipe, whole, progress, make_stop()).num_updates == 6
    first = train_offline(path, recipe, cut, progress, make_stop(after=4))
    assert (first.outcome, first.num_updates) == (Outcome.STOPPED, 4)
    assert resume_offline(path, {}, cut, progress, make_stop()).num_updates == 6
    (one, _), (other, _) = (checkpoint_store(options.out).load() for options in (whole, cut))
    assert all(torch.equal(one[name], other[name]) for name in one)
    weights = load_embedding(path).autoencoder
    for part in ("generator", "ema"):
        for layer in ("hidden", "pixels"):
            kept = one[f"{part}.decoder_{layer}.weight"]
            assert torch.equal(kept, weights[f"decoder.{layer}.weight"])
    assert not torch.equal(one["generator.layers.0.weight"], one["ema.layers.0.weight"])


def test_a_curator_alone_does_not_train_a_generator_of_codes(
    tmp_path: Path, progress: Progress, make_stop: MakeStop
) -> None:
    class NoDecoder:
        """Must not be asked to open a run: that would be charged."""

        def describe(self, name: str) -> Any:
            return replace(FakeDataset(), name=name, height=2, width=3, classes=("0", "1", "2"))

    recipe = load_recipe("dp-merf-ae-digits", SMALL)
    source: Any = NoDecoder()
    with pytest.raises(RecipeError, match="embedding download"):
        run_session(source, recipe, SessionOptions(out=tmp_path / "run"), progress, make_stop())


def test_embeddings_of_several_encoders_are_not_added(tmp_path: Path, progress: Progress) -> None:
    federation: Any = None  # must not be asked: opening a run is charged
    with pytest.raises(FederationError, match="an encoder of its own"):
        release_sum(federation, load_recipe("dp-merf-ae-digits", SMALL), tmp_path, progress)


def test_a_download_of_another_autoencoder_is_refused() -> None:
    with pytest.raises(ValueError, match="decoder has no hidden weight"):
        decoded().take_decoder({})


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"generator.code_width": 4}, "code_width"),
        ({"mechanism.hidden_width": 7}, "hidden_width"),
        ({"training.steps": "all"}, "no meaning with dp-merf-ae"),
        ({"mechanism.autoencoder": "unet"}, "autoencoder"),
    ],
)
def test_recipes_that_do_not_fit_together_are_refused(
    overrides: dict[str, Any], words: str
) -> None:
    with pytest.raises(RecipeError, match=words):
        load_recipe("dp-merf-ae-digits", SMALL | overrides)


def test_the_generator_of_codes_needs_the_mechanism() -> None:
    with pytest.raises(RecipeError, match="go together"):
        load_recipe(
            "embedding-digits",
            {"generator.kind": "decoded", "generator.hidden_width": 5, "generator.code_width": 3},
        )


@pytest.mark.parametrize(
    ("name", "size", "most", "dimension"),
    [("dp-merf-ae-digits", 1437, 1500, (8, 16)), ("dp-merf-ae-mnist", 60000, 70000, (28, 255))],
)
def test_recipes_cost_the_whole_budget_and_hardly_less(
    name: str, size: int, most: int, dimension: tuple[int, int]
) -> None:
    recipe = load_recipe(name)
    facts = replace(FakeDataset(), nominal_size=size)
    text = json.dumps(recipe.mechanism.parameters(facts))
    spec = DpMerfAeSpec.model_validate_json(text, strict=True)
    assert spec.max_size == most
    side, level = dimension
    space = ImageSpace(channels=1, height=side, width=side, max_level=level, num_classes=10)
    event = DpMerfAe(spec, space).setup_event()
    rule = BudgetRule.register(Budget(epsilon=10.0, delta=1e-5))
    assert rule.admits(event_cost(event))
    assert rule.spent_epsilon(event_cost(event)) > 9.98
    shape = ImageShape(channels=1, height=side, width=side, num_classes=10)
    assert build_generator(recipe.generator, shape, torch.Generator()).num_classes == 10
