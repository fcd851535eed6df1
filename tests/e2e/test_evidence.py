"""`curator evidence`: a training without noise lights up, and nothing private is for outsiders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import analyst
from analyst.cli import ExitCode
from curator.administration.add_dataset import Choices, add_dataset
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.data.store import open_store
from curator.folder import CuratorFolder, initialise
from curator.process import bootstrap
from curator.process.bootstrap import create_curator
from tests.e2e.conftest import SINKHORN, Local, credentials, digits_facts, run_cli
from tests.fakes.noise import SeededNoise

pytestmark = pytest.mark.e2e

FEW = 60  # private images, so that particles can be like each of them
CANARIES = 60
UNKNOWN_SIGNER = ExitCode.UNKNOWN_SIGNER


class Silent(SeededNoise):
    """Samples as production does, and adds nothing."""

    def __init__(self) -> None:
        super().__init__(0)

    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.zeros(num_values, dtype=torch.int64)


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return np.rint(data.images * 255 / 16).astype(np.uint8), data.target


@pytest.fixture
def folder(tmp_path: Path) -> CuratorFolder:
    """Make one with a few digits and canaries."""
    images, labels = digits()
    np.savez(tmp_path / "few.npz", images=images[:FEW], labels=labels[:FEW])
    np.savez(tmp_path / "held-out.npz", images=images[FEW : 4 * FEW], labels=labels[FEW : 4 * FEW])
    made = initialise(tmp_path / "curator")
    sizes = {"nominal_size": 90, "max_size": 200, "sampling_rate": 0.5, "capacity": 112}
    facts = digits_facts().model_copy(update={"max_level": 255, **sizes})
    choices = Choices(num_canaries=CANARIES)
    add_dataset(made, facts, str(tmp_path / "few.npz"), choices=choices)
    made.add_analyst("alice")
    return made


def trained(folder: CuratorFolder, *, steps: int) -> tuple[str, np.ndarray]:
    """Move particles by the curator's gradients; return the run and what became of them."""
    config = CuratorConfig(grpc=GrpcSection(port=0), rest=RestSection(port=0))
    curator = create_curator(folder, config)
    curator.start()
    try:
        generator = torch.Generator().manual_seed(1)
        particles = (torch.rand((90, 1, 8, 8), generator=generator) * 2 - 1).requires_grad_()
        labels = torch.arange(90) % 10
        optimizer = torch.optim.Adam([particles], lr=0.05)
        parameters: dict[str, Any] = SINKHORN | {
            "sampling_rate": 0.5,
            "capacity": 112,
            "num_samples": 90,
            "num_debias": 0,
            "clip_norm": 5.0,
            "noise_multiplier": 50.0,
        }
        target = f"localhost:{curator.rpc.port}"
        with analyst.connect(target, credentials=credentials(folder, "alice")) as barrier:
            run = barrier.open_run("digits", "dp-sinkhorn", parameters, num_steps=steps)
            for _ in range(steps):
                optimizer.zero_grad()
                images = particles.clamp(-1, 1)
                torch.autograd.backward(
                    images, run.gradient(images.detach(), labels).reshape(images.shape)
                )
                optimizer.step()
            run.close()
    finally:
        curator.draining.set()
        curator.wait()
    made = ((particles.detach().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    return run.run_id, made[:, 0].numpy()


def evidence(folder: CuratorFolder, *arguments: str) -> Any:
    return run_cli("curator", "evidence", *arguments, "--dir", str(folder.root), timeout=300)


def test_a_training_without_noise_lights_up(
    folder: CuratorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "OsEntropy", Silent)
    run_id, made = trained(folder, steps=300)
    synthetic, page = tmp_path / "synthetic.npz", tmp_path / "evidence.html"
    np.savez(synthetic, images=made, labels=np.arange(90) % 10)
    files = ("--synthetic", str(synthetic), "--held-out", str(tmp_path / "held-out.npz"))
    done = evidence(folder, run_id, *files, "--out", str(page), "--json")
    assert done.returncode == 5, done.stderr
    attacks = json.loads(done.stdout)["attacks"]
    assert attacks["membership"]["named"]["low"] > 0.5
    assert "images that were used are told from others by nearness" in attacks["alarms"]
    assert attacks["canaries"]["right"]["low"] > 0.5
    assert "canaries that are in are exposed" in attacks["alarms"]
    text = page.read_text()
    assert "PRIVATE. Keep this page where the images are." in text
    assert "Above chance: images that were used are told" in text
    assert page.stat().st_mode & 0o077 == 0


def test_copies_of_the_store_refute_the_promise(folder: CuratorFolder, tmp_path: Path) -> None:
    """All stored images as if a generator had made them: canaries prove what no epsilon allows."""
    run_id, _ = trained(folder, steps=1)
    stored = open_store(folder.images("digits")).levels
    rows = np.asarray(stored[0 : len(stored)]).reshape(-1, 8, 8)
    np.savez(tmp_path / "copies.npz", images=rows, labels=np.zeros(len(rows), np.int64))
    page = tmp_path / "evidence.html"
    done = evidence(folder, run_id, "--synthetic", str(tmp_path / "copies.npz"), "--out", str(page))
    assert done.returncode == 5, done.stderr
    proved = re.search(r"lower bound of epsilon at delta 0.0001: ([\d.]+)", done.stdout)
    assert proved is not None
    assert float(proved[1]) > 1.5
    assert "give --held-out FILE.npz" in done.stdout


def test_an_honest_run_and_the_page_for_outsiders(local: Local, tmp_path: Path) -> None:
    folder, images = local.folder, digits()[0][::5]  # public: none of them is in the data set
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=40)
        run.gradient(torch.zeros((12, 1, 8, 8)), torch.arange(12) % 10)
        open_run = evidence(
            folder, run.run_id, "--for-outsiders", "--out", str(tmp_path / "x.html")
        )
        assert open_run.returncode == 1
        assert "is open" in open_run.stderr
        run.close()
    synthetic, held_out = tmp_path / "<i>syn.npz", tmp_path / "held-out.npz"
    page = tmp_path / "evidence.html"
    files = ("--synthetic", str(synthetic), "--held-out", str(held_out), "--out", str(page))
    np.savez(synthetic, images=images[:200], labels=np.zeros(200, int), run_id=np.array("0" * 32))
    np.savez(held_out, images=images[200:], labels=np.zeros(len(images) - 200, int))
    other = evidence(folder, run.run_id, *files)
    assert other.returncode == 1
    assert f"is of run {'0' * 32}" in other.stderr
    np.savez(synthetic, images=images[:200], labels=np.zeros(200, int), run_id=np.array(run.run_id))
    done = evidence(folder, run.run_id, *files)
    assert done.returncode in {0, 5}, done.stderr  # an interval is wrong once in twenty times
    assert "none were planted" in done.stdout
    assert "&lt;i&gt;syn.npz" in page.read_text()
    assert "<i>syn" not in page.read_text()
    assert "PRIVATE" in done.stdout

    public = tmp_path / "public.html"
    done = evidence(folder, run.run_id, "--for-outsiders", "--out", str(public))
    assert done.returncode == 0, done.stderr
    text = public.read_text()
    assert "Nothing on this page was computed from a private image" in text
    for private in ("What attacks achieve", "What the steward decided", "policy:", "1437 "):
        assert private not in text
    for kind in ("dataset-registered", "run-opened", "mark-advanced", "run-closed"):
        assert kind in text
    entries = [entry.digest for entry in local.curator.ledger.entries()]
    assert entries[-1] in text
    assert "unchanged since the proofs were recorded" in text
    assert "<td>torch</td>" in text


def test_the_signature_is_over_the_whole_page(local: Local, tmp_path: Path) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=40)
        run.close()
    page = tmp_path / "evidence.html"
    done = evidence(local.folder, run.run_id, "--for-outsiders", "--out", str(page))
    assert done.returncode == 0, done.stderr
    of = ("--credentials", str(credentials(local.folder, "alice")))
    verify = ("analyst", "certificate", "verify", str(page))
    assert run_cli(*verify, *of).returncode == 0
    assert run_cli(*verify).returncode == UNKNOWN_SIGNER
    content = page.read_bytes()
    for changed in (
        content.replace(b"epsilon 10", b"epsilon 1.0"),
        b"<!DOCTYPE html>\n",
        content[:-9],
        b"<!DOCTYPE html>\n<!-- weir-evidence-1 AAAAA AAAAA -->\n",
    ):
        assert changed != content
        page.write_bytes(changed)
        done = run_cli(*verify, *of)
        assert done.returncode not in {0, UNKNOWN_SIGNER}
        assert "changed after" in done.stderr or "without the signature" in done.stderr
    again = evidence(local.folder, run.run_id, "--for-outsiders", "--out", str(page))
    assert again.returncode == 1
    assert "--force" in again.stderr


def test_what_is_not_there(local: Local, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "page.html"))
    done = evidence(local.folder, "f" * 32, "--for-outsiders", *out)
    assert done.returncode == 1
    assert "there is no run" in done.stderr
    inside = evidence(local.folder, "f" * 32, "--out", str(local.folder.root / "page.html"))
    assert inside.returncode == 1
    assert "lies in the curator's folder" in inside.stderr
    assert not list(tmp_path.glob("*.html"))
