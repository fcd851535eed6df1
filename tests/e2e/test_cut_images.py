"""A stored file that is cut while a curator serves ends neither the process nor its other sets."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from analyst.errors import DatasetOutOfService
from curator.administration.add_dataset import add_dataset
from tests.e2e.conftest import SINKHORN, Process, batch, digits_facts, digits_folder

pytestmark = pytest.mark.e2e


def get(process: Process, path: str, token: str) -> str:
    """Return a page; an HTTP error is raised."""
    request = urllib.request.Request(f"http://127.0.0.1:{process.rest_port}{path}")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=30) as response:
        text: str = response.read().decode()
    return text


def test_the_set_goes_out_of_service_and_the_others_go_on(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "curator")
    source = tmp_path / "other.npz"
    levels = np.random.default_rng(1).integers(0, 17, (1437, 8, 8), dtype=np.uint8)
    np.savez(source, images=levels, labels=np.arange(1437) % 10)
    add_dataset(folder, digits_facts("other"), str(source))
    process = serve(folder, "--insecure-loopback")
    images, labels = batch()
    with process.connect(insecure_loopback=True) as barrier:
        runs = {
            name: barrier.open_run(name, "dp-sinkhorn", SINKHORN, num_steps=40)
            for name in ("digits", "other")
        }
        for run in runs.values():
            assert bool(torch.isfinite(run.gradient(images, labels)).all())
        os.truncate(folder.images("digits") / "levels.npy", 4096)
        for _ in range(3):
            with pytest.raises(DatasetOutOfService):
                runs["digits"].gradient(images, labels)
        with pytest.raises(DatasetOutOfService):
            barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=2)
        spent = barrier.budget("digits").spent
        assert spent > 0
        for _ in range(3):
            assert bool(torch.isfinite(runs["other"].gradient(images, labels)).all())
        assert process.process.poll() is None
        steward = json.loads((folder.identity / "steward.credentials.json").read_text())["token"]
        page, metrics = get(process, "/", steward), get(process, "/metrics", steward)
        assert "ready" in get(process, "/readyz", steward)
    assert "The stored images of <bdi>digits</bdi> are damaged" in page
    assert "<bdi>other</bdi> are damaged" not in page
    assert 'weir_dataset_in_service{dataset="digits"} 0' in metrics
    assert 'weir_dataset_in_service{dataset="other"} 1' in metrics
    assert process.terminate() == 0
    log = (tmp_path / "curator-0.log").read_text()
    told = [line for line in log.splitlines() if "data set digits is out of service" in line]
    assert len(told) == 1
    assert "restore" in told[0]

    process = serve(folder, "--insecure-loopback")  # the others are served after a start, too
    with process.connect(insecure_loopback=True) as barrier:
        with pytest.raises(DatasetOutOfService):
            barrier.resume_run(runs["digits"].run_id).gradient(images, labels)
        run = barrier.open_run("other", "dp-sinkhorn", SINKHORN, num_steps=1)
        assert bool(torch.isfinite(run.gradient(images, labels)).all())
        assert barrier.budget("digits").spent >= spent
