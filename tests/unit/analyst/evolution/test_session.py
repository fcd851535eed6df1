"""Candidates follow votes in the ledger's order; what is lost or fails leaves no trace."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from analyst.errors import CheckpointError, CuratorUnreachable, RecipeError, StepLost
from analyst.evolution.recipe import EVOLUTIONS, EvolutionRecipe
from analyst.evolution.session import (
    Evolution,
    EvolutionOptions,
    EvolutionState,
    follow,
    sample_evolved,
    start_evolution,
)
from analyst.generators.generator import ImageShape
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from tests.fakes.adaptation import Stop, Watch
from tests.fakes.barrier import FakeBarrier, make_error
from tests.fakes.proposer import NAME, Blots

SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


def _nothing(_: FakeRun) -> None:
    return


class FakeRun:
    """Votes for what is light, ten for each level, and does what it is told at a step."""

    run_id = "r"
    spent_epsilon, budget_epsilon = 1.0, 10.0

    def __init__(self, num_steps: int = 4) -> None:
        self.num_steps, self.next_step = num_steps, 1
        self.asked: list[tuple[int, Tensor]] = []
        self.trouble: dict[int, Callable[[FakeRun], None]] = {}

    def votes(self, images: Tensor, labels: Tensor, num_candidates: int) -> Tensor:
        assert labels.shape == images.shape[:1]
        self.asked.append((self.next_step, images.clone()))
        self.trouble.pop(self.next_step, _nothing)(self)
        self.next_step += 1
        light = images.mean(dim=(1, 2, 3)).reshape(num_candidates, -1).mean(dim=1)
        return 1000 * (light.double() + 1) ** 4

    def go_back(self, step: int) -> None:
        self.next_step = min(step, self.next_step)

    def close(self) -> None:
        return


def recipe(**changes: Any) -> EvolutionRecipe:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    small = {"mechanism.num_candidates": 50, "proposer.source": NAME, "choice.lookahead": 0}
    return EVOLUTIONS.load("votes-digits", small | named)


def begun(**changes: Any) -> tuple[Evolution, EvolutionState]:
    proposer = Blots(SHAPE, tuple("0123456789"))
    made = Evolution(recipe=recipe(**changes), shape=SHAPE, proposer=proposer)
    return made, made.begin()


def light(levels: Tensor) -> float:
    return float(levels.float().mean())


def test_what_has_votes_goes_on() -> None:
    evolution, state = begun()
    first, watch = state.candidates_NCHW, Watch()
    assert follow(evolution, state, FakeRun(), observer=watch, stop=Stop()) is Outcome.COMPLETED
    assert light(state.voted_NCHW) > light(first) + 50
    assert state.labels_N.bincount().tolist() == [5] * 10
    assert [one.step for one in watch.updates] == [1, 2, 3, 4]
    assert [one.num_updates for one in watch.updates] == [1, 2, 3, 4]
    sums = torch.zeros(10, dtype=torch.float64).index_add_(0, state.labels_N, state.shares_N)
    torch.testing.assert_close(sums, torch.ones(10, dtype=torch.float64))


def test_degrees_fall_from_the_first_to_the_last_and_no_candidate_is_made_in_vain() -> None:
    evolution, state = begun(choice__first_degree=0.8, choice__last_degree=0.2)
    follow(evolution, state, FakeRun(), observer=Watch(), stop=Stop())
    assert isinstance(evolution.proposer, Blots)
    degrees = list(dict.fromkeys(evolution.proposer.degrees))
    assert degrees == pytest.approx([0.8, 0.4, 0.2])
    assert len(evolution.proposer.degrees) == 30


def test_a_share_of_the_candidates_is_kept_as_it_is() -> None:
    evolution, state = begun(choice__keep=0.4, choice__first_degree=1.0)
    first = {tuple(one.flatten().tolist()) for one in state.candidates_NCHW}
    evolution.go_on(state, torch.ones(50), is_last=False)
    kept = [tuple(one.flatten().tolist()) in first for one in state.candidates_NCHW]
    assert sum(kept) >= 20


@pytest.mark.parametrize(("features", "rows"), [("pixels", 50), ("scattering", 150)])
def test_variations_stand_for_a_candidate(features: str, rows: int) -> None:
    """Their mean is made here for pixels; elsewhere the curator makes it of what is sent."""
    each = rows // 50
    evolution, state = begun(
        mechanism__features=features, mechanism__images_per_candidate=each, choice__lookahead=3
    )
    images, labels, count = evolution.asked(state)
    assert (images.shape, labels.shape, count) == ((rows, 1, 8, 8), (rows,), 50)
    assert labels.tolist() == sorted(labels.tolist())
    sent = state.sent_NCHW.float().reshape(50, each, 1, 8, 8).mean(dim=1)
    assert 0 < float((sent - state.candidates_NCHW.float()).abs().mean()) < 128
    with pytest.raises(RecipeError, match="images_per_candidate must be"):
        recipe(mechanism__features=features, mechanism__images_per_candidate=2)


def test_a_lost_step_asks_the_same_again_and_a_failed_one_leaves_no_trace() -> None:
    def lost(run: FakeRun) -> None:
        run.next_step += 1
        raise make_error(StepLost)

    def down(run: FakeRun) -> None:
        raise make_error(CuratorUnreachable)

    evolution, state = begun(session__retry_for_s=0.0)
    run, watch = FakeRun(5), Watch()
    run.trouble = {2: lost, 4: down}
    with pytest.raises(CuratorUnreachable):
        follow(evolution, state, run, observer=watch, stop=Stop())
    assert watch.lost == [(2, 2)]
    assert [one.step for one in watch.updates] == [1, 3]
    kept = state.tensors()
    again, restored = begun(session__retry_for_s=0.0)
    restored.load(kept)
    restored.num_updates = state.num_updates
    follow(again, restored, run, observer=watch, stop=Stop())
    assert [step for step, _ in run.asked] == [1, 2, 3, 4, 4, 5]
    assert torch.equal(run.asked[1][1], run.asked[2][1])
    assert torch.equal(run.asked[3][1], run.asked[4][1])
    assert run.next_step == 6


def test_votes_are_not_lost_where_the_next_candidates_could_not_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evolution, state = begun()
    run = FakeRun(2)
    with monkeypatch.context() as broken:
        broken.setattr(Blots, "vary", lambda *_: torch.zeros(1))
        with pytest.raises(RecipeError, match="vary returned"):
            follow(evolution, state, run, observer=Watch(), stop=Stop())
    assert (state.num_updates, run.next_step) == (1, 2)
    assert not evolution.is_bred(state)  # a resumed run makes them first
    evolution.breed(state)
    follow(evolution, state, run, observer=Watch(), stop=Stop())
    assert not torch.equal(run.asked[0][1], run.asked[1][1])
    assert state.num_updates == 2


def test_candidates_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    out = EvolutionOptions(out=tmp_path, progress=Progress(io.StringIO()), stop=Stop())
    with pytest.raises(RecipeError, match="num_candidates is 55"):
        start_evolution(FakeBarrier(), recipe(mechanism__num_candidates=55), out)
    with pytest.raises(CheckpointError, match="there is no run"):
        sample_evolved(tmp_path, 10, seed=0)
