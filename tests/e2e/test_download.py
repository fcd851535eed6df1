"""From a curator to a file, and from the file to a generator without a curator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from analyst.embedding.file import load_embedding
from analyst.embedding.offline import EmbeddingObjective
from analyst.embedding.sessions import download
from analyst.errors import MalformedRequest, UnknownRun
from tests.e2e.conftest import EMBEDDING, SINKHORN, Local, batch, credentials, run_cli

pytestmark = pytest.mark.e2e


def test_offline_gradients_are_the_curator_s(local: Local, tmp_path: Path) -> None:
    waves = {"num_scattering_features": 24, "scattering_bandwidths": [0.5, 1.0]}
    parameters = {**EMBEDDING, **waves, "feature_map": "mix"}
    with local.connect() as barrier:
        run = barrier.open_run("digits", "mean-embedding", parameters, num_steps=5)
        embedding = download(barrier, run.run_id, tmp_path / "e.safetensors")
        theirs = run.gradient(*batch())
        run.close()
        again = barrier.download_release(run.run_id)
    assert torch.equal(again.values, embedding.sums_KR)
    assert embedding.sums_KR.shape == (10, 45)
    ours = EmbeddingObjective(load_embedding(tmp_path / "e.safetensors")).gradient(*batch())
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_another_analyst_and_another_mechanism_get_nothing(local: Local) -> None:
    with local.connect() as barrier, local.connect("bob") as other:
        run = barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=1)
        steps = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=1)
        with pytest.raises(UnknownRun):
            other.download_release(run.run_id)
        with pytest.raises(MalformedRequest, match="no release"):
            barrier.download_release(steps.run_id)


def test_the_command_line_needs_the_curator_once(local: Local, tmp_path: Path) -> None:
    path, out = tmp_path / "digits.safetensors", tmp_path / "run"
    fetched = run_cli(
        "analyst",
        *("embedding", "download", "--recipe", "embedding-digits", "--out", str(path)),
        *("--curator", f"localhost:{local.curator.rpc.port}"),
        *("--credentials", str(credentials(local.folder, "alice"))),
    )
    assert fetched.returncode == 0, fetched.stderr
    assert "1,000 features of 10 classes" in fetched.stderr
    trained = run_cli(
        "analyst",
        *("embedding", "train", str(path), "--recipe", "embedding-digits"),
        *("--out", str(out), "--steps", "20"),
    )
    assert trained.returncode == 0, trained.stderr
    assert "finished: 20 updates" in trained.stderr
    missing = run_cli(
        "analyst",
        *("embedding", "train", str(tmp_path / "no"), "--recipe", "embedding-digits"),
        *("--out", str(tmp_path / "other")),
    )
    assert missing.returncode == 4
