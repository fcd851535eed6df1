"""A crash in the middle of erasing a data set leaves nothing that remembers its records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from curator.folder import CuratorFolder
from curator.ledger.entries import StatusSet
from curator.ledger.ledger import DatasetStatus
from curator.process.load_datasets import load_datasets
from curator.service.answer_step import release_gradient
from curator.state.folder import StateFolder
from tests.fakes.curator import ALICE, opened, service, step_request

if TYPE_CHECKING:
    from curator.ledger.sql_ledger import SqlLedger


def test_critics_of_an_erased_data_set_end_with_its_images(tmp_path: Path) -> None:
    folder = CuratorFolder(tmp_path)
    ctx = service(states=StateFolder(folder.states))
    run = opened(ctx, "gs-wgan-mean", num_steps=9)
    release_gradient(ctx, ALICE, step_request(run.run_id, 1, 0.5)).result(20)
    assert list(folder.states.rglob("state.safetensors"))
    erased = StatusSet(dataset=run.dataset, status=DatasetStatus.ERASED, reason="asked")
    ctx.runs.ledger.decide(
        erased
    )  # and then the process dies: the run is still open, its files are there
    assert ctx.runs.ledger.run(run.run_id).is_open
    (dataset,) = load_datasets(folder, cast("SqlLedger", ctx.runs.ledger))
    assert dataset.records is None
    assert not (folder.states / run.dataset).exists()
