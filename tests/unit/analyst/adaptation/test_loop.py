"""Source updates and asked ones, in the ledger's order; a failed step leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load
from torch import Tensor

from analyst.adaptation.loop import adapt
from analyst.adaptation.public_images import PublicImages
from analyst.adaptation.recipe import adaptation_from_dict
from analyst.adaptation.state import (
    adaptation_tensors,
    load_adaptation_tensors,
    new_adaptation,
)
from analyst.errors import CuratorUnreachable, RequestRefused, RunClosed, StepLost
from analyst.generators.generator import ImageShape
from analyst.training.loop import Outcome
from tests.fakes.adaptation import Stop, Watch, table

SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


MAP: dict[str, Any] = {"kind": "source-map", "lr": 0.05, "lens_seed": 4}


def _nothing(_: FakeRun) -> None:
    return


class FakeRun:
    """Pulls features to zero, and does what it is told at a step."""

    run_id = "r"
    spent_epsilon, budget_epsilon = 1.0, 10.0

    def __init__(self, num_steps: int = 6) -> None:
        self.num_steps, self.next_step = num_steps, 1
        self.asked: list[tuple[int, Tensor, bytes]] = []
        self.trouble: dict[int, Callable[[FakeRun], None]] = {}
        self.pull = 2.0

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        self.asked.append((self.next_step, features, weights))
        self.trouble.pop(self.next_step, _nothing)(self)
        self.next_step += 1
        return self.pull * features

    def close(self) -> None:
        return


def source() -> PublicImages:
    randomness = torch.Generator().manual_seed(3)
    images = torch.rand((200, 1, 8, 8), generator=randomness) * 2 - 1
    return PublicImages(images_NCHW=images, labels_N=torch.arange(200) % 10, digest="d")


def started(
    run: FakeRun, stop: Stop | None = None, move: dict[str, Any] | None = None, **changes: Any
) -> tuple[Any, ...]:
    recipe = adaptation_from_dict(moving(move, **changes), origin="test")
    state, watch = new_adaptation(recipe, SHAPE, source().images_NCHW), Watch()
    quiet = stop or Stop()

    def go() -> Outcome:
        return adapt(state, run, recipe, source(), observer=watch, stop=quiet)

    return go, state, watch


def moving(move: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    made = table(**changes)
    return made if move is None else {**made, "move": move}


def refuse(error: BaseException) -> Callable[[FakeRun], None]:
    def trouble(run: FakeRun) -> None:
        raise error

    return trouble


def lose(run: FakeRun) -> None:
    run.next_step += 1
    reason, message = "STEP_LOST", "lost"
    raise StepLost(reason, message)


def test_it_warms_up_and_then_asks_at_every_third_update() -> None:
    run = FakeRun()
    go, state, watch = started(run)
    assert go() is Outcome.COMPLETED
    assert [update.num_updates for update in watch.updates] == [63, 66, 69, 72, 75, 78]
    assert [step for step, _, _ in run.asked] == [1, 2, 3, 4, 5, 6]
    assert state.num_updates == 78
    assert {tuple(features.shape) for _, features, _ in run.asked} == {(40, 8)}
    assert len({weights for _, _, weights in run.asked}) == 6
    assert watch.updates[0].learning_rate > watch.updates[-1].learning_rate > 0


def test_the_gradient_moves_the_extractor() -> None:
    """With a large weight, features that are pulled to zero become small."""
    norms = []
    for weight in (1e-9, 30.0):
        run = FakeRun(40)
        go, _, _ = started(run, move__weight=weight, training__steps=40)
        go()
        norms.append(float(run.asked[-1][1].norm()))
    assert norms[1] < 0.3 * norms[0]


def test_what_is_sent_are_the_features_of_the_weights_that_are_sent() -> None:
    run = FakeRun()
    go, state, _ = started(run)
    go()
    _, features, weights = run.asked[2]
    state.model.extractor.load_state_dict(load(weights))
    everything = state.model.extractor(source().images_NCHW).detach()
    nearest = (
        torch.cdist(features, everything, compute_mode="donot_use_mm_for_euclid_dist")
        .min(dim=1)
        .values
    )
    assert float(nearest.max()) < 1e-4


@pytest.mark.parametrize(
    "error", [RequestRefused("POLICY", "no"), RunClosed("RUN_CLOSED", "over"), KeyboardInterrupt()]
)
def test_a_step_that_fails_for_good_is_asked_again_in_the_same_words(error: BaseException) -> None:
    run = FakeRun()
    run.trouble[3] = refuse(error)
    go, state, _ = started(run)
    with pytest.raises(type(error)):
        go()
    saved = adaptation_tensors(state)
    recipe = adaptation_from_dict(table(), origin="test")
    other = new_adaptation(recipe, SHAPE, source().images_NCHW)
    load_adaptation_tensors(other, saved)
    other.num_updates = state.num_updates
    adapt(other, run, recipe, source(), observer=Watch(), stop=Stop())
    (first, again) = [asked for asked in run.asked if asked[0] == 3]
    assert torch.equal(first[1], again[1])
    assert first[2] == again[2]


@pytest.mark.parametrize("move", [None, MAP], ids=["extractor", "source-map"])
def test_a_resumed_run_ends_like_one_that_was_never_stopped(move: dict[str, Any] | None) -> None:
    go, whole, _ = started(FakeRun(), move=move)
    go()
    run, stop = FakeRun(), Stop()

    def ask_to_stop(_: FakeRun) -> None:
        stop.asked = True

    run.trouble[4] = ask_to_stop
    go, state, _ = started(run, stop, move)
    assert go() is Outcome.STOPPED
    recipe = adaptation_from_dict(moving(move), origin="test")
    other = new_adaptation(recipe, SHAPE, source().images_NCHW)
    load_adaptation_tensors(other, adaptation_tensors(state))
    other.num_updates = state.num_updates
    adapt(other, run, recipe, source(), observer=Watch(), stop=Stop())
    ended = adaptation_tensors(other)
    for name, value in adaptation_tensors(whole).items():
        assert torch.equal(value, ended[name]), name


def test_with_a_map_of_the_source_only_the_map_feels_the_curator() -> None:
    run, quiet = FakeRun(), FakeRun()
    quiet.pull = 0.0
    go, state, _ = started(run, move=MAP)
    before = adaptation_tensors(state)
    go()
    after = adaptation_tensors(state)
    lens = [name for name in after if name.startswith("map.lens")]
    assert len(lens) == 4
    assert all(torch.equal(before[name], after[name]) for name in lens)
    assert len({weights for _, _, weights in run.asked}) == 1  # the same lens is sent every time
    assert not torch.equal(before["map.affine"], after["map.affine"])
    go, still, _ = started(quiet, move=MAP)
    go()
    assert torch.equal(still.source_map.affine.detach(), torch.eye(2, 3))


def test_the_map_goes_where_features_are_smaller() -> None:
    run = FakeRun(60)
    go, _, _ = started(run, move=MAP, training__steps=60)
    go()
    assert float(run.asked[-1][1].norm()) < 0.9 * float(run.asked[0][1].norm())


def test_a_step_that_the_ledger_lost_is_skipped() -> None:
    run = FakeRun()
    run.trouble[2] = lose
    go, state, watch = started(run)
    assert go() is Outcome.COMPLETED
    assert watch.lost == [(2, 2)]
    assert len(watch.updates) == 5
    assert state.num_updates == 78  # that update saw the source alone


def test_it_waits_for_a_curator_that_does_not_answer() -> None:
    run = FakeRun()
    run.trouble[1] = refuse(CuratorUnreachable("gone", "wait"))
    go, _, watch = started(run)
    assert go() is Outcome.COMPLETED
    assert watch.waits == 1
    assert len(watch.updates) == 6


def test_it_stops_while_waiting_and_leaves_the_step_unasked() -> None:
    run, stop = FakeRun(), Stop()
    run.trouble[1] = refuse(CuratorUnreachable("gone", "wait"))
    stop.stops_when_waiting = True
    go, state, watch = started(run, stop)
    assert go() is Outcome.STOPPED
    assert (state.num_updates, watch.updates, run.next_step) == (62, [], 1)


def test_patience_ends() -> None:
    run = FakeRun()
    run.trouble[1] = refuse(CuratorUnreachable("gone", "wait"))
    go, _, _ = started(run, session__retry_for_s=0.0)
    with pytest.raises(CuratorUnreachable):
        go()
