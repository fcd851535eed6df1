"""A data set whose stored images are damaged takes no step, costs nothing, and keeps its runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from curator.data.sampling import PrivateRecords
from curator.data.store import open_store, write_store
from curator.errors import DatasetOutOfService, RunClosed
from curator.folder import initialise
from curator.ledger.datasets_and_runs import DatasetRegistration
from curator.process.load_datasets import load_datasets
from curator.service.answer_step import release_gradient
from curator.service.find_run import resume_run
from curator.service.open_run import open_run
from curator.service.served_datasets import ServedDataset
from curator.service.service import Service
from tests.fakes.curator import ALICE, memory_ledger, opened, service, small_images, step_request
from tests.fakes.facts import small_facts
from tests.unit.curator.service.test_releases_in_progress import request

if TYPE_CHECKING:
    from curator.ledger.sql_ledger import SqlLedger

Damage = Callable[[], None]


def served(tmp_path: Path) -> tuple[Service, Damage]:
    """Return a curator that serves stored images, and what cuts their file."""
    write_store(tmp_path / "small", small_images())
    records = PrivateRecords(open_store(tmp_path / "small"), 5)
    return service(records=records), lambda: os.truncate(tmp_path / "small" / "levels.npy", 130)


def spent(ctx: Service) -> float:
    return ctx.runs.ledger.statement("small").spent_epsilon


def test_a_step_is_refused_before_it_is_charged_and_the_run_stays_open(tmp_path: Path) -> None:
    ctx, damage = served(tmp_path)
    run = opened(ctx)
    release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    before = spent(ctx)
    damage()
    with pytest.raises(DatasetOutOfService):
        release_gradient(ctx, ALICE, step_request(run.run_id, 2))
    with pytest.raises(DatasetOutOfService):
        opened(ctx, key="b" * 16)
    assert spent(ctx) == before
    assert ctx.runs.ledger.run(run.run_id).is_open
    assert len(list(ctx.runs.ledger.runs())) == 1
    assert not ctx.runs.datasets.is_in_service("small")


def test_a_run_of_it_is_not_taken_over(tmp_path: Path) -> None:
    first, damage = served(tmp_path)
    run = opened(first)
    damage()
    second = replace(first.runs, holder="second", live={})
    with pytest.raises(DatasetOutOfService):
        resume_run(second, ALICE, run.run_id)
    assert first.runs.ledger.run(run.run_id).holder == "first"


def test_a_step_that_was_charged_before_the_cut_is_answered_with_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is cut between the charge and the copy: the analyst sees an ordinary answer."""
    ctx, damage = served(tmp_path)
    run, records = opened(ctx), ctx.runs.datasets.records("small")
    real = records.poisson_batch
    seen = []

    def late(*arguments: Any) -> Any:
        damage()
        seen.append(real(*arguments))
        return seen[-1]

    monkeypatch.setattr(ctx.runs.live[run.run_id].records, "poisson_batch", late)
    answer = release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    assert answer.step == 1
    assert spent(ctx) > 0
    assert not bool(seen[0].unseal().mask_M.any())
    with pytest.raises(DatasetOutOfService):
        release_gradient(ctx, ALICE, step_request(run.run_id, 2))


@pytest.mark.parametrize("batch", [0, 1])
def test_a_release_that_is_being_made_ends_for_a_public_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    ctx, damage = served(tmp_path)
    real, taken = PrivateRecords._gather, list[int]()

    def gather(self: PrivateRecords, *arguments: Any) -> Any:
        if len(taken) == batch:
            damage()
        taken.append(1)
        return real(self, *arguments)

    monkeypatch.setattr(PrivateRecords, "_gather", gather)
    with pytest.raises(RunClosed, match="stored images of the data set were damaged"):
        open_run(ctx, ALICE, request())
    (run,) = ctx.runs.ledger.runs()
    assert not run.is_open
    assert "damaged" in run.close_reason


@pytest.mark.parametrize("name", ["levels.npy", "labels.npy", "manifest.json"])
def test_at_a_start_a_damaged_set_is_out_of_service_and_the_others_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    folder = initialise(tmp_path / "curator")
    ledger = memory_ledger(small_facts(name="whole"))
    facts = small_facts(name="cut")
    ledger.register_dataset(
        DatasetRegistration(
            name="cut",
            budget=facts.budget,
            adjacency=facts.adjacency,
            facts_json=facts.model_dump_json(),
        )
    )
    for one in ("whole", "cut"):
        write_store(folder.images(one), small_images())
    os.truncate(folder.images("cut") / name, 50)
    loaded = load_datasets(folder, cast("SqlLedger", ledger))
    datasets = {one.facts.name: one for one in loaded}
    assert datasets["whole"].is_in_service
    assert datasets["whole"].records is not None
    assert not datasets["cut"].is_in_service
    told = [one.getMessage() for one in caplog.records if "out of service" in one.getMessage()]
    assert len(told) == 1
    assert "cut" in told[0]
    assert "restore" in told[0]


def test_an_erased_set_is_not_called_damaged() -> None:
    assert ServedDataset(facts=small_facts(), records=None).is_in_service
