"""Two real curators with disjoint halves of the digits: losses, small budgets, exact ledgers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from analyst.certificate import check_certificate
from analyst.cli import ExitCode, main
from analyst.client.credentials import load_credentials
from analyst.embedding.file import load_embedding
from analyst.errors import CuratorUnreachable
from analyst.recipes import Recipe, load_recipe
from analyst.training.checkpoint import Manifest, checkpoint_store
from analyst.training.federation.config import MemberConfig
from analyst.training.federation.federation import Federation
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.members import Member
from analyst.training.federation.rounds import Combine, OnLoss, Rule
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, SessionResult, resume_session, run_session
from curator.administration.add_dataset import add_dataset
from curator.clock import utc_now
from curator.folder import CuratorFolder, initialise
from curator.ledger.datasets_and_runs import RunState
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.sql_ledger import SqlLedger
from tests.e2e.conftest import Process, credentials
from tests.fakes.adaptation import table, toml, write_digits
from tests.fakes.facts import small_facts

pytestmark = pytest.mark.e2e

Serve = Callable[..., Process]
STEPS, KILLED_AT, MOST_AHEAD = 60, 11, 64
RECIPE: dict[str, Any] = {
    "mechanism.noise_multiplier": 3.0,
    "mechanism.num_samples": 10,
    "mechanism.num_debias": 2,
    "generator.width": 8,
    "training.steps": STEPS,
    "session.retry_for_s": 2.0,
    "session.checkpoint_every": 5,
    "session.metrics_every": 1,
}


def half_folder(root: Path, part: int, *, epsilon: float = 10.0) -> CuratorFolder:
    """Make a curator's folder with every second digit."""
    images, labels = load_digits(return_X_y=True)
    source = root.with_suffix(".npz")
    np.savez(
        source,
        images=images.reshape(-1, 8, 8).astype(np.uint8)[part::2],
        labels=labels[part::2],
    )
    folder = initialise(root)
    facts = small_facts(
        name="digits",
        height=8,
        width=8,
        classes=tuple("0123456789"),
        nominal_size=900,
        max_size=1000,
        sampling_rate=40 / 900,
        capacity=96,
        epsilon=epsilon,
        delta=1e-4,
    )
    add_dataset(folder, facts, str(source))
    folder.add_analyst("alice")
    return folder


class KillingStop:
    """Asks for nothing, and does something before one of the rounds."""

    def __init__(self, before_round: int, action: Callable[[], None]) -> None:
        self._rounds, self._before, self._action = 0, before_round, action

    @property
    def asked(self) -> bool:
        self._rounds += 1
        if self._rounds == self._before:
            self._action()
        return False

    def wait(self, seconds: float) -> bool:
        return seconds < 0  # no sleep: the client itself waits for its patience


@dataclass(kw_only=True)
class Pair:
    """Two curators in processes of their own, and where a run lives."""

    out: Path
    folders: list[CuratorFolder]
    processes: list[Process]
    said: list[str]

    @contextmanager
    def federation(self, recipe: Recipe, on_loss: str) -> Iterator[Federation]:
        barriers = [process.connect(patience=1.0) for process in self.processes]
        members = [
            Member(config=MemberConfig(address=f"site-{k}:1", name=f"site-{k}"), barrier=barrier)
            for k, barrier in enumerate(barriers)
        ]
        rule = Rule(
            combine=Combine.MEAN, on_loss=OnLoss(on_loss), patience_s=recipe.session.retry_for_s
        )
        folder = FederationFolder(self.out)
        with Federation(
            members, rule, recipe.mechanism.parameters, folder=folder, say=self.said.append
        ) as federation:
            yield federation
        for barrier in barriers:
            barrier.close()

    def start(self, recipe: Recipe, on_loss: str, stop: KillingStop) -> SessionResult:
        with self.federation(recipe, on_loss) as federation:
            options, progress = SessionOptions(out=self.out), Progress(io.StringIO())
            return run_session(federation, recipe, options, progress, stop)

    def resume(self, recipe: Recipe) -> SessionResult:
        manifest = self.manifest()
        with self.federation(recipe, "stop") as federation:
            federation.reached(manifest.next_step, manifest.num_steps)
            options, progress = SessionOptions(out=self.out), Progress(io.StringIO())
            return resume_session(federation, {}, options, progress, KillingStop(0, _nothing))

    def manifest(self) -> Manifest:
        return checkpoint_store(self.out).load()[1]

    def ledger(self, position: int) -> RunState:
        """Return the one run of a curator, after its ledger was checked as an auditor would."""
        ledger = SqlLedger.open_reader(self.folders[position].ledger, utc_now)
        (run,) = ledger.runs()
        (totals,) = verify_export(export_jsonl(ledger)).totals
        assert totals.spent_epsilon == ledger.statement("digits").spent_epsilon
        assert totals.second_spent_epsilon == pytest.approx(totals.spent_epsilon, rel=3e-3)
        ledger.close()
        return run

    def access(self) -> list[str]:
        options: list[str] = []
        for process, folder in zip(self.processes, self.folders, strict=True):
            options += ["--curator", f"localhost:{process.grpc_port}"]
            options += ["--credentials", str(credentials(folder, "alice"))]
        return options


