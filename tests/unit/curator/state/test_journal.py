"""The journal of a run when the disk is full: what was answered later is still read."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from curator.privacy.batches import Samples
from curator.service.answer_step import release_gradient
from curator.state.folder import StateFolder
from curator.state.journal import Journal
from tests.fakes.curator import ALICE, memory_ledger, opened, service, step_request
from tests.fakes.noise import NoNoise


def samples(value: float) -> Samples:
    return Samples(images_ND=torch.full((3, 6), value), labels_N=torch.zeros(3, dtype=torch.int64))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 20, 100])
def test_an_entry_that_does_not_fit_does_not_hide_those_after_it(tmp_path: Path, room: int) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.start()
    journal.append(1, samples(0.1))
    whole = path.stat().st_size
    with files_of_at_most(whole + room), pytest.raises(OSError, match=r"large|space"):
        journal.append(2, samples(0.2))
    assert path.stat().st_size == whole
    journal.append(3, samples(0.3))
    entries = journal.read()
    assert [entry.step for entry in entries] == [1, 3]
    assert torch.equal(entries[1].samples.images_ND, samples(0.3).images_ND)


def test_a_run_whose_folder_was_made_and_no_more_begins_there(tmp_path: Path) -> None:
    ledger = memory_ledger()
    first = service(ledger, holder="first", states=StateFolder(tmp_path))
    run_id = opened(first, "gs-wgan-mean", num_steps=9).run_id
    for path in tmp_path.rglob("journal"):
        path.unlink()  # as if the process had died before it was made
    second = service(ledger, holder="second", states=StateFolder(tmp_path))
    assert release_gradient(second, ALICE, step_request(run_id, 1, 0.5)).result(20).step == 1


def test_a_step_is_answered_though_the_state_does_not_fit(tmp_path: Path) -> None:
    ctx = service(memory_ledger(), noise=NoNoise(), states=StateFolder(tmp_path))
    run_id = opened(ctx, "gs-wgan-mean", num_steps=9).run_id
    with files_of_at_most(1 << 10):  # room for what was asked, and for no critics
        assert release_gradient(ctx, ALICE, step_request(run_id, 1, 0.5)).result(20).step == 1
    assert release_gradient(ctx, ALICE, step_request(run_id, 2, 0.5)).result(20).step == 2
    assert list(tmp_path.rglob("state.safetensors"))
