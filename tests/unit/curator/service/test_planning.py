"""Three questions and their table: epsilon for steps, steps for epsilon, noise for both."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from curator.errors import MalformedRequest, PolicyRefused
from curator.ledger.entries import PolicySet, ShareSet, StatusSet
from curator.ledger.ledger import DatasetStatus
from curator.planning.noise import MOST, with_noise
from curator.planning.planner import MOST_BEFORE, Plan, PlannedRun, PlanRequest
from curator.planning.table import MOST_POINTS, Axis
from curator.service.caller import Caller
from curator.service.open_run import RunRequest, open_run
from curator.service.service import Service
from curator.service.steward_decisions import decide
from curator.service.steward_policy import StewardPolicy
from tests.fakes.curator import (
    ALICE,
    BOB,
    CRITICS,
    EMBEDDING,
    SINKHORN,
    SmallLimits,
    opened,
    planner,
    service,
)

NAME = "small"
PARAMETERS = {"dp-sinkhorn": SINKHORN, "gs-wgan-mean": CRITICS, "mean-embedding": EMBEDDING}
KINDS = tuple(PARAMETERS)


@pytest.fixture
def ctx() -> Service:
    return service()


def plan(
    ctx: Service,
    kind: str = "gs-wgan-mean",
    *,
    changes: dict[str, Any] | None = None,
    caller: Caller = ALICE,
    **asked: Any,
) -> Plan:
    parameters = (PARAMETERS | {"dp-cgan": CGAN, "score": SCORE})[kind] | (changes or {})
    request = PlanRequest(
        dataset=NAME, mechanism=kind, parameters_json=json.dumps(parameters),
        **({"alone": False} | asked),
    )  # fmt: skip
    return planner(ctx).plan(caller, request)


CGAN: dict[str, Any] = {
    "sampling_rate": 0.5, "capacity": 8, "num_samples": 4, "num_fakes": 2, "expected_batch_size": 2,
    "clip_norm": 0.5, "noise_multiplier": 100.0, "max_size": 10, "max_records_per_unit": 1,
    "critic": "mlp", "critic_width": 128, "critic_seed": 1, "critic_steps": 1,
    "critic_learning_rate": 0.01,
}  # fmt: skip

SCORE: dict[str, Any] = {
    "noise_multiplier": 2.0, "max_size": 10, "max_records_per_unit": 1,
    "architecture": "mlp-features", "counts": "total",
}  # fmt: skip
LITTLE = {"noise_multiplier": 0.01}


class TestNoiseThatAMechanismDoesNotTake:
    """A critic of some thousand weights is refused where truncation would leave little of it."""

    def test_less_is_found_though_more_was_tried(self, ctx: Service) -> None:
        found = plan(ctx, "dp-cgan", num_steps=4_000, epsilon=1.0)
        assert 128 < found.noise_multiplier < 256
        assert found.fits

    def test_what_is_missing_is_said(self, ctx: Service) -> None:
        with pytest.raises(MalformedRequest, match="truncation would leave little"):
            plan(ctx, "dp-cgan", num_steps=10**6, epsilon=1.0)

    def test_a_table_ends_where_noise_is_too_much(self, ctx: Service) -> None:
        found = plan(ctx, "dp-cgan", num_steps=10, axis=Axis.NOISE, points=9)
        noises = [point.noise_multiplier for point in found.points]
        assert noises[0] == 25.0
        assert 100 <= noises[-1] < 256


class TestStepsTooLarge:
    """What `OpenRun` refuses for its size is no plan that fits."""

    @pytest.mark.parametrize("asked", [{"num_steps": 1}, {"num_steps": 1, "epsilon": 4.0}, {}])
    @pytest.mark.parametrize(
        ("limit", "most"),
        [({"max_samples": 39}, "39"), ({"message_bytes": 4096 + 39 * (4 * 4 + 8)}, "39")],
    )
    def test_the_refusal_is_that_of_opening(
        self, ctx: Service, asked: dict[str, Any], limit: dict[str, Any], most: str
    ) -> None:
        large: dict[str, Any] = {"num_samples": 40, "num_debias": 0}
        with pytest.raises(MalformedRequest) as opening:
            opened(replace(ctx, limits=SmallLimits(**limit)), **large)
        with pytest.raises(MalformedRequest, match=f"at most {most} fit") as planning:
            plan(replace(ctx, limits=SmallLimits(**limit)), "dp-sinkhorn", changes=large, **asked)
        assert str(planning.value) == str(opening.value)

    def test_a_release_without_steps_has_no_rows(self, ctx: Service) -> None:
        assert plan(
            replace(ctx, limits=SmallLimits(max_samples=1)), "mean-embedding", num_steps=1
        ).fits


class TestNoise:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("epsilon", [0.5, 4.0, 10.0])
    def test_it_is_enough_and_hardly_less_is(self, ctx: Service, kind: str, epsilon: float) -> None:
        found = plan(ctx, kind, num_steps=40, epsilon=epsilon)
        assert found.fits
        assert found.epsilon_after <= epsilon
        less = {"noise_multiplier": found.noise_multiplier * 0.998}
        assert plan(ctx, kind, num_steps=40, changes=less).epsilon_after > epsilon

    def test_it_does_not_depend_on_the_noise_that_was_sent(self, ctx: Service) -> None:
        found = {
            plan(ctx, num_steps=40, epsilon=4.0, changes={"noise_multiplier": z}).noise_multiplier
            for z in (0.02, 3.0, 500.0)
        }
        assert len(found) == 1

    def test_what_it_says_is_what_a_run_is_charged(self, ctx: Service) -> None:
        found = plan(ctx, num_steps=40, epsilon=4.0)
        parameters = json.dumps(CRITICS | {"noise_multiplier": found.noise_multiplier})
        open_run(
            ctx, ALICE,
            RunRequest(dataset=NAME, mechanism="gs-wgan-mean", parameters_json=parameters,
                       num_steps=40, idempotency_key="k" * 16),
        )  # fmt: skip
        assert ctx.runs.ledger.statement(NAME).reserved_epsilon == found.epsilon_after

    def test_share_and_policy_are_kept_too(self, ctx: Service) -> None:
        free = plan(ctx, num_steps=40, epsilon=9.0).noise_multiplier
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=2.0))
        assert plan(ctx, num_steps=40, epsilon=9.0).noise_multiplier > 2 * free
        _set_policy(ctx, min_noise_multiplier=1000.0)
        assert plan(ctx, num_steps=40, epsilon=9.0).noise_multiplier == 1000.0

    @pytest.mark.parametrize("epsilon", [1e-9, -1.0, 0.0, float("nan")])
    def test_an_epsilon_out_of_reach_is_said(self, ctx: Service, epsilon: float) -> None:
        with pytest.raises(MalformedRequest):
            plan(ctx, num_steps=10**9, epsilon=epsilon)

    @pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "1", "[" * 100_000, "x" * 20_000])
    def test_what_is_no_object_is_refused_where_it_is_read(self, ctx: Service, text: str) -> None:
        assert with_noise(text, 1.0) == text
        request = PlanRequest(dataset=NAME, mechanism="dp-sinkhorn", parameters_json=text,
                              num_steps=1, epsilon=1.0)  # fmt: skip
        with pytest.raises(MalformedRequest):
            planner(ctx).plan(ALICE, request)

    def test_it_is_never_beyond_what_the_lattice_holds(self, ctx: Service) -> None:
        found = plan(ctx, num_steps=10**6, epsilon=9.0)
        assert found.noise_multiplier < MOST


def run_of(kind: str, noise: float, num_steps: int) -> PlannedRun:
    text = json.dumps(PARAMETERS[kind] | {"noise_multiplier": noise})
    return PlannedRun(mechanism=kind, parameters_json=text, num_steps=num_steps)


class TestRunsBefore:
    """Runs that are planned together are told as the ledger counts them one after the other."""

    def test_what_it_says_is_what_is_charged_after_them(self, ctx: Service) -> None:
        noise = plan(ctx, "mean-embedding", num_steps=1, epsilon=8.0, share=0.5).noise_multiplier
        release = run_of("mean-embedding", noise, 1)
        found = plan(ctx, num_steps=40, epsilon=8.0, before=(release,))
        for key, kind, changed, steps in (
            ("a", "mean-embedding", noise, 1),
            ("b", "gs-wgan-mean", found.noise_multiplier, 40),
        ):
            asked = run_of(kind, changed, steps)
            request = RunRequest(
                dataset=NAME, mechanism=kind, parameters_json=asked.parameters_json,
                num_steps=steps, idempotency_key=key * 16,
            )  # fmt: skip
            open_run(ctx, ALICE, request)
        assert ctx.runs.ledger.statement(NAME).reserved_epsilon == found.epsilon_after
        assert 7.98 < found.epsilon_after <= 8.0

    def test_half_of_what_is_left_is_the_noise_of_two(self, ctx: Service) -> None:
        """A Gaussian release that may cost half has noise sqrt(2) times as large."""
        whole = plan(ctx, "mean-embedding", num_steps=1, epsilon=4.0).noise_multiplier
        half = plan(ctx, "mean-embedding", num_steps=1, epsilon=4.0, share=0.5).noise_multiplier
        assert half == pytest.approx(whole * 2**0.5, rel=1e-3)
        rest = plan(
            ctx, "mean-embedding", num_steps=1, epsilon=4.0,
            before=(run_of("mean-embedding", half, 1),),
        ).noise_multiplier  # fmt: skip
        assert rest == pytest.approx(half, rel=2e-3)

    def test_the_share_of_an_analyst_is_kept_by_all_of_them(self, ctx: Service) -> None:
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=2.0))
        asked: dict[str, Any] = {"num_steps": 1, "epsilon": 9.0}
        whole = plan(ctx, "mean-embedding", **asked).noise_multiplier
        half = plan(ctx, "mean-embedding", **asked, share=0.5).noise_multiplier
        assert half == pytest.approx(whole * 2**0.5, rel=1e-3)
        before = (run_of("mean-embedding", half, 1),)
        rest = plan(ctx, "mean-embedding", **asked, before=before).noise_multiplier
        assert rest == pytest.approx(half, rel=2e-3)
        assert not plan(
            ctx, "mean-embedding", num_steps=1, before=(run_of("mean-embedding", whole, 1),),
            changes={"noise_multiplier": whole},
        ).fits  # fmt: skip

    def test_they_are_not_told_as_open_runs(self, ctx: Service) -> None:
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=2.0))
        before = (run_of("mean-embedding", 50.0, 1),)
        told = plan(ctx, "mean-embedding", num_steps=1, before=before)
        assert told.share == ctx.runs.ledger.share(NAME, "alice")
        assert told.statement == ctx.runs.ledger.statement(NAME)

    @pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
    def test_a_share_that_is_none_is_refused(self, ctx: Service, share: float) -> None:
        with pytest.raises(MalformedRequest, match="share"):
            plan(ctx, num_steps=1, epsilon=1.0, share=share)

    def test_bad_ones_are_refused(self, ctx: Service) -> None:
        good = run_of("mean-embedding", 3.0, 1)
        with pytest.raises(MalformedRequest, match=f"at most {MOST_BEFORE}"):
            plan(ctx, num_steps=1, before=(good,) * (MOST_BEFORE + 1))
        with pytest.raises(MalformedRequest) as refused:
            plan(ctx, num_steps=1, before=(replace(good, num_steps=0),))
        assert refused.value.field == "before.num_steps"
        with pytest.raises(MalformedRequest):
            plan(ctx, num_steps=1, before=(replace(good, parameters_json="{}"),))


class TestTable:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("axis", Axis)
    def test_each_row_is_what_asking_for_it_alone_answers(
        self, ctx: Service, kind: str, axis: Axis
    ) -> None:
        rows = plan(ctx, kind, num_steps=30, axis=axis, points=5).points
        assert rows
        for row in rows:
            noise = {"noise_multiplier": row.noise_multiplier}
            if row.num_steps:
                one = plan(ctx, kind, num_steps=row.num_steps, changes=noise)
                assert (one.epsilon_after, one.fits) == (row.epsilon_after, row.fits)

    def test_rows_over_steps_end_with_all_that_is_affordable(self, ctx: Service) -> None:
        found = plan(ctx, points=4)
        assert [row.num_steps for row in found.points][-1] == found.affordable_steps
        assert len(found.points) == 4
        assert sorted(found.points, key=lambda row: row.num_steps) == list(found.points)

    def test_rows_over_an_epsilon_stay_below_it_and_one_step_more_would_not(
        self, ctx: Service
    ) -> None:
        rows = plan(ctx, epsilon=8.0, axis=Axis.EPSILON, points=4).points
        for row, target in zip(rows, (2.0, 4.0, 6.0, 8.0), strict=True):
            assert row.epsilon_after <= target
            assert plan(ctx, num_steps=row.num_steps + 1).epsilon_after > target

    def test_an_epsilon_buys_a_release_less_noise(self, ctx: Service) -> None:
        rows = plan(ctx, "mean-embedding", num_steps=1, axis=Axis.EPSILON, points=5).points
        noise = [row.noise_multiplier for row in rows]
        assert noise == sorted(noise, reverse=True)
        assert all(row.num_steps == 1 and row.fits for row in rows)

    def test_more_noise_never_costs_more(self, ctx: Service) -> None:
        rows = plan(ctx, num_steps=50, axis=Axis.NOISE, points=9).points
        epsilons = [row.epsilon_after for row in rows]
        assert epsilons == sorted(epsilons, reverse=True)
        assert rows[4].noise_multiplier == 30.0  # what was sent, in the middle

    def test_there_are_only_so_many_rows(self, ctx: Service) -> None:
        with pytest.raises(MalformedRequest, match="points"):
            plan(ctx, points=MOST_POINTS + 1)


class TestAdvice:
    def test_too_much_noise_is_told_with_the_noise_that_would_do(self, ctx: Service) -> None:
        (line, *_) = plan(ctx, num_steps=100, points=1).advice
        assert "left unused" in line
        noise = float(line.partition("noise_multiplier ")[2].partition(",")[0])
        enough = plan(ctx, num_steps=100, changes={"noise_multiplier": noise})
        assert enough.fits
        assert enough.epsilon_after > 9.9

    def test_a_plan_that_uses_what_there_is_wastes_nothing(self, ctx: Service) -> None:
        found = plan(ctx, num_steps=100, epsilon=9.0, points=1)
        assert not found.advice

    def test_a_run_that_would_be_refused_says_by_what(self, ctx: Service) -> None:
        assert "rest of the budget affords" in plan(ctx, num_steps=10**7, points=1).advice[0]
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=2.0))
        assert "your share" in plan(ctx, num_steps=10**7, points=1).advice[0]
        _set_policy(ctx, max_steps=3)
        told = plan(ctx, num_steps=10**7, points=1).advice[0]
        assert told == "10,000,000 steps would be refused: max_steps is 3 by the steward's policy"
        _set_policy(ctx, max_epsilon_per_run=1e-3)
        told = plan(ctx, num_steps=10, points=1).advice[0]
        rule, counted, alone = told.partition(
            "; it counts the run alone, by weights of its own, as"
        )
        assert "max_epsilon_per_run 0.001 of the steward's policy affords none" in rule
        assert counted
        assert float(alone.removeprefix(" epsilon ")) > 1e-3

    def test_what_is_in_the_way_of_any_run_is_told(self, ctx: Service) -> None:
        assert plan(ctx, num_steps=2, points=1).fits
        _set_policy(ctx, max_open_runs=1)
        opened(ctx)
        busy = plan(ctx, num_steps=2, points=1)
        assert not busy.fits
        assert "no run would be opened now: 1 of at most 1 runs are open" in busy.advice[0]
        assert plan(ctx, num_steps=2, points=1, caller=BOB).fits
        decide(ctx.runs, StatusSet(dataset=NAME, status=DatasetStatus.PAUSED, reason="a test"))
        paused = plan(ctx, num_steps=2, points=1, caller=BOB)
        assert not paused.fits
        assert paused.advice[0] == (
            "no run would be opened now: the data set is paused by the steward"
        )

    def test_a_total_above_the_rule_for_one_run_is_told_with_what_the_rule_counts(
        self, ctx: Service
    ) -> None:
        most = 0.3
        _set_policy(ctx, max_epsilon_per_run=most)
        found = plan(ctx, points=1)
        assert found.fits
        assert found.epsilon_after > most  # so that the note is needed here
        (note,) = (line for line in found.advice if line.startswith("max_epsilon_per_run 0.3 all"))
        alone, after = (float(part.split()[0].strip(";")) for part in note.split("epsilon ")[1:])
        assert alone <= most
        assert after == pytest.approx(found.epsilon_after, abs=1e-4)
        assert _opens(ctx, found.num_steps, found.noise_multiplier)
        _set_policy(ctx, max_epsilon_per_run=9.9)
        few = plan(ctx, points=1, num_steps=1, caller=BOB)
        assert few.epsilon_after < 9.9
        assert not any("counts the run alone" in line for line in few.advice)

    def test_a_data_set_out_of_service_takes_no_run(self, ctx: Service) -> None:
        assert plan(ctx, num_steps=2, points=1).fits
        datasets = ctx.runs.datasets
        datasets.add(replace(datasets.get(NAME), is_damaged=True))
        found = plan(ctx, num_steps=2, points=1)
        assert not found.fits
        assert found.advice[0].startswith("no run would be opened now: the data set is out of serv")

    def test_of_a_data_set_that_is_gone_nothing_else_is_advised(self, ctx: Service) -> None:
        decide(ctx.runs, StatusSet(dataset=NAME, status=DatasetStatus.RETIRED, reason="a test"))
        found = plan(ctx, changes={"noise_multiplier": 0.01}, points=1)
        assert not found.fits
        assert found.advice == (
            "no run will ever be opened again: the data set is retired by the steward",
        )

    def test_a_share_is_told_with_what_the_run_takes_of_it(self, ctx: Service) -> None:
        assert not any("your share" in line for line in plan(ctx, num_steps=2, points=1).advice)
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=2.0))
        told = plan(ctx, points=1).advice
        (note,) = (line for line in told if "of your share of 2 would be reserved" in line)
        assert 1.5 < float(note.split()[4]) <= 2.0

    def test_a_release_that_does_not_fit_is_told_with_which_noise_it_would(
        self, ctx: Service
    ) -> None:
        little = {"noise_multiplier": 0.05}
        found = plan(ctx, "mean-embedding", num_steps=1, changes=little, points=1)
        assert not found.fits
        assert found.advice[0] == (
            "the release would be refused: the rest of the budget does not afford it"
        )
        assert found.advice[1].startswith("with noise_multiplier ")
        noise = float(found.advice[1].split()[2])
        changes = {"noise_multiplier": noise}
        assert plan(ctx, "mean-embedding", num_steps=1, changes=changes).fits

    def test_what_would_be_left_unused_is_that_of_the_share(self, ctx: Service) -> None:
        decide(ctx.runs, ShareSet(dataset=NAME, analyst="alice", epsilon=2.0))
        found = plan(ctx, num_steps=2, points=1, changes={"noise_multiplier": 500.0})
        assert found.share is not None
        unused = next(line for line in found.advice if "left unused" in line)
        assert 1.5 < float(unused.split()[1]) < 2.0

    def test_a_total_that_is_reached_already_is_said(self, ctx: Service) -> None:
        opened(ctx)
        reserved = ctx.runs.ledger.statement(NAME).reserved_epsilon
        for steps in (None, 3):
            with pytest.raises(
                MalformedRequest, match=f"{reserved:.4f} of it is spent or reserved"
            ):
                plan(ctx, epsilon=reserved / 2, num_steps=steps)

    def test_few_affordable_steps_are_told(self, ctx: Service) -> None:
        little = plan(ctx, changes={"noise_multiplier": 1.5}, points=1)
        assert 0 < little.affordable_steps < 100
        assert any("trains next to nothing" in line for line in little.advice)

    def test_who_asks_for_fewer_has_enough_and_no_rate_that_there_is_not(
        self, ctx: Service
    ) -> None:
        found = plan(ctx, "score", num_steps=4, points=1)
        assert 4 < found.affordable_steps < 100
        assert not any("next to nothing" in line for line in found.advice)
        nothing = plan(ctx, "score", changes=LITTLE, points=1)
        assert nothing.advice[0] == "not one step is affordable: more noise may buy some"

    def test_that_nothing_is_affordable_is_told_and_does_not_fit(self, ctx: Service) -> None:
        nothing = plan(ctx, changes=LITTLE, points=1)
        assert nothing.affordable_steps == nothing.num_steps == 0
        assert not nothing.fits
        assert "not one step is affordable" in nothing.advice[0]

    def test_sampling_that_saves_nothing_is_told(self, ctx: Service) -> None:
        told = plan(ctx, "dp-sinkhorn", changes={"noise_multiplier": 0.3}, points=1).advice
        assert any("sampling saves next to nothing" in line for line in told)
        quiet = plan(ctx, "dp-sinkhorn", changes={"sampling_rate": 0.01}, points=1).advice
        assert not any("sampling saves" in line for line in quiet)

    def test_a_capacity_below_the_expected_sample_is_told(self, ctx: Service) -> None:
        told = plan(ctx, "dp-sinkhorn", changes={"capacity": 2}, points=1).advice
        assert any("most samples are cut" in line for line in told)

    def test_a_capacity_far_above_the_rate_is_told(self, ctx: Service) -> None:
        told = plan(ctx, "dp-sinkhorn", changes={"sampling_rate": 0.01}, points=1).advice
        assert any("far above the rate" in line for line in told)

    def test_a_run_that_takes_everything_is_told(self, ctx: Service) -> None:
        assert any("all that is left" in line for line in plan(ctx, points=1).advice)

    def test_free_steps_are_told(self, ctx: Service) -> None:
        told = plan(ctx, "mean-embedding", num_steps=500, points=1).advice
        assert any("however many" in line for line in told)

    def test_nothing_is_said_unasked(self, ctx: Service) -> None:
        assert plan(ctx, num_steps=10**7).advice == ()


def _opens(ctx: Service, num_steps: int, noise_multiplier: float) -> bool:
    """Return whether OpenRun takes what a plan says."""
    parameters = json.dumps(CRITICS | {"noise_multiplier": noise_multiplier})
    request = RunRequest(
        dataset=NAME, mechanism="gs-wgan-mean", parameters_json=parameters,
        num_steps=num_steps, idempotency_key=f"{num_steps}-{noise_multiplier}".rjust(16, "k"),
    )  # fmt: skip
    try:
        return open_run(ctx, ALICE, request).is_open
    except PolicyRefused:
        return False


def test_a_row_with_less_noise_than_the_policy_allows_does_not_fit(ctx: Service) -> None:
    _set_policy(ctx, min_noise_multiplier=30.0)
    rows = plan(ctx, num_steps=1, points=4, axis=Axis.NOISE).points
    told = {point.noise_multiplier: point.fits for point in rows}
    assert set(told.values()) == {True, False}
    assert told == {noise: _opens(ctx, 1, noise) for noise in told}


def test_another_policy_is_tried_without_being_set(ctx: Service) -> None:
    request = PlanRequest(
        dataset=NAME, mechanism="gs-wgan-mean", parameters_json=json.dumps(CRITICS), alone=False
    )
    tried = StewardPolicy(max_steps=7)
    assert planner(ctx).plan(BOB, request, tried).affordable_steps == 7
    assert planner(ctx).plan(BOB, request).affordable_steps > 7
    with pytest.raises(PolicyRefused, match="min_noise_multiplier"):
        planner(ctx).plan(BOB, request, StewardPolicy(min_noise_multiplier=31.0))


def test_a_run_alone_is_asked_for_by_name(ctx: Service) -> None:
    assert plan(ctx, num_steps=5).epsilon_alone is None
    alone = plan(ctx, num_steps=5, alone=True)
    assert alone.epsilon_alone is not None
    assert 0 < alone.epsilon_alone <= alone.epsilon_after


def test_asking_charges_nothing(ctx: Service) -> None:
    head = ctx.runs.ledger.head()
    for axis in Axis:
        plan(ctx, num_steps=10, epsilon=3.0, axis=axis, points=3)
    assert ctx.runs.ledger.head() == head


def _set_policy(ctx: Service, **rules: Any) -> None:
    policy = StewardPolicy(**rules)
    decide(ctx.runs, PolicySet(dataset=NAME, policy_json=policy.to_text()))
