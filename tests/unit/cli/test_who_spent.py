"""'ledger show', and 'ledger verify' of an export alone, say who spent what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from curator.accounting.events.none import NoEvent
from curator.administration.open_ledger import open_ledger
from curator.cli import main
from curator.config import CuratorConfig
from curator.folder import initialise
from curator.ledger.datasets_and_runs import NOTHING, DatasetStatus
from curator.ledger.entries import ShareSet, StatusSet
from curator.ledger.export import export_jsonl
from curator.ledger.memory import MemoryLedger
from curator.privacy.budget import Budget
from tests.contract.ledger_values import SETUP, opening, registration
from tests.fakes.clock import FakeClock


def test_each_analyst_and_run_is_shown_alone_and_all_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = initialise(tmp_path / "weir")
    ledger = open_ledger(folder, CuratorConfig())
    ledger.register_dataset(registration())
    ledger.open_run(opening("r", 40), "h")
    ledger.advance_mark("r", "h", 1, 20)
    ledger.open_run(opening("s", 30, analyst="bob"), "h")
    ledger.advance_mark("s", "h", 1, 30)
    ledger.close_run("s", "h", 1, 30, "done")
    ann, bob = ledger.spends("d")
    together = ledger.statement("d").spent_epsilon
    ledger.close()
    assert main(["ledger", "show", "--dir", str(folder.root)]) == 0
    said = capsys.readouterr().out
    assert f"d: epsilon {together:.4f} spent" in said
    for one in (ann, bob):
        assert f"{one.analyst} alone: epsilon {one.spent_epsilon:.4f} spent" in said
    assert f"20 of 40 steps used, epsilon {ann.spent_epsilon:.4f} alone" in said
    assert f", epsilon {bob.spent_epsilon:.4f} alone" in said
    assert said.count("do not add up to what all spent together") == 1
    assert main(["ledger", "show", "--dir", str(folder.root), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["datasets"]
    assert [one["analyst"] for one in shown["analysts"]] == ["ann", "bob"]
    alone = {run["run_id"]: run["epsilon_spent_alone"] for run in shown["runs"]}
    assert alone == {"r": ann.spent_epsilon, "s": bob.spent_epsilon}


@pytest.mark.parametrize("status", [DatasetStatus.RETIRED, DatasetStatus.ERASED])
def test_what_is_over_has_nothing_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: DatasetStatus
) -> None:
    folder = initialise(tmp_path / "weir")
    ledger = open_ledger(folder, CuratorConfig())
    ledger.register_dataset(registration())
    ledger.decide(StatusSet(dataset="d", status=DatasetStatus.PAUSED, reason="first"))
    at = ["--dir", str(folder.root)]
    for command in (["budget"], ["ledger", "show"]):
        assert main([*command, *at]) == 0
        assert " left of " in capsys.readouterr().out
    ledger.decide(StatusSet(dataset="d", status=status, reason="over"))
    ledger.close()
    for command in (["budget"], ["ledger", "show"]):
        assert main([*command, *at]) == 0
        said = capsys.readouterr().out
        assert f"{status}, so nothing can be spent any more" in said
        assert " left of " not in said


def test_one_release_is_not_counted_in_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = initialise(tmp_path / "weir")
    ledger = open_ledger(folder, CuratorConfig())
    ledger.register_dataset(registration())
    for run_id in ("made", "open", "lost"):
        ledger.open_run(opening(run_id, 100, setup=SETUP, step=NoEvent()), "h")
    for run_id in ("made", "open"):
        ledger.begin_setup(run_id, "h", 1)
        ledger.advance_mark(run_id, "h", 1, 100)
    ledger.close_run("made", "h", 1, 100, "done")
    ledger.close_run("lost", "h", 1, 0, "stopped")
    ledger.close()
    assert main(["ledger", "show", "--dir", str(folder.root)]) == 0
    said = capsys.readouterr().out
    assert "run made of ann: m, its one release used, closed 20" in said
    assert "run open of ann: m, its one release used, epsilon" in said
    assert "run lost of ann: m, its one release not used, closed 20" in said
    assert "(stopped), epsilon 0.0000 alone" in said
    assert "of 100 steps" not in said


def test_an_export_alone_says_who_spent_what_of_which_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = MemoryLedger(FakeClock())
    ledger.register_dataset(registration())
    ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=2.5))
    ledger.open_run(opening("r", 40), "h")
    ledger.advance_mark("r", "h", 1, 20)
    ledger.close_run("r", "h", 1, 20, "done")
    ledger.open_run(opening("s", 30, analyst="bob"), "h")
    ann, bob = ledger.spends("d")
    account = ledger.share("d", "ann")
    assert account is not None
    share = account.numbers(NOTHING).spent
    export = tmp_path / "ledger.jsonl"
    export.write_text("\n".join(export_jsonl(ledger)) + "\n")
    assert main(["ledger", "verify", str(export)]) == 0
    said = capsys.readouterr().out
    assert "promised: epsilon 3 at delta 1e-06, add-or-remove-one-record, over all runs" in said
    for one in (ann, bob):
        assert f"{one.analyst} alone: epsilon {one.spent_epsilon:.4f} spent" in said
    assert f"share of ann: epsilon 2.5, of which {share:.4f} spent" in said
    assert "run r of" not in said
    assert main(["ledger", "verify", str(export), "--runs"]) == 0
    said = capsys.readouterr().out
    assert "run r of ann: " in said
    assert "(done), epsilon" in said
    assert "run s of bob: " in said
    assert main(["ledger", "verify", str(export), "--runs", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert [one["spent_epsilon"] for one in told["analysts"]] == [
        ann.spent_epsilon,
        bob.spent_epsilon,
    ]
    assert [run["run_id"] for run in told["runs"]] == ["r", "s"]


def test_what_is_spent_of_a_share_stands_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = initialise(tmp_path / "weir")
    ledger = open_ledger(folder, CuratorConfig())
    ledger.register_dataset(replace(registration(), budget=Budget(epsilon=10.0, delta=1e-5)))
    ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=2.5))
    ledger.open_run(opening("r", 40), "h")
    ledger.advance_mark("r", "h", 1, 20)
    account, (alone,) = ledger.share("d", "ann"), ledger.spends("d")
    ledger.close()
    assert account is not None
    numbers = account.numbers(NOTHING)
    assert numbers.spent != alone.spent_epsilon  # by weights of its own, which has to be said
    assert main(["ledger", "show", "--dir", str(folder.root)]) == 0
    said = capsys.readouterr().out
    assert f"epsilon 2.5, of which {numbers.spent:.4f} spent, {numbers.reserved:.4f} with" in said
    assert "by weights of its own" in said
