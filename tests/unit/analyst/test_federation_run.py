"""Rounds of several fake curators: means, turns, lost answers, and opening at all or at none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from analyst.errors import (
    BudgetExhausted,
    CuratorFailed,
    CuratorUnreachable,
    FederationError,
    StepLost,
)
from analyst.training.federation.federation import Federation
from analyst.training.federation.rounds import Combine, OnLoss, Rule
from analyst.training.federation.run import FederatedRun
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error
from tests.unit.analyst.test_federation import fails, members_of


def _run(
    barriers: Sequence[FakeBarrier], *, combine: str = "mean", on_loss: str = "stop", steps: int = 4
) -> tuple[FederatedRun, list[str]]:
    said: list[str] = []
    rule = Rule(combine=Combine(combine), on_loss=OnLoss(on_loss), patience_s=0.0)
    federation = Federation(
        members_of(barriers, (1.0, 3.0, 1.0)), rule, lambda facts: {}, folder=None, say=said.append
    )
    federation.describe("digits")
    return federation.open_run("", "dp-sinkhorn", {}, num_steps=steps), said


def _ask(run: FederatedRun, seed: int = 0) -> torch.Tensor:
    images = torch.rand((4, 1, 8, 8), generator=torch.Generator().manual_seed(seed))
    return run.gradient(images, torch.arange(4))


def test_gradients_are_averaged_by_public_weights() -> None:
    first, second = FakeBarrier(), FakeBarrier(noise_std=3.0)
    run, _ = _run([first, second])
    alone = [
        barrier.open_run("", "dp-sinkhorn", {}, num_steps=4)
        for barrier in (FakeBarrier(), FakeBarrier(noise_std=3.0))
    ]
    images = torch.rand((4, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    expected = sum(
        w * one.gradient(images, torch.arange(4))
        for w, one in zip((0.25, 0.75), alone, strict=True)
    )
    torch.testing.assert_close(_ask(run), expected)
    assert (run.next_step, run.num_steps) == (2, 4)
    assert run.run_id == "run-0+run-0"


def test_gradients_of_features_are_averaged_alike() -> None:
    barriers = [FakeBarrier(noise_std=1.0), FakeBarrier(noise_std=5.0)]
    run, _ = _run(barriers)
    features = torch.rand((6, 3), generator=torch.Generator().manual_seed(0))
    answer = run.feature_gradient(features, b"weights")
    torch.testing.assert_close(answer, features - (0.25 * 1.0 + 0.75 * 5.0))
    assert barriers[0].asked == barriers[1].asked
    turns, _ = _run(barriers, combine="round-robin")
    answers = [turns.feature_gradient(features.clone(), b"weights") for _ in range(2)]
    torch.testing.assert_close(answers, [features - 1.0, features - 5.0])


def test_who_has_answered_for_features_is_not_charged_again() -> None:
    calm, silent = FakeBarrier(), FakeBarrier()
    run, _ = _run([calm, silent])
    silent.before_gradient = fails(CuratorUnreachable, at=1, times=2)
    features = torch.zeros((6, 3))
    for _ in range(2):
        with pytest.raises(CuratorUnreachable):
            run.feature_gradient(features, b"weights")
    run.feature_gradient(features, b"weights")
    assert len(calm.asked) == len(silent.asked) == 1
    assert run.next_step == 2


def test_a_round_robin_asks_one_a_round() -> None:
    barriers = [FakeBarrier(), FakeBarrier()]
    run, _ = _run(barriers, combine="round-robin", steps=5)
    for seed in range(5):
        _ask(run, seed)
    assert [len(barrier.asked) for barrier in barriers] == [3, 2]
    assert [barrier.opened[0][2] for barrier in barriers] == [3, 2]
    assert run.next_step == 6


def test_who_has_answered_is_not_charged_again_while_another_is_waited_for() -> None:
    calm, silent = FakeBarrier(), FakeBarrier()
    run, _ = _run([calm, silent])
    silent.before_gradient = fails(CuratorUnreachable, at=1, times=2)
    images = torch.zeros((4, 1, 8, 8))
    for _ in range(2):
        with pytest.raises(CuratorUnreachable):
            run.gradient(images, torch.arange(4))
    run.gradient(images, torch.arange(4))
    assert len(calm.asked) == len(silent.asked) == 1
    assert calm.asked == silent.asked
    assert run.next_step == 2


def test_a_lost_answer_leaves_the_mean_of_the_others() -> None:
    whole, loses = FakeBarrier(), FakeBarrier()
    run, _ = _run([whole, loses], on_loss="continue")

    def lose(fake: FakeRun) -> None:
        if fake.next_step == 1:
            fake.account.used, fake.next_step = 2, 3
            raise make_error(StepLost)

    loses.before_gradient = lose
    alone = FakeBarrier().open_run("", "dp-sinkhorn", {}, num_steps=4)
    images = torch.rand((4, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    assert torch.equal(_ask(run), alone.gradient(images, torch.arange(4)))
    assert (run.next_step, run.num_steps) == (2, 4)


def test_a_round_whose_answers_are_all_lost_is_skipped() -> None:
    barriers = [FakeBarrier(), FakeBarrier()]
    run, _ = _run(barriers)
    for barrier in barriers:

        def lose(fake: FakeRun) -> None:
            if fake.next_step == 1:
                fake.account.used, fake.next_step = 2, 3
                raise make_error(StepLost)

        barrier.before_gradient = lose
    with pytest.raises(StepLost):
        _ask(run)
    assert run.next_step == 3


@pytest.mark.parametrize("on_loss", ["stop", "continue"])
def test_curators_with_other_images_are_refused_before_anything_is_opened(on_loss: str) -> None:
    first = FakeBarrier()
    for other in (FakeDataset(width=9), FakeDataset(classes=tuple("0123456798"))):
        second = FakeBarrier(other)
        with pytest.raises(FederationError, match="images differ"):
            _run([first, second], on_loss=on_loss)
        assert not first.accounts
        assert not second.accounts


def test_when_the_second_refuses_the_first_is_closed_again_unused() -> None:
    class Refusing(FakeBarrier):
        def open_run(self, *_: Any, **__: Any) -> FakeRun:
            raise make_error(CuratorFailed)

    first, second = FakeBarrier(), Refusing()
    with pytest.raises(CuratorFailed):
        _run([first, second], on_loss="continue")
    (account,) = first.accounts.values()
    assert account.closed
    assert account.used == 0


def test_stop_asks_first_who_cannot_afford_it() -> None:
    rich, poor = FakeBarrier(), FakeBarrier(FakeDataset(epsilon=3.0))
    with pytest.raises(BudgetExhausted):
        _run([rich, poor], steps=4)
    assert not rich.accounts
