"""The example program and the notebook train a few steps on digits that they never see."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.e2e import forks
from tests.e2e.conftest import Local, credentials

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).parents[2] / "examples" / "private_generator.py"


def test_the_private_generator_takes_its_steps(local: Local, tmp_path: Path) -> None:
    out = tmp_path / "digits.npz"
    target, file = f"localhost:{local.curator.rpc.port}", credentials(local.folder, "alice")
    done = forks.run([str(PROGRAM), "5", str(out), target, str(file)], timeout=120)
    assert done.returncode == 0, done.stderr
    with np.load(out) as made:
        assert made["images"].shape == (1000, 8, 8)
        assert sorted(set(made["labels"].tolist())) == list(range(10))
    with local.connect() as barrier:
        assert barrier.budget("digits").spent > 0
    (run,) = local.curator.ledger.runs()
    assert run.used == 5


def test_the_notebooks_cells_run_in_their_order(local: Local, tmp_path: Path) -> None:
    cells = json.loads((PROGRAM.parent / "private_digits.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    environment = {
        **os.environ,
        "WEIR_CURATOR": f"localhost:{local.curator.rpc.port}",
        "WEIR_CREDENTIALS": str(credentials(local.folder, "alice")),
        "WEIR_STEPS": "6",
    }
    (tmp_path / "cells.py").write_text("\n".join(code))
    done = forks.run([str(tmp_path / "cells.py")], cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    (run,) = local.curator.ledger.runs()
    assert (run.num_steps, run.used) == (6, 5)
    statement = json.loads((tmp_path / "certificate.json").read_text())["statement"]
    assert statement["run"]["used_steps"] == 5
