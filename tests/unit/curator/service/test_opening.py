"""Opening reserves the whole run or nothing; a one-off release is charged once and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from curator.data.sampling import PrivateRecords
from curator.errors import (
    BudgetExhausted,
    CuratorError,
    LedgerUnavailable,
    MalformedRequest,
    NotPermitted,
    RunClosed,
    UnknownDataset,
)
from curator.sanitizer.post_process import release_values
from curator.service.answer_step import release_gradient
from curator.service.find_run import resume_run
from curator.service.limits import ENVELOPE_BYTES, Limits
from curator.service.served_datasets import ServedDatasets
from curator.service.service import Service
from tests.fakes.curator import (
    ALICE,
    BOB,
    SmallLimits,
    memory_ledger,
    opened,
    service,
    step_request,
)


@pytest.fixture
def ctx() -> Service:
    return service()


def test_rows_that_fit_a_message_follow_the_shape_of_images() -> None:
    limits, dimension = Limits(), 3 * 128 * 128
    assert limits.most_rows(28 * 28) == limits.max_samples
    most = limits.most_rows(dimension)
    taken = most * (4 * dimension + 8) + ENVELOPE_BYTES
    assert taken <= limits.max_message_bytes < taken + 4 * dimension + 8
    assert Limits(max_message_mib=1).most_rows(1 << 20) == 0


class TestOpening:
    def test_the_same_key_opens_one_run(self, ctx: Service) -> None:
        assert opened(ctx).run_id == opened(ctx).run_id
        assert len(list(ctx.runs.ledger.runs())) == 1
        with pytest.raises(MalformedRequest, match="another run"):
            opened(ctx, num_steps=6)

    def test_a_step_that_no_message_could_hold_is_refused_at_opening(self, ctx: Service) -> None:
        small = replace(ctx, limits=SmallLimits(message_bytes=4096 + 5 * (4 * 4 + 8)))
        with pytest.raises(MalformedRequest, match=r"at most \d+ fit; .*limits.max_message_mib"):
            opened(small, num_samples=40, num_debias=0)
        assert not list(ctx.runs.ledger.runs())
        with pytest.raises(MalformedRequest, match=r"at most 7 fit; .*limits.max_samples"):
            opened(replace(ctx, limits=SmallLimits(max_samples=7)), num_samples=40, num_debias=0)

    def test_another_caller_s_key_is_another_run(self, ctx: Service) -> None:
        assert opened(ctx).run_id != opened(ctx, caller=BOB).run_id

    def test_more_than_the_budget_is_refused_with_the_numbers(self, ctx: Service) -> None:
        opened(ctx, num_steps=5)
        with pytest.raises(BudgetExhausted) as caught:
            opened(ctx, num_steps=10**6, key="b" * 16, caller=BOB)
        numbers = caught.value.numbers
        assert numbers.asked > numbers.budget == 10.0
        assert numbers.remaining == pytest.approx(numbers.budget - numbers.reserved)
        assert len(list(ctx.runs.ledger.runs())) == 1

    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"sampling_rate": 0.6}, NotPermitted),
            ({"capacity": 9}, NotPermitted),
            ({"noise_multiplier": float("1e-9")}, MalformedRequest),
            ({"noise_multiplier": "1"}, MalformedRequest),
            ({"epsilon": 1}, MalformedRequest),
            ({"num_steps": 0}, MalformedRequest),
            ({"num_steps": 10**10}, MalformedRequest),
            ({"key": "short"}, MalformedRequest),
        ],
    )
    def test_bad_parameters_are_refused_and_reserve_nothing(
        self, ctx: Service, changes: dict[str, Any], error: type[CuratorError]
    ) -> None:
        with pytest.raises(error):
            opened(ctx, **changes)
        assert list(ctx.runs.ledger.runs()) == []

    def test_an_unknown_data_set(self, ctx: Service) -> None:
        nothing = replace(ctx.runs, datasets=ServedDatasets())
        with pytest.raises(UnknownDataset):
            opened(replace(ctx, runs=nothing))


class TestReleaseOnce:
    def test_the_release_is_charged_kept_and_reused_after_a_restart(self) -> None:
        ledger = memory_ledger()
        first = service(ledger)
        run = opened(first, "mean-embedding", num_steps=100)
        assert ledger.run(run.run_id).setup_begun
        request = step_request(run.run_id, 1)
        before = release_gradient(first, ALICE, request).result(10).release
        payload = ledger.setup_payload(run.run_id)
        second = service(ledger, holder="second")
        _, next_step = resume_run(second.runs, ALICE, run.run_id)
        again = release_gradient(second, ALICE, step_request(run.run_id, next_step)).result(10)
        assert release_values(again.release).equal(release_values(before))
        assert ledger.setup_payload(run.run_id) == payload
        assert ledger.statement("small").spent_epsilon == again.spent_epsilon

    def test_a_release_lost_in_a_crash_is_never_noised_again_for_free(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = memory_ledger()

        class Crash(BaseException):
            """The process dies after the charge and before the release is kept."""

        def crash(*_: Any) -> None:
            raise Crash

        monkeypatch.setattr(ledger, "store_setup", crash)
        with pytest.raises(Crash):
            opened(service(ledger), "mean-embedding")
        monkeypatch.undo()
        (run,) = ledger.runs()
        assert run.setup_begun
        spent = ledger.statement("small").spent_epsilon
        assert spent > 0
        with pytest.raises(RunClosed, match="lost"):
            resume_run(service(ledger, holder="second").runs, ALICE, run.run_id)
        assert not ledger.run(run.run_id).is_open
        assert ledger.statement("small").spent_epsilon == spent

    def test_a_failing_release_is_opaque_charged_and_ends_the_run(
        self, ctx: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise OSError("/data/patient-17.png")

        monkeypatch.setattr(PrivateRecords, "batches", fail)
        with pytest.raises(CuratorError) as caught:
            opened(ctx, "mean-embedding")
        assert "patient" not in str(caught.value)
        (run,) = ctx.runs.ledger.runs()
        assert not run.is_open
        assert ctx.runs.ledger.statement("small").spent_epsilon > 0


def test_a_setup_that_could_not_be_charged_costs_nothing_and_ends_the_run(
    ctx: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise LedgerUnavailable

    monkeypatch.setattr(ctx.runs.ledger, "begin_setup", fail)
    with pytest.raises(CuratorError):
        opened(ctx, "mean-embedding")
    monkeypatch.undo()
    (run,) = ctx.runs.ledger.runs()
    assert not run.is_open
    assert ctx.runs.ledger.statement("small").reserved_epsilon == 0.0


def test_a_run_that_could_never_send_a_step_is_not_opened(ctx: Service) -> None:
    with pytest.raises(MalformedRequest, match="at most 64 fit"):
        opened(ctx, num_samples=60, num_debias=5)
    assert list(ctx.runs.ledger.runs()) == []
