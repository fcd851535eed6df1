"""The fake keeps the promises that training relies on."""

from __future__ import annotations

import torch

from analyst.training.run_source import Curator
from tests.fakes.barrier import FakeBarrier, templates


def _port(barrier: Curator) -> Curator:
    return barrier  # mypy checks that the fake fits the port


def test_gradient_is_that_of_the_quadratic() -> None:
    barrier = FakeBarrier(noise_std=0.0)
    run = _port(barrier).open_run("digits", "dp-sinkhorn", {}, num_steps=3)
    labels = torch.tensor([3, 1])
    images = torch.rand((2, 1, 8, 8), generator=torch.Generator(), requires_grad=True)
    loss = 0.5 * (images - templates(barrier.dataset)[labels]).square().sum()
    (expected,) = torch.autograd.grad(loss, images)
    torch.testing.assert_close(run.gradient(images.detach(), labels), expected)


def test_ledger_counts_and_outlives_the_handle() -> None:
    barrier = FakeBarrier()
    run = barrier.open_run("digits", "dp-sinkhorn", {}, num_steps=3)
    images, labels = torch.zeros((2, 1, 8, 8)), torch.tensor([0, 1])
    first = run.gradient(images, labels)
    assert barrier.budget("digits").spent == 1
    assert barrier.budget("digits").reserved == 3
    again = barrier.resume_run(run.run_id)
    assert again.next_step == 2
    again.close()
    assert barrier.budget("digits").reserved == 1
    other = FakeBarrier().open_run("digits", "dp-sinkhorn", {}, num_steps=3)
    assert torch.equal(first, other.gradient(images, labels))  # the same step, the same bytes
