"""From a curator to a file, and from the file to a generator without a curator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from analyst.embedding.file import load_embedding
from analyst.embedding.offline import EmbeddingObjective
from analyst.embedding.sessions import download
from analyst.errors import EmbeddingError, MalformedRequest, UnknownRun
from curator.divergences.feature_nets import FeatureShape
from tests.e2e.conftest import EMBEDDING, SINKHORN, Local, batch, credentials, run_cli
from tests.fakes.networks import PARAMETERS, weights_of

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


def canonical(parameters: dict[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"))


def test_statistics_of_a_network_that_the_steward_added(local: Local, tmp_path: Path) -> None:
    """Added while the curator serves; released, downloaded with its network, and classified by."""
    size: dict[str, Any] = {
        "channels": 1,
        "height": 8,
        "width": 8,
        "max_level": 16,
        "num_features": 24,
    }
    network, out = tmp_path / "drawn.safetensors", tmp_path / "statistics.safetensors"
    network.write_bytes(weights_of(FeatureShape(architecture="cnn-features", **size)))
    added = run_cli(
        "curator",
        *("network", "add", "drawn", str(network), "--dir", str(local.folder.root), "--json"),
        *("--architecture", "cnn-features", "--origin", "a test", "--declare-public"),
    )
    assert added.returncode == 0, added.stderr
    sha256 = json.loads(added.stdout)["sha256"]
    own = {"network": "drawn", "network_sha256": sha256, "architecture": "cnn-features"}
    more = {"num_features": 24, "moment_width": 24, "max_size": 2000, "refinements": []}
    parameters = PARAMETERS | own | more | {"noise_multiplier": 1.0, "moment_noise_multiplier": 1.0}
    with local.connect() as barrier:
        with pytest.raises(MalformedRequest, match="curator network list"):
            barrier.open_run(
                "digits",
                "feature-statistics",
                parameters | {"network_sha256": "0" * 64},
                num_steps=1,
            )
        assert barrier.budget("digits").spent == 0
        run = barrier.open_run("digits", "feature-statistics", parameters, num_steps=5)
        other = tmp_path / "other"
        other.write_bytes(network.read_bytes() + b" ")
        with pytest.raises(EmbeddingError):
            download(barrier, run.run_id, out, network=other)
        download(barrier, run.run_id, out, network=network)
        theirs = run.gradient(*batch())
        run.close()
    said = json.loads(run.certificate)["statement"]["run"]["parameters"]
    assert (said["network"], said["network_sha256"]) == ("drawn", sha256)
    assert said["network_declared"] == "no-private-record-trained-it"
    assert local.curator.ledger.run(run.run_id).parameters_json == canonical(parameters)
    ours = EmbeddingObjective(load_embedding(out)).gradient(*batch())
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)
    digits = load_digits()
    images = (digits.images * (255 / 16)).astype(np.uint8)
    np.savez(tmp_path / "digits.npz", images=images, labels=digits.target)
    classified = run_cli(
        "analyst",
        *("embedding", "classify", str(out), "--test", str(tmp_path / "digits.npz"), "--json"),
    )
    assert classified.returncode == 0, classified.stderr
    assert json.loads(classified.stdout)["accuracy"] > 0.5  # by chance a tenth
