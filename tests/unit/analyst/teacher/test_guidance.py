"""What a teacher says of images: towards their classes by a map, towards records by class means."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analyst.generators.generator import ImageShape
from analyst.teacher.classifier import TeacherClassifier, new_teacher
from analyst.teacher.guidance import guide_of
from analyst.teacher.recipe import TEACHERS
from analyst.teacher.session import Teacher

SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


def model() -> TeacherClassifier:
    recipe = TEACHERS.load(
        "linear-teacher-digits",
        {"mechanism.features": "mlp-features", "mechanism.num_features": 6},
    )
    made, randomness = new_teacher(recipe, SHAPE)
    torch.nn.init.normal_(made.linear.weight, generator=randomness)
    return made


def teacher(of: TeacherClassifier, means: Tensor) -> Teacher:
    return Teacher(model=of, means_KR=means, shape=SHAPE, run_id="r")


def images(count: int, seed: int = 1) -> Tensor:
    return torch.rand((count, 1, 8, 8), generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_a_map_says_the_gradient_of_its_cross_entropy() -> None:
    of, given, labels = model(), images(6), torch.arange(6)
    guide = guide_of(teacher(of, torch.zeros(0)))
    moving = given.clone().requires_grad_()
    (expected,) = torch.autograd.grad(cross_entropy(of(moving), labels), moving)
    torch.testing.assert_close(guide.gradient(given, labels), expected)
    assert (guide.shape, guide.run_id) == (SHAPE, "r")
    assert all(parameter.grad is None for parameter in of.parameters())


def test_class_means_say_the_gradient_of_the_unbiased_distance() -> None:
    """By finite differences of its definition, in float64."""
    of, given, labels = model().double(), images(6).double(), torch.tensor([0, 0, 0, 1, 1, 2])
    means = of.moments(images(3, seed=2).double()).detach()
    means = torch.cat((means, torch.zeros(7, means.shape[1]).double()))

    def distance(at: Tensor) -> Tensor:
        rows, total = of.moments(at).detach(), torch.zeros((), dtype=torch.float64)
        for place in range(3):
            own = rows[labels == place]
            pairs = len(own) * (len(own) - 1)
            total -= 2 * own.mean(dim=0) @ means[place]
            if pairs:
                total += (own.sum(dim=0).square().sum() - own.square().sum()) / pairs
        return total / 10

    found = guide_of(teacher(of, means)).gradient(given, labels)
    step = torch.zeros_like(given)
    for row, pixel in ((0, 5), (3, 40), (5, 63)):
        step.zero_()
        step.view(6, -1)[row, pixel] = 1e-5
        slope = (distance(given + step) - distance(given - step)) / 2e-5
        assert float(found.view(6, -1)[row, pixel]) == pytest.approx(float(slope), abs=1e-7)
    assert float(found.abs().max()) > 1e-4
