"""The benchmark of scores counts what is true, and says how far the released counts are."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from torch import Tensor, nn

from analyst.evaluation.image_file import LabelledImages
from benchmarks import scores
from benchmarks.scores import Counts

FONTS = Path(mpl.get_data_path()) / "fonts" / "ttf"


def test_rows_have_released_and_true_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (300, 28, 28), dtype=np.uint8)
    labels = (np.arange(300) % 10).astype(np.uint8)
    parts = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    np.savez(tmp_path / "mnist.npz", **parts)  # type: ignore[arg-type]
    asked = ["--data", str(tmp_path), "--size", "200", "--images", "20", "--fonts", str(FONTS)]
    monkeypatch.setattr("sys.argv", ["", *asked])
    assert scores.main() == 0
    *rows, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["num_images"], row["degree"]) for row in rows] == [(20, 0.0), (20, 1.0)]
    for row in rows:
        assert 0 <= row["true"] <= 200
        # a normal variable is farther than 7 standard deviations with probability 3e-12
        assert 0 < abs(row["released"] - row["true"]) < 7 * row["noise_std"]
    assert last["candidates"] == 2
    assert 0 < last["epsilon"] < 0.05


def test_true_counts_are_of_the_largest_output() -> None:
    class First(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images[:, 0, 0, :3]

    levels = np.zeros((5, 1, 28, 28), np.uint8)
    levels[np.arange(5), 0, 0, [0, 1, 2, 2, 1]] = 9
    images = LabelledImages(levels, np.array([0, 1, 2, 0, 0]))
    assert scores.true_count(First(), images) == 3  # type: ignore[arg-type]


def test_what_is_told_of_counts() -> None:
    counts = [Counts(110.0, 100), Counts(95.0, 130), Counts(20.0, 20)]
    told = scores.told_of(counts, 50.0)
    assert told["rank_correlation"] == 0.5
    assert told["root_mean_square_error"] == round(float(np.sqrt((100 + 35**2) / 3)), 1)
    assert told["largest_error_in_stds"] == 0.7
    assert told["best_is_behind_by"] == 30