def _nothing() -> None: ...


@pytest.fixture
def pair(tmp_path: Path, serve: Serve) -> Callable[..., Pair]:
    def make(*epsilons: float) -> Pair:
        folders = [
            half_folder(tmp_path / f"curator-{k}", k, epsilon=epsilon)
            for k, epsilon in enumerate(epsilons)
        ]
        processes = [serve(folder) for folder in folders]
        return Pair(out=tmp_path / "run", folders=folders, processes=processes, said=[])

    return make


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("dp-sinkhorn-digits", RECIPE)


def test_one_is_killed_and_training_goes_on_with_the_other(
    pair: Callable[..., Pair], recipe: Recipe, serve: Serve
) -> None:
    both = pair(10.0, 10.0)
    stop = KillingStop(KILLED_AT, both.processes[1].kill)
    result = both.start(recipe, "continue", stop)
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, STEPS)
    assert any("site-1 is lost" in line for line in both.said)
    assert "going on with site-0" in both.said
    whole = both.ledger(0)
    assert (whole.used, whole.is_open) == (STEPS, False)
    killed = both.ledger(1)
    assert killed.is_open
    assert KILLED_AT - 1 <= killed.used <= KILLED_AT - 1 + MOST_AHEAD
    assert [path.name for path in (both.out / "certificates").iterdir()] == ["1-site-0.json"]

    # it is back: resuming the finished run closes its run there, and fetches the certificate
    both.processes[1] = serve(both.folders[1])
    code = main(["train", "--resume", "--out", str(both.out), *both.access()])
    assert code == ExitCode.OK
    closed = both.ledger(1)
    assert not closed.is_open
    assert closed.used == killed.used
    for position, folder in enumerate(both.folders):
        key = load_credentials(credentials(folder, "alice")).certificate_key
        path = both.out / "certificates" / f"{position + 1}-site-{position}.json"
        statement = check_certificate(path, key).statement
        assert statement["run"]["used_steps"] == both.ledger(position).used


def test_one_is_killed_and_all_stop_until_it_is_back(
    pair: Callable[..., Pair], recipe: Recipe, serve: Serve
) -> None:
    both = pair(10.0, 10.0)
    with pytest.raises(CuratorUnreachable):
        both.start(recipe, "stop", KillingStop(KILLED_AT, both.processes[1].kill))
    assert both.ledger(0).is_open
    assert both.manifest().num_updates == KILLED_AT - 1

    both.processes[1] = serve(both.folders[1])
    result = both.resume(recipe)
    assert result.outcome is Outcome.COMPLETED
    runs = [both.ledger(0), both.ledger(1)]
    assert not any(run.is_open for run in runs)
    assert all(result.num_updates <= run.used <= STEPS for run in runs)
    assert runs[1].used == STEPS
    # every update used a step of each; the killed one lost at most a block, the other one answer
    assert STEPS - MOST_AHEAD <= result.num_updates < STEPS
    assert runs[0].used == result.num_updates + 1


