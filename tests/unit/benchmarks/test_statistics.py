"""The benchmark of statistics makes rows of a network that it trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import statistics


def write(path: Path, side: int, counts: tuple[int, int]) -> None:
    """Write images of ten classes, each with a bright row of its own."""
    parts: dict[str, Any] = {}
    for part, count in zip(("train", "test"), counts, strict=True):
        labels = np.arange(count) % 10
        images = np.random.default_rng(count).integers(0, 60, (count, side, side), dtype=np.uint8)
        images[np.arange(count), labels + 3] = 255
        parts |= {f"x_{part}": images, f"y_{part}": labels.astype(np.uint8)}
    np.savez(path, **parts)


def test_rows_are_made_of_a_network_that_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "usps.npz", 16, (40, 10))
    write(tmp_path / "mnist.npz", 28, (60, 20))
    network, at = tmp_path / "usps.safetensors", ["--data", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["", "network", str(network), *at])
    assert statistics.main() == 0
    asked = ["--size", "60", "--tests", "20", "--seeds", "0", "--epsilon", "10", "--alone"]
    monkeypatch.setattr("sys.argv", ["", "make", str(network), *at, *asked])
    assert statistics.main() == 0
    head, ours = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (head["method"], head["epsilon"]) == ("public_head", 0.0)
    assert (ours["method"], ours["records"]) == ("statistics, cnn-features", 60)
    assert 9.9 < ours["epsilon"] <= 10
    assert 0 <= ours["accuracy"] <= 100


def test_colours_are_the_same_digits_with_an_ink_lighter_than_its_ground(tmp_path: Path) -> None:
    write(tmp_path / "mnist.npz", 28, (30, 10))
    grey, coloured = (statistics.read_set(name, tmp_path, 30)[0] for name in ("digits", "colours"))
    assert coloured.images.shape == (30, 3, 28, 28)
    assert np.array_equal(grey.labels, coloured.labels)
    lit = grey.images[:, 0] == 255
    for one in range(30):
        inked = coloured.images[one][:, lit[one]]
        assert (inked == inked[:, :1]).all()
        assert (inked[:, :1] >= coloured.images[one].reshape(3, -1)).all()
