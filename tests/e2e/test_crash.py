"""Kill -9 at any moment: charged >= delivered, and both sides go on."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analyst.errors import CuratorUnreachable
from curator.clock import utc_now
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.sql_ledger import SqlLedger
from tests.e2e.conftest import (
    EMBEDDING,
    OVER_BOTH_WIRES,
    SINKHORN,
    Process,
    batch,
    credentials,
    digits_folder,
    run_cli,
)

pytestmark = [pytest.mark.e2e, OVER_BOTH_WIRES]

Serve = Callable[..., Process]


def test_the_curator_is_killed_in_the_middle_and_the_run_goes_on(
    tmp_path: Path, serve: Serve
) -> None:
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch()
    received = 0
    with first.connect(patience=60.0) as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=300)
        for _ in range(20):
            run.gradient(images, labels)
            received += 1
        first.kill()
        restarted: list[Process] = []
        starter = threading.Thread(
            target=lambda: restarted.append(serve(folder, grpc_port=first.grpc_port))
        )
        starter.start()
        for _ in range(20):  # the same object rides out the restart
            run.gradient(images, labels)
            received += 1
        starter.join()
        state = barrier.resume_run(run.run_id)
        used = state.next_step - 1
        assert used >= received
        run.close()
        assert barrier.budget("digits").reserved == barrier.budget("digits").spent
    second = restarted[0]
    assert second.terminate() == 0
    ledger = SqlLedger.open_reader(folder.ledger, utc_now)
    (closed,) = ledger.runs()
    assert not closed.is_open
    assert received <= closed.used <= received + 64
    (totals,) = verify_export(export_jsonl(ledger)).totals
    assert totals.spent_epsilon == ledger.statement("digits").spent_epsilon
    assert totals.second_spent_epsilon <= totals.spent_epsilon
    assert totals.second_spent_epsilon == pytest.approx(totals.spent_epsilon, rel=3e-3)
    ledger.close()


@pytest.mark.waits
def test_the_command_finds_a_curator_that_was_gone_for_long(tmp_path: Path, serve: Serve) -> None:
    """With gRPC's older event engine it never did: nobody polls between two attempts."""
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    train = ["train", "--curator", first.target, "--recipe", "dp-sinkhorn-digits"]
    train += ["--credentials", str(credentials(folder, "alice")), "--out", str(tmp_path / "run")]
    train += ["--steps", "200", "--mechanism-noise-multiplier", "6", "--retry-for-s", "60"]
    with subprocess.Popen(
        [sys.executable, "-m", "analyst.cli", *train], stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stderr is not None
        for line in command.stderr:
            if line.startswith("step "):
                first.kill()
            if "does not answer" in line:
                time.sleep(4)  # so that the connection is given up meanwhile
                serve(folder, grpc_port=first.grpc_port)
                break
        rest = command.stderr.read()
    assert command.returncode == 0, rest
    assert "finished" in rest


def test_a_kept_release_survives_and_costs_nothing_more(tmp_path: Path, serve: Serve) -> None:
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch()
    with first.connect() as barrier:
        run = barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=5000)
        before = run.gradient(images, labels)
        spent = barrier.budget("digits").spent
    first.kill()
    with serve(folder).connect() as barrier:
        again = barrier.resume_run(run.run_id)
        assert again.gradient(images, labels).equal(before)
        assert barrier.budget("digits").spent == spent


def test_a_curator_that_is_gone_is_reported_within_seconds(tmp_path: Path, serve: Serve) -> None:
    folder = digits_folder(tmp_path / "curator")
    process = serve(folder)
    images, labels = batch()
    with process.connect(patience=2.0) as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        process.kill()
        started = time.monotonic()
        with pytest.raises(CuratorUnreachable, match=r"No curator (answers|takes steps)"):
            run.gradient(images, labels)
        assert time.monotonic() - started < 20


def test_sigterm_finishes_what_was_begun_and_exits_0(tmp_path: Path, serve: Serve) -> None:
    folder = digits_folder(tmp_path / "curator")
    process = serve(folder)
    with process.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=50)
        for _ in range(5):
            run.gradient(*batch())
    assert process.terminate() == 0
    shown = run_cli("curator", "budget", "--dir", str(folder.root))
    assert " 5 of 50 steps used" in shown.stdout


def test_restarts_in_order_cost_nothing(tmp_path: Path, serve: Serve) -> None:
    """Each process charges blocks ahead of its steps and gives back what it did not begin."""
    folder = digits_folder(tmp_path / "curator")
    process = serve(folder)
    with process.connect(patience=60.0) as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=300)
        for _ in range(3):
            for _ in range(30):
                run.gradient(*batch())
            assert process.terminate() == 0
            process = serve(folder, grpc_port=process.grpc_port)
        run.gradient(*batch())
        assert barrier.resume_run(run.run_id).next_step == 92
    assert process.terminate() == 0
    shown = run_cli("curator", "budget", "--dir", str(folder.root))
    assert " 91 of 300 steps used" in shown.stdout
    ledger = SqlLedger.open_reader(folder.ledger, utc_now)
    assert any(entry.kind == "run-relinquished" for entry in ledger.entries())
    (totals,) = verify_export(export_jsonl(ledger)).totals
    assert totals.spent_epsilon == ledger.statement("digits").spent_epsilon
    ledger.close()
