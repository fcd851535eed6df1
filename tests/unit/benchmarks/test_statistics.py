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
    asked = ["--size", "50", "--tests", "10", "--seeds", "0", "--epsilon", "10", "--alone"]
    monkeypatch.setattr("sys.argv", ["", "make", str(network), *at, *asked])
    assert statistics.main() == 0
    head, ours = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (head["method"], head["epsilon"]) == ("public_head", 0.0)
    assert (ours["method"], ours["records"]) == ("statistics, cnn-features", 50)
    assert ours["tested_on"] == head["tested_on"] == "training part, no records"
    command = "python -m benchmarks.statistics make NETWORK --data FOLDER --size 50"
    assert ours["command"].startswith(command)
    assert 9.9 < ours["epsilon"] <= 10
    assert 0 <= ours["accuracy"] <= 100


def test_rows_are_of_images_that_are_no_records(tmp_path: Path) -> None:
    write(tmp_path / "mnist.npz", 28, (60, 20))
    splits = [statistics.read_set("digits", tmp_path, (40, 15), seed) for seed in (0, 0, 1)]
    records = {one.tobytes() for one in splits[0].private.images}
    drawn = [[one.tobytes() for one in split.test.images] for split in splits]
    assert len(records) == 40
    for one in drawn:
        assert len(set(one)) == 15
        assert not records & set(one)
    assert drawn[0] == drawn[1] != drawn[2]
    whole = statistics.read_set("digits", tmp_path, (60, 20), 0)
    assert whole.tested_on == "test part"
    assert not {one.tobytes() for one in whole.test.images} & records
    with pytest.raises(SystemExit, match="--tests of at most"):
        statistics.read_set("digits", tmp_path, (50, 20), 0)


def test_colours_are_the_same_digits_with_an_ink_lighter_than_its_ground(tmp_path: Path) -> None:
    write(tmp_path / "mnist.npz", 28, (30, 10))
    grey, coloured = (
        statistics.read_set(name, tmp_path, (30, 10), 0).private for name in ("digits", "colours")
    )
    assert coloured.images.shape == (30, 3, 28, 28)
    assert np.array_equal(grey.labels, coloured.labels)
    lit = grey.images[:, 0] == 255
    for one in range(30):
        inked = coloured.images[one][:, lit[one]]
        assert (inked == inked[:, :1]).all()
        assert (inked[:, :1] >= coloured.images[one].reshape(3, -1)).all()