def test_a_smaller_budget_ends_earlier_and_both_views_show_it(
    pair: Callable[..., Pair], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = pair(10.0, 0.35)
    options = [f"--set={key}={value}" for key, value in RECIPE.items()]
    train = ["train", "--recipe", "dp-sinkhorn-digits", *options, *both.access()]
    code = main([*train, "--out", str(tmp_path / "stop")])
    assert code == ExitCode.BUDGET_EXHAUSTED
    for folder in both.folders:  # nothing was opened at either
        ledger = SqlLedger.open_reader(folder.ledger, utc_now)
        assert not list(ledger.runs())
        ledger.close()

    code = main([*train, "--out", str(both.out), "--on-loss", "continue"])
    assert code == ExitCode.OK
    error = capsys.readouterr().err
    assert "the declared steps are used; going on with localhost" in error
    rich, poor = both.ledger(0), both.ledger(1)
    assert rich.used == STEPS
    assert poor.used == poor.num_steps
    assert 0 < poor.used < STEPS
    assert len(list((both.out / "certificates").iterdir())) == 2
    lines = (both.out / "metrics.jsonl").read_text().splitlines()
    last = [line for line in map(json.loads, lines) if line["kind"] == "update"][-1]
    names = [f"localhost:{process.grpc_port}" for process in both.processes]
    assert [last[f"{name}.budget_epsilon"] for name in names] == [10.0, 0.35]
    assert [last[f"{name}.next_step"] for name in names] == [STEPS + 1, poor.used + 1]

    assert main(["budget", *both.access()]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "(10, 0.0001)-differential privacy" in text
    assert "(0.35, 0.0001)-differential privacy" in text
    assert main(["plan", "--recipe", "dp-sinkhorn-digits", *both.access()]) == ExitCode.OK
    assert capsys.readouterr().out.count("affordable  ") == 2


def test_embeddings_of_both_are_added_and_no_curator_is_needed_afterwards(
    pair: Callable[..., Pair],
) -> None:
    both = pair(10.0, 10.0)
    train = [
        *("train", "--recipe", "embedding-digits", "--steps", "5", "--out", str(both.out)),
        *("--generator-width", "8", "--mechanism-num-features", "20"),
    ]
    assert main([*train, *both.access()]) == ExitCode.OK
    saved = json.loads((both.out / "federation.json").read_text())["curators"]
    parts = []
    for process, one in zip(both.processes, saved, strict=True):
        with process.connect() as barrier:
            parts.append(barrier.download_release(one["run_id"]).values)
    total = load_embedding(both.out / "embedding.safetensors").sums_KR
    torch.testing.assert_close(total, parts[0] + parts[1], rtol=0, atol=0)
    assert [both.ledger(k).is_open for k in (0, 1)] == [False, False]


def test_a_classifier_is_adapted_to_both_without_labels(
    pair: Callable[..., Pair], serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = pair(10.0, 10.0)
    source, file = write_digits(tmp_path / "source.npz"), tmp_path / "recipe.toml"
    changes = {"steps": 8, "warm_up": 300, "updates_per_step": 3, "seed": 1}
    file.write_text(
        toml(table(session__retry_for_s=1.0) | {"training": table()["training"] | changes})
    )
    adapt = ["adapt", "train", "--source", str(source), "--out", str(both.out)]
    both.processes[1].kill()
    code = main([*adapt, *both.access(), "--recipe", str(file)])
    assert code == ExitCode.UNREACHABLE  # nothing was opened at the other
    assert not (both.out / "federation.json").exists()

    both.processes[1] = serve(both.folders[1])
    assert main([*adapt, *both.access(), "--recipe", str(file)]) == ExitCode.OK
    for position, folder in enumerate(both.folders):
        run = both.ledger(position)
        assert (run.used, run.is_open) == (8, False)
        (path,) = (both.out / "certificates").glob(f"{position + 1}-*.json")
        statement = check_certificate(
            path, load_credentials(credentials(folder, "alice")).certificate_key
        ).statement
        assert statement["run"]["used_steps"] == 8
    assert main([*adapt, *both.access(), "--resume"]) == ExitCode.OK  # nothing is left to do
    capsys.readouterr()
    test = write_digits(tmp_path / "test.npz", 400, 1300)
    assert main(["adapt", "test", str(both.out), "--test", str(test), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.75
