"""A curator's folder with one small data set and a recipe beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from curator.cli import main

RECIPE = """
[mechanism]
kind = "dp-sinkhorn"
expected_batch_size = 2
num_samples = 3
num_debias = 1
clip_norm = 0.5
noise_multiplier = 4.0
reg = 0.5
l1_weight = 1.0
label_scale = 3.0
schedule = "published"
"""
ADD = [
    "--epsilon", "10", "--delta", "1e-5", "--adjacency", "add-or-remove-one-record",
    "--classes", "0,1,2", "--image-shape", "1x8x8", "--nominal-size", "4", "--max-size", "9",
    "--sampling-rate", "0.5", "--capacity", "8",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("steward")
    images = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    np.savez(root / "set.npz", images=images, labels=np.array([0, 1, 2, 1]))
    (root / "recipe.toml").write_text(RECIPE)
    assert main(["init", str(root / "weir"), "--quiet"]) == 0
    argv = ["dataset", "add", "cats", str(root / "set.npz"), "--dir", str(root / "weir"), *ADD]
    assert main([*argv, "--quiet"]) == 0
    return root
