"""The student: its loss, its steps and its slopes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from curator.divergences.adam import Ensemble
from curator.divergences.critics import CriticShape, Parameters, initial_critics, scores
from curator.divergences.student import Answered, student_gradients, student_loss, teach
from curator.divergences.teachers import Questions

SHAPE = CriticShape(kind="mlp", width=8, channels=1, height=2, pixels_per_row=2, num_classes=3)


def network() -> Parameters:
    return {name: value[0] for name, value in initial_critics(SHAPE, 1, 5).items()}


def drawn(seed: int, num_rows: int = 12) -> Tensor:
    return torch.rand(num_rows, 4, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def answered(*, pairs: bool, shares: Tensor | None = None) -> Answered:
    asked = Questions(
        firsts_ND=drawn(1),
        seconds_ND=drawn(2) if pairs else None,
        onehot_NL=torch.eye(3)[torch.arange(12) % 3],
    )
    return Answered(asked=asked, shares_N=torch.linspace(0, 1, 12) if shares is None else shares)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_loss_is_the_cross_entropy_of_shares(pairs: bool) -> None:
    lesson = answered(pairs=pairs)
    logits = scores(SHAPE, network(), lesson.asked.firsts_ND, lesson.asked.onehot_NL)
    if lesson.asked.seconds_ND is not None:
        logits = logits - scores(SHAPE, network(), lesson.asked.seconds_ND, lesson.asked.onehot_NL)
    chance, share = logits.sigmoid(), lesson.shares_N
    expected = -(share * chance.log() + (1 - share) * (1 - chance).log()).mean()
    assert float(student_loss(SHAPE, network(), lesson)) == pytest.approx(float(expected), rel=1e-5)


def test_steps_are_those_of_adam() -> None:
    lesson = answered(pairs=True)
    found = teach(SHAPE, 0.01, Ensemble.start(network()), [lesson, lesson])
    found = teach(SHAPE, 0.01, found, [lesson])
    assert found.num_updates == 3
    wanted = {name: value.clone().requires_grad_() for name, value in network().items()}
    adam = torch.optim.Adam(wanted.values(), lr=0.01, betas=(0.5, 0.99))
    for _ in range(3):
        adam.zero_grad()
        torch.autograd.backward([student_loss(SHAPE, wanted, lesson)])
        adam.step()
    for name, value in wanted.items():
        torch.testing.assert_close(found.critics[name], value.detach(), rtol=1e-4, atol=1e-6)


def test_what_is_given_stays_as_it_was() -> None:
    start = Ensemble.start(network())
    teach(SHAPE, 0.1, start, [answered(pairs=False)])
    for name, value in network().items():
        assert torch.equal(start.critics[name], value)
        assert not start.means[name].any()


@pytest.mark.parametrize("pairs", [False, True])
def test_it_learns_what_is_real(pairs: bool) -> None:
    """Shares grow with the first pixel; so does the score, after some lessons."""
    lesson = answered(pairs=pairs)
    value = lesson.asked.firsts_ND[:, 0]
    if lesson.asked.seconds_ND is not None:
        value = value - lesson.asked.seconds_ND[:, 0]
    lesson = answered(pairs=pairs, shares=(8 * value).sigmoid())
    learnt = teach(SHAPE, 0.01, Ensemble.start(network()), [lesson] * 150)
    slopes = student_gradients(
        SHAPE, learnt.critics, lesson.asked.firsts_ND, lesson.asked.onehot_NL
    )
    assert bool((slopes[:, 0] < 0).all())  # minus the score falls
    assert float(slopes[:, 0].abs().mean()) > 2 * float(slopes[:, 1:].abs().mean())


def test_slopes_are_those_of_finite_differences() -> None:
    double = {name: value.double() for name, value in network().items()}
    images, onehot = drawn(3).double(), torch.eye(3).double()[torch.arange(12) % 3]
    slopes = student_gradients(SHAPE, double, images, onehot)
    move = torch.zeros(12, 4, dtype=torch.float64)
    move[:, 2] = 1e-6
    ends = [scores(SHAPE, double, images + sign * move, onehot) for sign in (1, -1)]
    expected = -(ends[0] - ends[1]) / 2e-6
    torch.testing.assert_close(slopes[:, 2], expected, rtol=1e-5, atol=1e-7)
    assert math.isfinite(float(slopes.sum()))
