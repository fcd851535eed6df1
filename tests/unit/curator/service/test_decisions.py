"""What the steward decides holds for open runs: at once here, within a block elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from curator.accounting.cost import event_cost
from curator.accounting.event_text import event_from_text
from curator.errors import (
    AllotmentExhausted,
    BudgetExhausted,
    CuratorError,
    DatasetPaused,
    DatasetRetired,
    PolicyRefused,
    TooFast,
    TooManyRuns,
)
from curator.ledger.entries import CapLowered, PolicySet, ShareSet, StatusSet
from curator.ledger.ledger import DatasetStatus, LedgerConflict, RunState
from curator.planning.planner import PlanRequest
from curator.service.answer_step import release_gradient
from curator.service.end_runs import close_run
from curator.service.live_run import Answer
from curator.service.service import Service
from curator.service.steward_decisions import decide
from curator.service.steward_policy import StewardPolicy
from tests.fakes.curator import (
    ALICE,
    BOB,
    STEWARD,
    SmallLimits,
    opened,
    planner,
    service,
    step_request,
)

NAME = "small"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ctx(clock: Clock) -> Service:
    return service(monotonic=clock)


def step(ctx: Service, run: RunState, number: int, rows: int = 4) -> Answer:
    return release_gradient(ctx, ALICE, step_request(run.run_id, number, rows=rows)).result(10)


def turn(ctx: Service, status: DatasetStatus) -> None:
    decide(ctx.runs, StatusSet(dataset=NAME, status=status, reason="test"))


def set_policy(ctx: Service, **rules: Any) -> None:
    text = StewardPolicy().changed(rules).to_text()
    decide(ctx.runs, PolicySet(dataset=NAME, policy_json=text))


class TestLife:
    def test_a_pause_holds_at_once_though_steps_are_charged(self, ctx: Service) -> None:
        run = opened(ctx)
        step(ctx, run, 1)
        step(ctx, run, 2)
        assert ctx.runs.ledger.run(run.run_id).used > 2
        turn(ctx, DatasetStatus.PAUSED)
        with pytest.raises(DatasetPaused):
            step(ctx, run, 3)
        with pytest.raises(DatasetPaused):
            opened(ctx, key="b" * 16)
        turn(ctx, DatasetStatus.ACTIVE)
        step(ctx, run, 3)

    def test_retiring_closes_runs_and_returns_what_they_did_not_use(self, ctx: Service) -> None:
        run = opened(ctx)
        step(ctx, run, 1)
        turn(ctx, DatasetStatus.RETIRED)
        state = ctx.runs.ledger.run(run.run_id)
        assert (state.used, state.close_reason) == (1, "closed: the data set was retired")
        with pytest.raises(DatasetRetired):
            opened(ctx, key="b" * 16)
        assert ctx.runs.ledger.account(NAME).spent == ctx.runs.ledger.account(NAME).reserved

    def test_erasing_lets_go_of_the_records(self, ctx: Service) -> None:
        run = opened(ctx)
        turn(ctx, DatasetStatus.ERASED)
        assert ctx.runs.datasets.get(NAME).records is None
        with pytest.raises(DatasetRetired):
            ctx.runs.datasets.records(NAME)
        with pytest.raises(DatasetRetired):
            opened(ctx, key="b" * 16)
        assert not ctx.runs.ledger.run(run.run_id).is_open

    @pytest.mark.parametrize(
        ("status", "kind"),
        [(DatasetStatus.PAUSED, DatasetPaused), (DatasetStatus.ERASED, DatasetRetired)],
    )
    def test_that_it_is_stopped_is_said_before_what_else_would_be_refused(
        self, ctx: Service, status: DatasetStatus, kind: type[CuratorError]
    ) -> None:
        known = opened(ctx)
        set_policy(ctx, max_epsilon_per_run=1e-6, mechanisms=["mean-embedding"])
        turn(ctx, status)
        for changes in ({}, {"capacity": 99}, {"noise_multiplier": "much"}):
            with pytest.raises(kind):
                opened(ctx, key="b" * 16, **changes)
        set_policy(ctx)
        assert opened(ctx).run_id == known.run_id  # the same key finds its run all the same

    def test_runs_that_nobody_serves_are_closed_at_their_mark(self, ctx: Service) -> None:
        run = opened(ctx)
        step(ctx, run, 1)
        mark = ctx.runs.ledger.run(run.run_id).used
        other = service(ctx.runs.ledger, holder="second")
        turn(other, DatasetStatus.RETIRED)
        state = ctx.runs.ledger.run(run.run_id)
        assert (state.used, state.is_open) == (mark, False)

    def test_a_pause_between_opening_and_its_release_is_told_and_costs_nothing(
        self, ctx: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin = ctx.runs.ledger.begin_setup

        def paused_first(*arguments: Any) -> RunState:
            turn(ctx, DatasetStatus.PAUSED)
            return begin(*arguments)

        monkeypatch.setattr(ctx.runs.ledger, "begin_setup", paused_first)
        with pytest.raises(DatasetPaused):
            opened(ctx, "mean-embedding")
        (run,) = ctx.runs.ledger.runs()
        assert (run.is_open, run.setup_begun) == (False, False)
        assert ctx.runs.ledger.account(NAME).reserved.is_zero

    def test_the_steward_closes_a_run_of_a_paused_data_set(self, ctx: Service) -> None:
        run = opened(ctx)
        step(ctx, run, 1)
        turn(ctx, DatasetStatus.PAUSED)
        assert close_run(ctx.runs, STEWARD, run.run_id).used == 1


class TestCaps:
    def test_a_lowered_cap_is_reached_exactly_though_blocks_are_larger(self, ctx: Service) -> None:
        run = opened(ctx, num_steps=60)
        cost = event_cost(event_from_text(run.step_event_json))
        cap = ctx.runs.ledger.account(NAME).rule.spent_epsilon(cost * 19)
        decide(ctx.runs, CapLowered(dataset=NAME, epsilon=cap, reason="test"))
        answers = [step(ctx, run, number) for number in range(1, 20)]
        assert {one.budget_epsilon for one in answers} == {cap}
        with pytest.raises(BudgetExhausted) as refused:
            step(ctx, run, 20)
        assert refused.value.numbers.budget == cap
        assert ctx.runs.ledger.run(run.run_id).used == 19
        assert close_run(ctx.runs, ALICE, run.run_id).used == 19

    def test_an_analyst_s_share_is_refused_in_its_own_words(self, ctx: Service) -> None:
        run = opened(ctx, num_steps=5)
        cost = event_cost(event_from_text(run.step_event_json))
        share = ctx.runs.ledger.account(NAME).rule.spent_epsilon(cost * 5)
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=share))
        with pytest.raises(AllotmentExhausted):
            opened(ctx, num_steps=50, key="b" * 16)
        opened(ctx, num_steps=50, key="b" * 16, caller=BOB)

    def test_a_plan_knows_the_share_and_the_policy(self, ctx: Service) -> None:
        run = opened(ctx, num_steps=1)
        request = PlanRequest(
            dataset=NAME, mechanism=run.mechanism, parameters_json=run.parameters_json
        )
        most = planner(ctx).plan(ALICE, request).affordable_steps
        cost = event_cost(event_from_text(run.step_event_json))
        share = ctx.runs.ledger.account(NAME).rule.spent_epsilon(cost * (most // 2))
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=share))
        assert planner(ctx).plan(ALICE, request).affordable_steps < most
        assert planner(ctx).plan(BOB, request).affordable_steps == most
        set_policy(ctx, max_steps=7)
        assert planner(ctx).plan(BOB, request).affordable_steps == 7
        set_policy(ctx, max_epsilon_per_run=share)
        assert 7 < planner(ctx).plan(BOB, request).affordable_steps < most


class TestPolicy:
    @pytest.mark.parametrize(
        ("rules", "detail"),
        [
            ({"mechanisms": ["mean-embedding"]}, "mechanisms are mean-embedding"),
            ({"min_noise_multiplier": 30.5}, "min_noise_multiplier is 30.5"),
            ({"max_sampling_rate": 0.4}, "max_sampling_rate is 0.4"),
            ({"max_capacity": 7}, "max_capacity is 7"),
            ({"max_images": 3}, "max_images is 3"),
            ({"max_steps": 4}, "max_steps is 4"),
            ({"max_epsilon_per_run": 0.01}, r"max_epsilon_per_run is 0.01, .* would cost"),
        ],
    )
    def test_a_refusal_names_the_rule_and_the_number(
        self, ctx: Service, rules: dict[str, Any], detail: str
    ) -> None:
        set_policy(ctx, **rules)
        before = ctx.runs.ledger.head()
        with pytest.raises(PolicyRefused, match=detail):
            opened(ctx)
        assert ctx.runs.ledger.head() == before

    def test_what_is_within_the_rules_is_let_in(self, ctx: Service) -> None:
        set_policy(
            ctx,
            mechanisms=["dp-sinkhorn"],
            min_noise_multiplier=30.0,
            max_sampling_rate=0.5,
            max_capacity=8,
            max_images=4,
            max_steps=5,
            max_open_runs=2,
        )
        step(ctx, opened(ctx), 1)
        opened(ctx, key="b" * 16)
        with pytest.raises(PolicyRefused, match="is 2: close one of yours first"):
            opened(ctx, key="c" * 16)
        opened(ctx, key="c" * 16, caller=BOB)

    def test_the_same_key_finds_its_run_though_there_may_be_no_more(self, ctx: Service) -> None:
        set_policy(ctx, max_open_runs=1)
        assert opened(ctx).run_id == opened(ctx).run_id

    def test_an_embedding_has_no_fixed_number_of_images(self, ctx: Service) -> None:
        run = opened(ctx, "mean-embedding")
        step(ctx, run, 1, rows=6)
        set_policy(ctx, max_images=5)
        step(ctx, run, 2, rows=5)
        with pytest.raises(PolicyRefused, match="max_images is 5"):
            step(ctx, run, 3, rows=6)

    def test_steps_that_come_too_fast_are_not_charged(self, ctx: Service, clock: Clock) -> None:
        set_policy(ctx, max_steps_per_second=2.0)
        run = opened(ctx, num_steps=50)
        for number in range(1, 5):
            step(ctx, run, number)
        used = ctx.runs.live[run.run_id].used
        with pytest.raises(TooFast, match="max_steps_per_second is 2") as refused:
            step(ctx, run, 5)
        assert ctx.runs.live[run.run_id].used == used
        assert refused.value.retry_seconds == pytest.approx(0.5)
        clock.now += refused.value.retry_seconds
        step(ctx, run, 5)

    def test_a_repeated_step_does_not_count_for_the_rate(self, ctx: Service) -> None:
        set_policy(ctx, max_steps_per_second=1.0)
        run = opened(ctx, num_steps=50)
        for _ in range(10):
            step(ctx, run, 1)

    def test_two_runs_of_one_analyst_share_the_rate(self, ctx: Service) -> None:
        set_policy(ctx, max_steps_per_second=1.0)
        first, second = opened(ctx, num_steps=50), opened(ctx, num_steps=50, key="b" * 16)
        step(ctx, first, 1)
        step(ctx, second, 1)
        with pytest.raises(TooFast):
            step(ctx, first, 2)

    @pytest.mark.parametrize(
        "rules",
        [
            {"max_imags": 3},
            {"max_images": 0},
            {"max_images": 2.5},
            {"mechanisms": ["nothing"]},
            {"mechanisms": []},
            {"max_epsilon_per_run": float("nan")},
            {"max_sampling_rate": 1.5},
        ],
    )
    def test_rules_that_mean_nothing_are_refused_by_name(self, rules: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(rules))):
            StewardPolicy().changed(rules)

    def test_rules_are_kept_as_text_and_cleared(self) -> None:
        policy = StewardPolicy().changed({"max_images": 5, "mechanisms": ["dp-sinkhorn"]})
        again = StewardPolicy.model_validate_json(policy.to_text())
        assert again == policy
        assert again.rules() == {"mechanisms": "dp-sinkhorn", "max_images": "5"}
        assert again.changed({"max_images": None}).rules() == {"mechanisms": "dp-sinkhorn"}


def test_an_analyst_has_so_many_open_runs_and_no_more(ctx: Service) -> None:
    ctx = replace(ctx, limits=SmallLimits(max_open_runs=2))
    first = opened(ctx)
    opened(ctx, key="b" * 16)
    with pytest.raises(TooManyRuns, match="at most 2"):
        opened(ctx, key="c" * 16)
    close_run(ctx.runs, ALICE, first.run_id)
    opened(ctx, key="c" * 16)


def test_a_decision_that_cannot_follow_changes_nothing(ctx: Service) -> None:
    turn(ctx, DatasetStatus.RETIRED)
    with pytest.raises(LedgerConflict):
        turn(ctx, DatasetStatus.ACTIVE)
    with pytest.raises(DatasetRetired):
        opened(ctx)
