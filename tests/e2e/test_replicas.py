"""Two curators over one PostgreSQL ledger: a run has one holder, whoever is killed or paused."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analyst.errors import AnalystError, CuratorUnreachable
from curator.administration.channel import send
from curator.administration.commands import Retire
from curator.administration.open_ledger import open_ledger, open_ledger_reader
from curator.config import URL_VARIABLE, CuratorConfig
from curator.folder import CuratorFolder, initialise
from curator.ledger.export import export_jsonl, verify_export
from tests.contract.postgres_server import postgres_or_skip
from tests.e2e.conftest import SINKHORN, Process, another_digits_folder, batch

pytestmark = pytest.mark.e2e

Serve = Callable[..., Process]
LEASE = 2.0


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[CuratorFolder, CuratorFolder]:
    """Two folders with the same images and identities, and one ledger in a database."""
    monkeypatch.setenv(URL_VARIABLE, postgres_or_skip().fresh())
    first = CuratorFolder(tmp_path / "first")
    open_empty_ledger(first.root)
    another_digits_folder(first.root)
    config = first.config.read_text()
    first.config.write_text(config.replace("lease_seconds = 15.0", f"lease_seconds = {LEASE}"))
    shutil.copytree(first.root, tmp_path / "second")
    return first, CuratorFolder(tmp_path / "second")


def open_empty_ledger(root: Path) -> None:
    open_ledger(initialise(root), CuratorConfig()).close()


def verified(folder: CuratorFolder) -> float:
    ledger = open_ledger_reader(folder, CuratorConfig())
    ledger.verify()
    (totals,) = verify_export(export_jsonl(ledger)).totals
    ledger.close()
    return totals.spent_epsilon


def repeat(times: int, call: Callable[[], object]) -> None:
    for _ in range(times):
        call()


def eventually(call: Callable[[], object], seconds: float = 30.0) -> object:
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except CuratorUnreachable:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_another_replica_takes_over_after_a_kill(
    folders: tuple[CuratorFolder, CuratorFolder], serve: Serve
) -> None:
    first, second = serve(folders[0]), serve(folders[1])
    images, labels = batch()
    with first.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=100)
        for _ in range(10):
            run.gradient(images, labels)
        with second.connect(patience=1.0) as other, pytest.raises(CuratorUnreachable):
            other.resume_run(run.run_id)  # its holder is alive
        first.kill()
    with second.connect() as other:
        again = eventually(lambda: other.resume_run(run.run_id))
        assert again.next_step > 10  # type: ignore[attr-defined]
        again.gradient(images, labels)  # type: ignore[attr-defined]
        again.close()  # type: ignore[attr-defined]
        spent = other.budget("digits").spent
    assert second.terminate() == 0
    assert verified(folders[1]) == spent


def test_another_replica_takes_over_at_once_after_a_stop_in_order(
    folders: tuple[CuratorFolder, CuratorFolder], serve: Serve
) -> None:
    first, second = serve(folders[0]), serve(folders[1])
    images, labels = batch()
    with first.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=100)
        repeat(10, lambda: run.gradient(images, labels))
        assert first.terminate() == 0
    with second.connect(patience=0.0) as other:
        again = other.resume_run(run.run_id)
        assert again.next_step == 11
        again.gradient(images, labels)
        again.close()
        assert again.next_step == 12
        spent = other.budget("digits").spent
    assert second.terminate() == 0
    assert verified(folders[1]) == spent


def test_a_paused_holder_that_wakes_up_releases_and_refunds_nothing(
    folders: tuple[CuratorFolder, CuratorFolder], serve: Serve
) -> None:
    first, second = serve(folders[0]), serve(folders[1])
    images, labels = batch()
    barrier = first.connect(patience=2.0)
    run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=400)
    for _ in range(10):
        run.gradient(images, labels)
    first.process.send_signal(signal.SIGSTOP)
    with second.connect() as other:
        again = eventually(lambda: other.resume_run(run.run_id))
        mark = again.next_step - 1  # type: ignore[attr-defined]
        assert mark >= 10
        for _ in range(3):
            again.gradient(images, labels)  # type: ignore[attr-defined]
        first.process.send_signal(signal.SIGCONT)
        with pytest.raises(AnalystError):
            run.gradient(images, labels)
        with pytest.raises(AnalystError):
            run.close()
        assert first.process.wait(30) == 1  # it says so and leaves
        state = other.resume_run(run.run_id)
        assert state.next_step == mark + 4
        state.gradient(images, labels)
        state.close()  # else steps that were charged ahead come back when it stops
        spent = other.budget("digits").spent
    assert second.terminate() == 0
    assert verified(folders[1]) == pytest.approx(spent)


def test_what_one_replica_is_told_holds_for_the_other(
    folders: tuple[CuratorFolder, CuratorFolder], serve: Serve
) -> None:
    first, second = serve(folders[0]), serve(folders[1])
    images, labels = batch()
    with first.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=400)
        run.gradient(images, labels)
        send(second.folder.socket, Retire(dataset="digits", reason="told to the other one"))
        with pytest.raises(AnalystError, match="retired"):
            repeat(300, lambda: run.gradient(images, labels))
    ledger = open_ledger_reader(folders[0], CuratorConfig())
    assert ledger.run(run.run_id).used < 300
    ledger.close()
    assert first.terminate() == 0
