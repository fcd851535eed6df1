"""A Gaussian for each class out of a release, and the classifier that it is."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load
from torch import Tensor

from analyst.embedding.file import SavedEmbedding, load_embedding, save_embedding
from analyst.embedding.gaussians import ClassGaussians, split_statistics
from analyst.embedding.offline import EmbeddingObjective, class_counts, class_means
from analyst.embedding.sessions import train_offline
from analyst.errors import EmbeddingError, RecipeError
from analyst.generators.generator import ImageShape
from analyst.recipes import load_recipe
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions
from curator.mechanisms.feature_statistics import FeatureStatistics
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.private import Private
from curator.sanitizer.post_process import release_values
from tests.fakes import networks
from tests.fakes.networks import NUM_FEATURES, PARAMETERS, SPACE, mechanism
from tests.unit.curator.mechanisms.silent import SilentNoise

SHAPE = ImageShape(channels=1, height=4, width=4, num_classes=3)
COUNT = 90


@pytest.fixture(autouse=True)
def _network(tmp_path: Path) -> None:
    networks.offer(tmp_path)


def images_and_labels(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Return levels of three classes, each bright in a part of its own."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(COUNT) % 3
    levels = torch.randint(0, 9, (COUNT, 4, 4), generator=generator)
    for one in range(3):
        levels[labels == one, one] += 8
    return levels.reshape(COUNT, -1).to(torch.uint8), labels


def released(**changes: Any) -> tuple[FeatureStatistics, SavedEmbedding, Any]:
    quiet = {"noise_multiplier": 0.2, "refinements": [], "moment_noise_multiplier": 0.2}
    chosen = PARAMETERS | quiet | {"max_size": COUNT, "radius_scale": 4.0} | changes
    subject = mechanism(**chosen)
    levels, labels = images_and_labels()
    inside = RecordBatch(
        levels_MD=levels,
        labels_M=labels,
        mask_M=torch.ones(COUNT, dtype=torch.bool),
        units_M=torch.arange(COUNT),
    )
    release = subject.setup([Private(inside)], SilentNoise())
    moments, sums = split_statistics(release_values(release), chosen, SHAPE)
    facts = {
        "name": "d",
        "channels": 1,
        "height": 4,
        "width": 4,
        "classes": ["0", "1", "2"],
        "nominal_size": COUNT,
        "capacity": 9,
        "epsilon": 10.0,
        "delta": 1e-5,
    }
    network = load(networks.weights_of(networks.tiny_shape()))
    saved = SavedEmbedding(
        run_id="r1",
        dataset=facts,
        parameters=chosen,
        sums_KR=sums,
        network=network,
        moments=moments,
    )
    return subject, saved, release


def pixels(levels: Tensor) -> Tensor:
    return (levels.float() / 8 - 1).reshape(-1, 1, 4, 4)


def test_both_sides_read_the_same_means_counts_and_gradients() -> None:
    subject, saved, release = released()
    theirs = release_values(release)[-3:]
    torch.testing.assert_close(class_means(saved), subject._counted.class_means(theirs))
    torch.testing.assert_close(class_counts(saved), subject._counted.counts(theirs))
    images, labels = pixels(images_and_labels(seed=2)[0])[:12], torch.arange(12) % 3
    samples = Samples(images_ND=images.flatten(1), labels_N=labels)
    expected = release_values(subject.gradient(samples, release)).float()
    found = EmbeddingObjective(saved).gradient(images, labels).flatten(1)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
    assert float(expected.abs().max()) > 1e-4


def of_records(gaussians: ClassGaussians, moments: str) -> Any:
    """Return the classifier of the records' own Gaussians, in the same directions."""
    levels, labels = images_and_labels()
    rows = gaussians.rows_of(pixels(levels)).double() @ gaussians.directions_RS
    means = torch.stack([rows[labels == one].mean(dim=0) for one in range(3)])
    apart = rows - means[labels]
    groups = [apart] if moments == "together" else [apart[labels == one] for one in range(3)]
    covariances = torch.stack([one.T @ one / len(one) for one in groups])
    spread = covariances.diagonal(dim1=1, dim2=2).mean(dim=1).reshape(-1, 1, 1)
    covariances = covariances + 0.01 * spread * torch.eye(4, dtype=torch.float64)
    return replace(gaussians, means_KS=means, covariances_HSS=covariances).classifier()


