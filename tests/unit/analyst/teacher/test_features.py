"""The analyst's rows and scores are the curator's, and what is learned of a source is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analyst.adaptation.public_images import PublicImages
from analyst.generators.generator import ImageShape
from analyst.teacher import classifier
from analyst.teacher.classifier import TeacherClassifier, learn_source, new_teacher
from analyst.teacher.recipe import TEACHERS, TeacherRecipe
from analyst.teacher.session import TeacherState, _class_means
from curator.divergences import feature_nets, linear_softmax
from curator.mechanisms.linear_teacher import LinearTeacher, LinearTeacherSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.sanitizer.outer import RIGHT_RADIUS
from curator.sanitizer.post_process import release_values
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise

SHAPE = ImageShape(channels=2, height=9, width=6, num_classes=4)
SPACE = ImageSpace(channels=2, height=9, width=6, max_level=255, num_classes=4)
FEATURES = ("pixels", "scattering", "lenet-features", "mlp-features", "cnn-features")
Features = pytest.mark.parametrize("features", FEATURES)


def recipe(features: str, **changes: Any) -> TeacherRecipe:
    num_features = 0 if features in {"pixels", "scattering"} else 5
    keys = {"mechanism.features": features, "mechanism.num_features": num_features}
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return TEACHERS.load("linear-teacher-digits", keys | named)


def levels(count: int = 30) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 2 * 9 * 6), generator=generator).to(torch.uint8)


def images(of: Tensor) -> Tensor:
    return of.float().reshape(len(of), 2, 9, 6) / 127.5 - 1


def told(features: str) -> tuple[TeacherClassifier, LinearTeacher]:
    """Return both sides of a teacher whose map says something."""
    made = recipe(features, mechanism__clip_norm=2.0)
    model, randomness = new_teacher(made, SHAPE)
    torch.nn.init.normal_(model.linear.weight, std=2.0, generator=randomness)
    facts = small_facts(channels=2, height=9, width=6, classes=tuple("abcd"))
    sent = made.mechanism.parameters(facts)
    return model, LinearTeacher(LinearTeacherSpec(**sent), SPACE)


@Features
def test_both_sides_compute_the_same_rows_and_gradients(features: str) -> None:
    model, curators = told(features)
    given, labels = levels(), torch.arange(30) % 4
    loss = cross_entropy(model(images(given)), labels, reduction="sum")
    (slope_KF,) = torch.autograd.grad(loss, model.linear.weight)
    batch = RecordBatch(
        levels_MD=given,
        labels_M=labels,
        mask_M=torch.ones(30, dtype=torch.bool),
        units_M=torch.arange(30),
    )
    asked = Samples(
        images_ND=model.linear.weight.detach(),
        labels_N=torch.zeros(4, dtype=torch.int64),
        weights=model.network_bytes(),
    )
    curators.check_samples(asked)
    state, release = curators.gradient(curators.start([Private(batch)]), asked, NoNoise())
    rows = model.rows(images(given)).detach()
    found = state.rows[0].float() / RIGHT_RADIUS
    torch.testing.assert_close(found, rows, rtol=0, atol=2e-3)
    apart = release_values(release).float() - slope_KF
    assert float(apart.norm()) < 0.02 * float(slope_KF.norm())
    assert float(rows[:, :-1].std()) > 0.01


@Features
def test_both_sides_compute_the_same_class_sums(features: str) -> None:
    made = recipe(features, mechanism__asks="class-sums", mechanism__clip_norm=1.0)
    model, _ = new_teacher(made, SHAPE)
    facts = small_facts(channels=2, height=9, width=6, classes=tuple("abcd"))
    curators = LinearTeacher(LinearTeacherSpec(**made.mechanism.parameters(facts)), SPACE)
    given, labels = levels(), torch.arange(30) % 4
    batch = RecordBatch(
        levels_MD=given,
        labels_M=labels,
        mask_M=torch.ones(30, dtype=torch.bool),
        units_M=torch.arange(30),
    )
    asked = Samples(
        images_ND=torch.zeros_like(TeacherState.of(model, made).moved_KF),
        labels_N=torch.zeros(4, dtype=torch.int64),
        weights=model.network_bytes(),
    )
    curators.check_samples(asked)
    _, release = curators.gradient(curators.start([Private(batch)]), asked, NoNoise())
    means = _class_means(release_values(release).float(), 0.0)
    moments = model.moments(images(given)).detach()
    expected = torch.stack([moments[labels == place].mean(dim=0) for place in range(4)])
    torch.testing.assert_close(means, expected, rtol=0, atol=4e-3)


def test_both_sides_have_the_same_constants() -> None:
    assert classifier.LARGEST_WEIGHT == linear_softmax.LARGEST_WEIGHT
    assert classifier._LARGEST_NETWORK_WEIGHT == feature_nets.LARGEST_WEIGHT
    assert classifier._GROUPS_PER_CHANNEL == linear_softmax.GROUPS_PER_CHANNEL
    assert classifier._LEAST_SPREAD == linear_softmax.LEAST_SPREAD
    assert classifier._LARGEST_FEATURE == 2**15 * linear_softmax.FEATURE_STEP


@Features
def test_rows_have_norm_one_also_of_a_black_image(features: str) -> None:
    model, _ = told(features)
    given = levels()
    given[0] = 0
    rows = model.rows(images(given)).detach()
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(30))


def source(count: int = 300) -> PublicImages:
    """Dark and light images of four classes, which a corner tells."""
    generator = torch.Generator().manual_seed(4)
    made = torch.rand((count, 2, 9, 6), generator=generator) - 1
    labels = torch.arange(count) % 4
    for place, (row, column) in enumerate([(0, 0), (0, 3), (5, 0), (5, 3)]):
        made[labels == place, :, row : row + 4, column : column + 3] += 1
    return PublicImages(images_NCHW=made, labels_N=labels, digest="d")


@Features
def test_a_source_is_learned(features: str) -> None:
    made = recipe(features, source__epochs=25, source__batch=50)
    model, randomness = new_teacher(made, SHAPE)
    assert model.linear.weight.count_nonzero() == 0
    before = model.network_bytes()
    learn_source(model, made, source(), randomness)
    scores = model(source().images_NCHW)
    assert float((scores.argmax(dim=1) == source().labels_N).float().mean()) > 0.9
    assert (model.network_bytes() != before) == (model.extractor is not None)


def test_what_is_learned_follows_from_the_seed() -> None:
    def learned(seed: int) -> Tensor:
        torch.rand(3)  # the global state moves on
        made = recipe("mlp-features", source__epochs=2, training__seed=seed)
        model, randomness = new_teacher(made, SHAPE)
        learn_source(model, made, source(), randomness)
        return model.linear.weight.detach()

    assert torch.equal(learned(1), learned(1))
    assert not torch.equal(learned(1), learned(2))
