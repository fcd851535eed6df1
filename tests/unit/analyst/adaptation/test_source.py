"""Public files at the target's size, and files that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from analyst.adaptation.networks import build_classifier
from analyst.adaptation.public_images import PublicImages, accuracy, read_public
from analyst.errors import ImageFileError
from analyst.generators.generator import ImageShape
from tests.fakes.adaptation import write_digits

SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


def test_images_are_brought_to_the_size_of_the_target(tmp_path: Path) -> None:
    read = read_public(write_digits(tmp_path / "a.npz", 50), SHAPE)
    assert read.images_NCHW.shape == (50, 1, 8, 8)
    assert read.labels_N.shape == (50,)
    assert float(read.images_NCHW.min()) == -1
    assert 0.9 < float(read.images_NCHW.max()) <= 1
    large = ImageShape(channels=1, height=16, width=16, num_classes=10)
    whole = read_public(tmp_path / "a.npz", large).images_NCHW  # as large as the file's
    raw = np.load(tmp_path / "a.npz")["images"]
    assert torch.equal(whole[:, 0], torch.from_numpy(raw).float() / 127.5 - 1)


def test_the_digest_is_of_images_and_labels(tmp_path: Path) -> None:
    digests = {
        read_public(write_digits(tmp_path / f"{number}.npz", 50, first), SHAPE).digest
        for number, first in enumerate((0, 0, 1))
    }
    assert len(digests) == 2
    raw = np.load(tmp_path / "0.npz")
    np.savez(tmp_path / "other.npz", images=raw["images"], labels=np.roll(raw["labels"], 1))
    assert read_public(tmp_path / "other.npz", SHAPE).digest not in digests


def test_either_part_of_a_file_with_both(tmp_path: Path) -> None:
    images, labels = np.zeros((6, 8, 8), np.uint8), np.arange(6)
    path = tmp_path / "both.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images[:2], y_test=labels[:2])
    assert len(read_public(path, SHAPE).labels_N) == 6
    assert len(read_public(path, SHAPE, part="test").labels_N) == 2


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (np.zeros((4, 3, 8, 8), np.uint8), np.zeros(4, np.int64), "3 channels"),
        (np.zeros((0, 8, 8), np.uint8), np.zeros(0, np.int64), "0 images"),
        (np.zeros((2, 8, 8), np.uint8), np.array([0, 10]), "from 0 to 10"),
        (np.zeros((2, 8, 8), np.uint8), np.array([-1, 0]), "from -1 to 0"),
        (np.zeros((2, 8, 8), np.float32), np.zeros(2, np.int64), "float32"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray, words: str
) -> None:
    np.savez(tmp_path / "bad.npz", images=images, labels=labels)
    with pytest.raises(ImageFileError, match=words):
        read_public(tmp_path / "bad.npz", SHAPE)


def test_accuracy_is_the_share_of_right_answers() -> None:
    randomness = torch.Generator().manual_seed(1)
    model = build_classifier("mlp-features", SHAPE, randomness, num_features=4, clip_norm=1.0)
    images = torch.rand((2500, 1, 8, 8), generator=randomness)
    with torch.no_grad():
        answers = model(images).argmax(dim=1)
    labels = torch.where(torch.arange(2500) % 5 == 0, (answers + 1) % 10, answers)
    test = PublicImages(images_NCHW=images, labels_N=labels, digest="d")
    assert accuracy(model, test) == pytest.approx(0.8)
