"""Training against several fake curators: means, losses, resume, what is left behind."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.errors import (
    AnalystError,
    CuratorFailed,
    CuratorUnreachable,
    FederationError,
    RunClosed,
)
from analyst.recipes import Recipe
from analyst.training.checkpoint import checkpoint_store
from analyst.training.federation.config import MemberConfig
from analyst.training.federation.federation import Federation
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.members import Member
from analyst.training.federation.rounds import Combine, OnLoss, Rule
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, SessionResult, resume_session, run_session
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error
from tests.unit.analyst.conftest import FakeStop

MakeRecipe = Callable[..., Recipe]
NAMES = ("north", "south", "west")


def members_of(
    barriers: Sequence[FakeBarrier], weights: Sequence[float] = (1.0, 1.0, 1.0)
) -> list[Member]:
    return [
        Member(config=MemberConfig(address=f"{name}:1", name=name, weight=weight), barrier=barrier)
        for name, weight, barrier in zip(NAMES, weights, barriers, strict=False)
    ]


class Site:
    """An output directory, its curators and a screen."""

    def __init__(self, out: Path, recipe: Recipe, epsilons: Sequence[float]) -> None:
        self.out, self.recipe = out, recipe
        self.barriers = [FakeBarrier(FakeDataset(epsilon=epsilon)) for epsilon in epsilons]
        self.screen = io.StringIO()

    def train(
        self, *, combine: str = "mean", on_loss: str = "stop", resume: bool = False,
        stop: FakeStop | None = None, lost: Sequence[int] = (),
    ) -> SessionResult:  # fmt: skip
        progress = Progress(self.screen)
        members = members_of(self.barriers)
        for position in lost:
            members[position].barrier = None
            members[position].problem = make_error(CuratorUnreachable)
        rule = Rule(
            combine=Combine(combine),
            on_loss=OnLoss(on_loss),
            patience_s=self.recipe.session.retry_for_s,
        )
        with Federation(
            members,
            rule,
            self.recipe.mechanism.parameters,
            folder=FederationFolder(self.out),
            say=progress.say,
        ) as federation:
            options = SessionOptions(out=self.out)
            if not resume:
                return run_session(federation, self.recipe, options, progress, stop or FakeStop())
            _, manifest = checkpoint_store(self.out).load()
            federation.reached(manifest.next_step, manifest.num_steps)
            return resume_session(federation, {}, options, progress, stop or FakeStop())

    @property
    def used(self) -> list[int]:
        return [sum(one.used for one in barrier.accounts.values()) for barrier in self.barriers]

    @property
    def closed(self) -> list[bool]:
        return [one.closed for barrier in self.barriers for one in barrier.accounts.values()]

    def metrics(self) -> list[dict[str, Any]]:
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def site(tmp_path: Path, small_recipe: MakeRecipe) -> Callable[..., Site]:
    def make(*epsilons: float, **changes: Any) -> Site:
        return Site(tmp_path, small_recipe(**changes), epsilons)

    return make


def fails(kind: type[AnalystError], *, at: int, times: int = 10_000) -> Callable[[FakeRun], None]:
    left = [times]

    def fail(run: FakeRun) -> None:
        if run.next_step == at and left[0]:
            left[0] -= 1
            raise make_error(kind)

    return fail


def test_continue_takes_what_each_affords(site: Callable[..., Site]) -> None:
    here = site(100.0, 5.0, 0.5)
    result = here.train(on_loss="continue")
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)
    assert here.used == [12, 5, 0]
    assert here.closed == [True, True]
    text = here.screen.getvalue()
    assert "curator west is left out: its budget affords no step" in text
    assert "south: the declared steps are used; going on with north" in text


@pytest.mark.parametrize(
    ("combine", "on_loss", "used"),
    [
        ("mean", "stop", [5, 5]),
        ("mean", "continue", [9, 5]),
        ("round-robin", "stop", [6, 5]),
        ("round-robin", "continue", [9, 5]),
    ],
)
def test_all_steps_are_those_that_budgets_and_policy_allow(
    site: Callable[..., Site], combine: str, on_loss: str, used: list[int]
) -> None:
    here = site(9.0, 5.0, training__steps="all")
    result = here.train(combine=combine, on_loss=on_loss)
    assert here.used == used
    assert result.num_updates == (max(used) if combine == "mean" else sum(used))
    assert here.closed == [True, True]


@pytest.mark.parametrize("kind", [CuratorUnreachable, CuratorFailed, RunClosed])
@pytest.mark.parametrize("combine", ["mean", "round-robin"])
def test_continue_goes_on_with_the_others_and_says_so(
    site: Callable[..., Site], combine: str, kind: type[AnalystError]
) -> None:
    here = site(100.0, 100.0, session__retry_for_s=0.0)
    here.barriers[1].before_gradient = fails(kind, at=4)
    result = here.train(combine=combine, on_loss="continue")
    expected = {"mean": ([12, 3], 12), "round-robin": ([6, 3], 9)}[combine]
    assert (here.used, result.num_updates) == expected
    assert result.outcome is Outcome.COMPLETED
    text = here.screen.getvalue()
    assert "curator south is lost" in text
    assert "going on with north" in text
    last = [line for line in here.metrics() if line["kind"] == "update"][-1]
    assert (last["north.state"], last["south.state"]) == ("used", "lost")
    assert not [line for line in here.metrics() if line["kind"] == "skipped"]
    saved = json.loads((here.out / "federation.json").read_text())
    assert [one["state"] for one in saved["curators"]] == ["used", "lost"]


def test_stop_leaves_a_checkpoint_and_all_runs_open(site: Callable[..., Site]) -> None:
    here = site(100.0, 100.0, session__retry_for_s=0.0)
    here.barriers[1].before_gradient = fails(CuratorUnreachable, at=4)
    with pytest.raises(CuratorUnreachable):
        here.train()
    assert here.closed == [False, False]
    assert here.used == [4, 3]  # north has answered the fourth; that answer is gone
    here.barriers[1].before_gradient = lambda run: None
    result = here.train(resume=True)
    assert result.outcome is Outcome.COMPLETED
    assert here.used == [12, 11]
    assert result.num_updates == 11
    assert here.closed == [True, True]


def test_a_silent_curator_is_waited_for_as_long_as_the_recipe_says(
    site: Callable[..., Site],
) -> None:
    here, stop = site(100.0, 100.0), FakeStop()
    here.barriers[1].before_gradient = fails(CuratorUnreachable, at=4, times=3)
    result = here.train(on_loss="continue", stop=stop)
    assert stop.slept == [0.5, 1.0, 2.0]
    assert here.used == [12, 12]
    assert result.num_updates == 12


def test_when_all_are_lost_the_last_reason_is_raised(site: Callable[..., Site]) -> None:
    here = site(100.0, 100.0)
    here.barriers[0].before_gradient = fails(CuratorFailed, at=3)
    here.barriers[1].before_gradient = fails(RunClosed, at=5)
    with pytest.raises(RunClosed):
        here.train(on_loss="continue")
    assert checkpoint_store(here.out).load()[1].num_updates == 4


@pytest.mark.parametrize("combine", ["mean", "round-robin"])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, small_recipe: MakeRecipe, combine: str
) -> None:
    recipe = small_recipe(optimizer__decay="cosine")
    whole = Site(tmp_path / "whole", recipe, (100.0, 100.0, 100.0))
    whole.train(combine=combine)
    parts = Site(tmp_path / "parts", recipe, (100.0, 100.0, 100.0))
    assert parts.train(combine=combine, stop=FakeStop(after=5)).outcome is Outcome.STOPPED
    parts.train(combine=combine, resume=True, stop=FakeStop(after=2))
    result = parts.train(combine=combine, resume=True)
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)
    expected, _ = checkpoint_store(whole.out).load()
    actual, _ = checkpoint_store(parts.out).load()
    for name, tensor in expected.items():
        assert torch.equal(tensor, actual[name]), name
    assert [b.asked for b in whole.barriers] == [b.asked for b in parts.barriers]


def test_after_a_kill_each_ledger_says_where_to_go_on(site: Callable[..., Site]) -> None:
    here = site(100.0, 100.0)

    def die(run: FakeRun) -> None:
        if run.next_step == 7:
            raise KeyboardInterrupt  # like a kill: no checkpoint is written

    here.barriers[1].before_gradient = die
    with pytest.raises(KeyboardInterrupt):
        here.train()
    assert here.used == [7, 6]
    here.barriers[1].before_gradient = lambda run: None
    result = here.train(resume=True)
    assert here.used == [12, 11]
    assert result.num_updates == 4 + 5  # checkpoint after 4; 5 to 7 were charged and are gone
    assert "steps 5 to 7 were charged" in here.screen.getvalue()


def test_a_resumed_run_goes_on_without_a_curator_that_is_gone(site: Callable[..., Site]) -> None:
    here = site(100.0, 100.0)
    here.train(stop=FakeStop(after=5))
    with pytest.raises(CuratorUnreachable):
        here.train(resume=True, lost=[0])
    result = here.train(resume=True, on_loss="continue", lost=[0])
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)
    assert here.used == [5, 12]
    assert "run run-0 at north was not closed" in here.screen.getvalue()


def test_another_number_of_curators_is_an_error(site: Callable[..., Site]) -> None:
    here = site(100.0, 100.0)
    here.train(stop=FakeStop(after=2))
    here.barriers.append(FakeBarrier())
    with pytest.raises(FederationError, match="one of 2 curators, not of 3"):
        here.train(resume=True)


def test_certificates_and_budgets_of_all_are_kept(
    site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRun, "certificate", '{"signed": 1}', raising=False)
    here = site(20.0, 50.0)
    here.train()
    names = sorted(path.name for path in (here.out / "certificates").iterdir())
    assert names == ["1-north.json", "2-south.json"]
    last = [line for line in here.metrics() if line["kind"] == "update"][-1]
    assert (last["north.spent_epsilon"], last["north.budget_epsilon"]) == (12.0, 20.0)
    assert (last["south.spent_epsilon"], last["south.budget_epsilon"]) == (12.0, 50.0)
    assert (last["spent_epsilon"], last["budget_epsilon"]) == (12.0, 20.0)  # the most used


def test_each_curator_gets_the_rate_of_its_own_size(
    tmp_path: Path, small_recipe: MakeRecipe
) -> None:
    here = Site(tmp_path, small_recipe(), (100.0, 100.0))
    here.barriers[1].dataset = dataclasses.replace(here.barriers[1].dataset, nominal_size=400)
    here.train()
    rates = [barrier.opened[0][1]["sampling_rate"] for barrier in here.barriers]
    assert rates == [pytest.approx(40 / 1437), pytest.approx(40 / 400)]
