"""The one release of a run can be fetched by its owner, for nothing, as often as asked."""

from __future__ import annotations

from typing import Any

import pytest

from curator.data.sampling import PrivateRecords
from curator.errors import MalformedRequest, RunClosed, UnknownRun
from curator.rpc.release_codec import encode_release
from curator.sanitizer.post_process import release_values
from curator.service.end_runs import close_run
from curator.service.one_release import download_release
from curator.service.service import Service
from tests.fakes.curator import ALICE, BOB, STEWARD, memory_ledger, opened, service


@pytest.fixture
def ctx() -> Service:
    return service()


def test_the_same_numbers_every_time_without_a_charge_or_a_look(
    ctx: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(ctx, "mean-embedding")
    before = ctx.runs.ledger.head(), ctx.runs.ledger.statement("small")

    def look(*_: Any) -> None:
        raise AssertionError("a private record was read")

    monkeypatch.setattr(PrivateRecords, "batches", look)
    state, release = download_release(ctx.runs, ALICE, run.run_id)
    _, again = download_release(service(ctx.runs.ledger, holder="second").runs, ALICE, run.run_id)
    assert state.run_id == run.run_id
    assert release_values(release).equal(release_values(again))
    assert release_values(release).shape == (3, 9)
    close_run(ctx.runs, ALICE, run.run_id)
    _, closed = download_release(ctx.runs, ALICE, run.run_id)
    assert release_values(release).equal(release_values(closed))
    assert ctx.runs.ledger.statement("small").spent_epsilon == before[1].spent_epsilon
    message = encode_release(state, release)
    assert (message.run_id, message.choice.mechanism) == (run.run_id, "mean-embedding")
    assert [list(block.values.shape) for block in message.blocks] == [[3, 9]]


@pytest.mark.parametrize("caller", [BOB, STEWARD])
def test_only_the_owner_may_download(ctx: Service, caller: Any) -> None:
    run = opened(ctx, "mean-embedding")
    with pytest.raises(UnknownRun):
        download_release(ctx.runs, caller, run.run_id)
    with pytest.raises(UnknownRun):
        download_release(ctx.runs, caller, "0" * 32)


def test_a_mechanism_that_pays_per_step_has_no_release(ctx: Service) -> None:
    run = opened(ctx)
    with pytest.raises(MalformedRequest, match="no release"):
        download_release(ctx.runs, ALICE, run.run_id)


def test_a_release_that_was_lost_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(BaseException):
        """The process dies after the charge and before the release is kept."""

    def crash(*_: Any) -> None:
        raise Crash

    ledger = memory_ledger()
    monkeypatch.setattr(ledger, "store_setup", crash)
    with pytest.raises(Crash):
        opened(service(ledger), "mean-embedding")
    monkeypatch.undo()
    (run,) = ledger.runs()
    with pytest.raises(RunClosed, match="lost"):
        download_release(service(ledger, holder="second").runs, ALICE, run.run_id)
