"""DP-MERF-AE through a real curator: one charge, a download, offline training, and images."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import analyst
from analyst.cli import main
from analyst.embedding.autoencoder import encode
from analyst.embedding.file import load_embedding
from analyst.embedding.offline import EmbeddingObjective
from analyst.embedding.sessions import download
from analyst.errors import AnalystError, RunClosed
from analyst.evaluation.sample import sample_run
from curator.accounting.explain import explain
from curator.administration.channel import send
from curator.administration.commands import COMMANDS
from curator.administration.open_ledger import open_ledger_reader
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.mechanisms.described import read_described
from curator.process import bootstrap
from tests.e2e.conftest import Local, batch, credentials, digits_folder

pytestmark = pytest.mark.e2e

AUTOENCODER: dict[str, Any] = {
    "sampling_rate": 40 / 1437,
    "capacity": 96,
    "expected_batch_size": 40.0,
    "max_size": 2000,
    "max_records_per_unit": 1,
    "autoencoder": "mlp",
    "hidden_width": 16,
    "code_width": 4,
    "autoencoder_seed": 1,
    "clip_norm": 0.5,
    "training_noise_multiplier": 1.0,
    "training_steps": 20,
    "training_learning_rate": 0.01,
    "averaging": 0.9,
    "num_features": 60,
    "bandwidths": [0.6],
    "feature_seed": 1,
    "noise_multiplier": 3.0,
    "count_scale": 0.3,
}


def test_a_release_is_charged_once_and_both_sides_read_it_alike(
    local: Local, tmp_path: Path
) -> None:
    images, labels = batch(rows=20)
    with local.connect() as barrier:
        assert "dp-merf-ae" in barrier.describe("digits").mechanisms
        plan = barrier.plan("digits", "dp-merf-ae", AUTOENCODER, num_steps=5)
        run = barrier.open_run("digits", "dp-merf-ae", AUTOENCODER, num_steps=5)
        spent = barrier.budget("digits").spent
        embedding = download(barrier, run.run_id, tmp_path / "e.safetensors")
        theirs = run.gradient(images, labels)
        again = run.gradient(images, labels)
        assert barrier.budget("digits").spent == spent
    assert torch.equal(theirs, again)
    declared = read_described(
        {"mechanism": "dp-merf-ae", "parameters": AUTOENCODER, "num_steps": 5},
        {"epsilon": 10.0, "delta": 1e-4},
    )
    assert spent == plan.epsilon_after == explain(declared, cross_check=False).ledger_epsilon > 0
    assert embedding.sums_KR.shape == (10, 61)
    moving = images.clone().requires_grad_()
    codes = encode(embedding.autoencoder, moving)
    slopes = EmbeddingObjective(load_embedding(tmp_path / "e.safetensors")).gradient(
        codes.detach(), labels
    )
    (ours,) = torch.autograd.grad(codes, moving, slopes)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling_rate": 0.5}, "sampling_rate"),
        ({"capacity": 97}, "capacity"),
        ({"max_size": 1999}, "max_size"),
        ({"autoencoder": "unet"}, "autoencoder"),
        ({"training_noise_multiplier": 0.3, "training_steps": 5000}, "budget"),
    ],
)
def test_what_is_not_permitted_is_refused_and_free(
    local: Local, change: dict[str, Any], words: str
) -> None:
    with local.connect() as barrier:
        with pytest.raises(AnalystError, match=words):
            barrier.open_run("digits", "dp-merf-ae", AUTOENCODER | change, num_steps=5)
        assert barrier.budget("digits").spent == 0


LONG = AUTOENCODER | {"training_steps": 50_000, "training_noise_multiplier": 60.0}


def test_a_curator_that_stops_does_not_wait_for_a_long_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "_GRACE_SECONDS", 0.5)
    folder = digits_folder(tmp_path / "curator")
    config = CuratorConfig(grpc=GrpcSection(port=0), rest=RestSection(port=0))
    local = Local(folder=folder, curator=bootstrap.create_curator(folder, config))
    local.curator.start()
    barrier = analyst.connect(
        f"localhost:{local.curator.rpc.port}",
        credentials=credentials(folder, "alice"),
        patience=0.5,
    )
    with barrier, ThreadPoolExecutor(1) as caller:
        opening = caller.submit(barrier.open_run, "digits", "dp-merf-ae", LONG, num_steps=5)
        while not any(run.setup_begun for run in local.curator.ledger.runs()):
            assert not opening.done()
        local.curator.draining.set()
        local.curator.wait()
        with pytest.raises(AnalystError):
            opening.result(30)
    ledger = open_ledger_reader(folder, config)
    (run,) = ledger.runs()
    ledger.close()
    assert (run.is_open, run.setup_begun, run.setup_digest) == (False, True, "")
    assert "the curator was stopped" in run.close_reason


def test_erasing_ends_a_long_setup_at_once_and_nothing_is_released(local: Local) -> None:
    command = COMMANDS.validate_python({"kind": "erase", "dataset": "digits", "reason": "asked"})
    with local.connect() as barrier, ThreadPoolExecutor(1) as caller:
        opening = caller.submit(barrier.open_run, "digits", "dp-merf-ae", LONG, num_steps=5)
        while not any(run.setup_begun for run in local.curator.ledger.runs()):
            assert not opening.done()
        (run,) = local.curator.ledger.runs()
        spent = barrier.budget("digits").spent
        with pytest.raises(AnalystError, match="still being made"):
            barrier.download_release(run.run_id)
        assert send(local.folder.socket, command) is not None
        with pytest.raises(RunClosed, match="stays charged"):
            opening.result(30)
        with pytest.raises(RunClosed, match="no release"):
            barrier.download_release(run.run_id)
        assert barrier.budget("digits").spent == spent > 0
    assert local.curator.ledger.run(run.run_id).setup_digest == ""


def test_the_command_line_trains_on_a_download_and_samples(local: Local, tmp_path: Path) -> None:
    path, out = tmp_path / "digits.safetensors", tmp_path / "run"
    smaller = {
        "mechanism.expected_batch_size": "40",
        "mechanism.capacity": "96",
        "mechanism.max_size": "2000",
        "mechanism.training_steps": "20",
        "training.steps": "25",
    }
    words = [word for name, value in smaller.items() for word in ("--set", f"{name}={value}")]
    recipe = ("--recipe", "dp-merf-ae-digits", *words)
    access = (
        *("--curator", f"localhost:{local.curator.rpc.port}"),
        *("--credentials", str(credentials(local.folder, "alice"))),
    )
    refused = main(["train", *recipe, "--out", str(out), *access])
    assert refused != 0
    with local.connect() as barrier:
        assert barrier.budget("digits").spent == 0
    assert main(["embedding", "download", *recipe, "--out", str(path), *access]) == 0
    with local.connect() as barrier:
        budget = barrier.budget("digits")
    assert budget.spent == budget.reserved > 0
    assert main(["embedding", "train", str(path), *recipe, "--out", str(out)]) == 0
    sampled = sample_run(out, 30, seed=1, weights="ema", device="cpu")
    assert sampled.images.shape[0] == 30
