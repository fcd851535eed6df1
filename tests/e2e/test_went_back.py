"""The database goes back under two curators of which one is idle: no budget is sold twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analyst.errors import AnalystError
from curator.accounting.cost import Cost
from curator.administration.open_ledger import open_ledger, open_ledger_reader
from curator.cli import main
from curator.config import URL_VARIABLE, CuratorConfig
from curator.folder import CuratorFolder, initialise
from curator.ledger.problems import LedgerRestored
from tests.contract.postgres_server import Server, own_server
from tests.e2e.conftest import SINKHORN, Process, another_digits_folder, batch

pytestmark = [pytest.mark.e2e, pytest.mark.waits]

Serve = Callable[..., Process]
STEP = {**SINKHORN, "noise_multiplier": 1.5}  # of which the budget affords some dozens
ROUNDS = 20  # of trying to buy again, with a patience of a second each


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture
def folders(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[CuratorFolder, CuratorFolder]:
    monkeypatch.setenv(URL_VARIABLE, server.fresh())
    first = CuratorFolder(tmp_path / "first")
    open_ledger(initialise(first.root), CuratorConfig()).close()
    another_digits_folder(first.root, epsilon=1.0)
    shutil.copytree(first.root, tmp_path / "second")
    return first, CuratorFolder(tmp_path / "second")


def head(folder: CuratorFolder) -> int:
    return int(json.loads((folder.root / "ledger-head.json").read_text())["seq"])


def buy(curator: Process, num_steps: int, timeout: float = 10.0) -> int:
    """Open a run and take all its steps, as far as the curator lets us; return how many."""
    images, labels = batch()
    taken = 0
    try:
        with curator.connect(timeout=timeout, patience=1.0) as barrier:
            run = barrier.open_run("digits", "dp-sinkhorn", STEP, num_steps=num_steps)
            for _ in range(num_steps):
                run.gradient(images, labels)
                taken += 1
    except AnalystError:
        pass
    return taken


def affordable(folder: CuratorFolder) -> int:
    """Return how many of the steps that were bought the whole budget affords."""
    ledger = open_ledger_reader(folder, CuratorConfig())
    step = next(ledger.runs()).step
    most = ledger.account("digits").rule.affordable_steps(Cost.zero(), Cost.zero(), step, 10**6)
    ledger.close()
    return most


@pytest.mark.parametrize("fault", ["put back", "failed over"])
def test_two_curators_sell_a_budget_once(
    server: Server, folders: tuple[CuratorFolder, CuratorFolder], serve: Serve, fault: str
) -> None:
    busy, idle = serve(folders[0]), serve(folders[1])
    assert buy(busy, 1) == 1
    most = affordable(folders[0])
    server.make_standby("standby") if fault == "failed over" else server.copy("copy")
    delivered = 1 + buy(busy, most - 1)
    assert delivered == most
    heads = [head(folder) for folder in folders]

    server.fail_over_to("standby") if fault == "failed over" else server.put_back("copy")
    for _ in range(ROUNDS):
        delivered += sum(buy(curator, most - 1, timeout=1.0) for curator in (idle, busy))
        later = [head(folder) for folder in folders]
        assert all(now >= before for now, before in zip(later, heads, strict=True))
        heads = later
        if idle.process.poll() is not None and busy.process.poll() is not None:
            break
    assert delivered == most
    assert (busy.process.wait(30), idle.process.wait(30)) == (3, 3)

    for folder in folders:
        with pytest.raises(LedgerRestored):
            open_ledger(folder, CuratorConfig())
    accept = ["ledger", "accept-restored", "--reason", "test", "--dir"]
    assert main([*accept, str(folders[0].root)]) == 0
    assert main([*accept, str(folders[1].root)]) in {0, 1}  # 1 if it knew no more than the copy
    open_ledger(folders[0], CuratorConfig()).close()
    ledger = open_ledger(folders[1], CuratorConfig())
    step = next(ledger.runs()).step
    assert ledger.account("digits").numbers(step).asked > ledger.statement("digits").cap
    ledger.close()