@pytest.mark.parametrize("moments", ["together", "by-class"])
def test_gaussians_classify_images_like_the_records(moments: str) -> None:
    _, saved, _ = released(moments=moments)
    levels, labels = images_and_labels(seed=3)
    gaussians = ClassGaussians.of(saved, ridge=0.01)
    scores = gaussians.classifier()(pixels(levels))
    assert scores.shape == (COUNT, 3)
    expected = of_records(gaussians, moments)(pixels(levels)).argmax(dim=1)
    assert float((scores.argmax(dim=1) == expected).float().mean()) > 0.95
    assert float((scores.argmax(dim=1) == labels).float().mean()) > 0.5  # by chance a third
    assert len(gaussians.covariances_HSS) == (1 if moments == "together" else 3)


@pytest.mark.parametrize("moments", ["together", "by-class"])
def test_drawn_features_have_the_released_means_and_covariances(moments: str) -> None:
    """20,000 draws with a fixed seed."""
    _, saved, _ = released(moments=moments)
    gaussians = ClassGaussians.of(saved)
    rows, labels = gaussians.draw(20_000, torch.Generator().manual_seed(1))
    covariances = gaussians.covariances_HSS.expand(3, -1, -1)
    for one in range(3):
        own = rows[labels == one]
        assert len(own) == pytest.approx(20_000 / 3, rel=0.1)
        torch.testing.assert_close(own.mean(dim=0), gaussians.means_KS[one], rtol=0, atol=0.02)
        torch.testing.assert_close(own.T.cov(), covariances[one], rtol=0.1, atol=5e-4)


def test_noise_that_makes_a_moment_negative_does_no_harm() -> None:
    _, saved, _ = released()
    saved.moments["matrices"].sub_(torch.eye(4) * 0.5)
    scores = ClassGaussians.of(saved).classifier()(pixels(images_and_labels()[0]))
    assert bool(scores.isfinite().all())


def test_a_file_holds_the_network_and_the_moments(tmp_path: Path) -> None:
    _, saved, _ = released()
    path = tmp_path / "s.safetensors"
    save_embedding(path, saved)
    again = load_embedding(path)
    assert torch.equal(again.sums_KR, saved.sums_KR)
    for part in ("network", "moments", "autoencoder"):
        first, second = getattr(saved, part), getattr(again, part)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert saved.moments["directions"].shape == (NUM_FEATURES, 4)


def test_what_is_missing_is_said() -> None:
    _, saved, _ = released()
    saved.network.clear()
    with pytest.raises(EmbeddingError, match="the network tiny is not in"):
        ClassGaussians.of(saved)
    saved.moments.clear()
    with pytest.raises(EmbeddingError, match="no second moments"):
        ClassGaussians.of(saved)
    with pytest.raises(ValueError, match="other rows"):
        split_statistics(saved.sums_KR, PARAMETERS, SHAPE)
    assert SPACE.num_classes == SHAPE.num_classes


def test_a_generator_is_trained_on_a_file_with_its_network(
    tmp_path: Path, make_stop: Callable[..., Any]
) -> None:
    _, saved, _ = released()
    path, out = tmp_path / "s.safetensors", tmp_path / "run"
    save_embedding(path, saved)
    asked = {f"mechanism.{name}": value for name, value in saved.parameters.items()}
    few = {"training.steps": 6, "training.dataset": "d", "mechanism.images_per_class": 4}
    sizes = {"generator.width": 4, "session.checkpoint_every": 3, "session.sample_every": 9}
    recipe = load_recipe("statistics-mnist", asked | few | sizes)
    options = SessionOptions(out=out)
    progress = Progress(io.StringIO(), quiet=True)
    result = train_offline(path, recipe, options, progress, make_stop())
    assert result.outcome is Outcome.COMPLETED
    assert result.num_updates == 6
    other = load_recipe("statistics-mnist", asked | few | {"mechanism.network_sha256": "0" * 64})
    options = SessionOptions(out=tmp_path / "other")
    with pytest.raises(RecipeError, match="network_sha256"):
        train_offline(path, other, options, progress, make_stop())
