"""A data set of people with several images each: added by command, trained on, verified."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import analyst
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.folder import CuratorFolder, initialise
from curator.process.bootstrap import create_curator
from curator.rest.models import Dataset
from tests.e2e.conftest import EMBEDDING, SINKHORN, batch, credentials, run_cli

pytestmark = pytest.mark.e2e

ADJACENCY = "add-or-remove-one-group"
PEOPLE, MOST = 240, 4
SWD = {
    "sampling_rate": 1 / 24,
    "capacity": 96,
    "num_samples": 12,
    "num_projections": 8,
    "clip_norm": 9.0,
    "label_scale": 4.0,
    "origin": "black",
    "noise_multiplier": 1.0,
    "max_size": 300,
    "max_records_per_unit": MOST,
}
OPTIONS = (
    *("--epsilon", "10", "--delta", "1e-4", "--adjacency", ADJACENCY),
    *("--classes", "0,1,2,3,4,5,6,7,8,9", "--image-shape", "1x8x8", "--max-level", "16"),
    *("--nominal-size", str(PEOPLE), "--max-size", "300"),
    *("--sampling-rate", "1/24", "--capacity", "96"),
)


def write_people(path: Path) -> None:
    """Write 1,200 digits of 240 people, from one to nine each."""
    images, labels = load_digits(return_X_y=True)
    owner = np.random.default_rng(1).integers(0, PEOPLE, 1200)
    owner[:PEOPLE] = np.arange(PEOPLE)
    np.savez(
        path,
        images=images[:1200].reshape(-1, 8, 8).astype(np.uint8),
        labels=labels[:1200],
        patients=np.array([f"patient {one}" for one in owner]),
    )


def test_groups_from_the_command_line_to_the_export(tmp_path: Path) -> None:
    source, root = tmp_path / "people.npz", tmp_path / "curator"
    write_people(source)
    folder: CuratorFolder = initialise(root)
    add = ("dataset", "add", "people", str(source), "--dir", str(root), *OPTIONS)
    refused = run_cli("curator", *add, "--max-records-per-group", str(MOST))
    assert refused.returncode != 0
    assert "--groups-key" in refused.stderr
    refused = run_cli("curator", *add, "--groups-key", "patients")
    assert refused.returncode != 0
    assert "the unit is a group: add --max-records-per-group K" in refused.stderr
    added = run_cli(
        "curator", *add, "--groups-key", "patients", "--max-records-per-group", str(MOST)
    )
    assert added.returncode == 0, added.stderr
    assert f"1200 images in {PEOPLE} groups" in added.stdout
    assert ADJACENCY in added.stdout
    folder.add_analyst("alice")

    config = CuratorConfig(grpc=GrpcSection(port=0), rest=RestSection(port=0))
    curator = create_curator(folder, config)
    curator.start()
    try:
        target = f"localhost:{curator.rpc.port}"
        with analyst.connect(target, credentials=credentials(folder, "alice")) as barrier:
            facts = barrier.describe("people")
            assert (facts.adjacency, facts.unit, facts.nominal_size) == (ADJACENCY, "group", PEOPLE)
            images, labels = batch()
            parameters = SINKHORN | {"sampling_rate": 1 / 24}
            asked = (
                ("dp-sinkhorn", parameters),
                ("dp-swd", SWD),
                ("mean-embedding", EMBEDDING),
            )
            for mechanism, chosen in asked:
                run = barrier.open_run("people", mechanism, chosen, num_steps=3)
                for _ in range(3):
                    assert bool(torch.isfinite(run.gradient(images, labels)).all())
            budget = barrier.budget("people")
            assert (budget.adjacency, budget.unit) == (ADJACENCY, "group")
            assert 0 < budget.spent <= 10
    finally:
        curator.draining.set()
        curator.wait()

    listing = run_cli("curator", "dataset", "list", "--json", "--dir", str(root))
    (listed,) = json.loads(listing.stdout)
    told = Dataset.model_validate(listed, strict=False, extra="ignore")  # what REST answers too
    assert (told.adjacency, told.unit) == (ADJACENCY, "group")
    assert ADJACENCY in run_cli("curator", "budget", "--dir", str(root)).stdout
    export = tmp_path / "ledger.jsonl"
    run_cli("curator", "ledger", "export", "--dir", str(root), "--out", str(export))
    last = json.loads(export.read_text().splitlines()[-1])
    assert last["statements"]["people"]["adjacency"] == ADJACENCY
    verified = run_cli("curator", "ledger", "verify", str(export))
    assert verified.returncode == 0, verified.stderr
    tampered = tmp_path / "tampered.jsonl"
    tampered.write_text(export.read_text().replace(ADJACENCY, "add-or-remove-one-record"))
    assert run_cli("curator", "ledger", "verify", str(tampered)).returncode != 0
